"""The real agents in a worktree of their own: they edit, commit and leave files, and their sessions go on there."""

import json
import subprocess
from pathlib import Path

from tests.cli.test_diff import git, make_repository
from tests.cli_env import CliEnv
from tests.stores.snapshot_repository import IDENTITY

from .conversation import build_turn_scenario, list_runs
from .styles import Style, each_agent

COMMITS = f"git {' '.join(IDENTITY)} commit -qam by-the-agent"
WORKS = f"""
[[call]]
write = {{path = "by-tool.txt", content = "one\\n"}}
[[call]]
run = "echo more >> kept.txt && {COMMITS} && echo later >> kept.txt"
[[call]]
say = "done"
"""


def say(cli_env: CliEnv, *words: str, answer: str, holds: tuple[str, ...] = (), cwd: Path | None = None) -> str:
    model = cli_env.scenario(build_turn_scenario(answer, holds=holds), name=f"turn-{len(list_runs(cli_env))}")
    done = cli_env.inspan(*words, "-q", "--model-from", model, cwd=cwd)
    assert (done.returncode, done.stdout) == (0, f"{answer}\n"), done.stderr
    return list_runs(cli_env)[-1]


@each_agent
def test_a_real_agent_edits_commits_and_leaves_files_in_its_worktree(cli_env: CliEnv, style: Style) -> None:
    make_repository(cli_env)
    status = git(cli_env, "status", "--porcelain")
    done = cli_env.run(style.agent, WORKS, "--sandbox", "worktree", *style.arguments)
    assert done.code == 0, done.stderr
    path = Path(done.events[0]["cwd"])
    assert (path / "by-tool.txt").read_text() == "one\n"
    assert (path / "kept.txt").read_text() == "kept\nmore\nlater\n"
    assert git(cli_env, "log", "--format=%s", done.events[0]["branch"]) == "by-the-agent\nfirst\n"
    assert git(cli_env, "status", "--porcelain") == status
    assert cli_env.inspan("apply", "--yes").returncode == 0
    assert (cli_env.work / "kept.txt").read_text() == "kept\nmore\nlater\n"
    assert (cli_env.work / "by-tool.txt").read_text() == "one\n"


@each_agent
def test_a_session_goes_on_in_its_worktree_also_after_that_was_removed(cli_env: CliEnv, style: Style) -> None:
    make_repository(cli_env)
    begin = ("run", "alpha-word", "-a", style.agent, "--profile", "clean", "--sandbox", "worktree")
    first = say(cli_env, *begin, answer="re:alpha-word")
    path = Path(cli_env.events(first)[0]["cwd"])
    assert not path.exists()  # Nothing was changed in it.
    second = say(cli_env, "resume", first, "beta-word", answer="re:beta", holds=("alpha-word", "re:alpha-word"))
    assert cli_env.events(second)[0]["cwd"] == str(path)
    cli_env.inspan("worktrees", "restore", first)
    (path / "left.txt").write_text("left\n")
    cli_env.inspan("worktrees", "rm", first)
    assert not path.exists()
    third = say(cli_env, "resume", second, "gamma-word", answer="re:gamma", holds=("beta-word",))
    assert (path / "left.txt").read_text() == "left\n"
    assert json.loads(cli_env.inspan("worktrees", "--json").stdout)["worktrees"][0]["state"] == "changed"
    # Deleting one run of it leaves the worktree to the others.
    cli_env.inspan("rm", first)
    assert path.exists()
    cli_env.inspan("rm", second, third, "--yes")
    assert not path.exists()
    assert git(cli_env, "show", f"refs/inspan/salvage/{first}:left.txt") == "left\n"
    assert subprocess.run(["git", "fsck"], cwd=cli_env.work, capture_output=True, check=False).returncode == 0
