"""`--sandbox worktree` and `inspan worktrees`, as a person types them."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.cli.commands.worktrees import _COLUMNS as COLUMNS  # pyright: ignore[reportPrivateUsage]  the table to try
from inspan.cli.output import format_table
from inspan.protocol.ids import make_short_name
from inspan.reporters.width import measure_width
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until
from tests.conftest import skip
from tests.stores.snapshot_repository import IDENTITY, wrap_git
from tests.stores.worktree_repository import RUN_ID

from .scenarios import SAYS_HELLO
from .test_diff import git, make_repository

WORKS = f"""
[[call]]
write = {{path = "new.txt", content = "new\\n"}}
[[call]]
run = "echo more >> kept.txt; git {" ".join(IDENTITY)} commit -qam work; echo later >> kept.txt"
[[call]]
say = "done"
"""
WAITS = """
[[call]]
run = "echo begun > begun.txt; while [ ! -e ../go ]; do sleep 0.02; done"
[[call]]
say = "went on"
"""


@pytest.fixture
def house(cli_env: CliEnv) -> CliEnv:
    return make_repository(cli_env)


def run(house: CliEnv, scenario: str = WORKS, *more: str, sandbox: str = "worktree") -> str:
    """A run in a worktree of its own, to its end; gives its id."""
    run_id = house.detach("scripted", scenario, "--sandbox", sandbox, *more)
    house.inspan("wait", run_id)
    return run_id


def list_entries(house: CliEnv, *more: str) -> list[dict[str, Any]]:
    done = house.inspan("worktrees", "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["worktrees"]


def find_path(house: CliEnv, run_id: str) -> Path:
    return Path(house.events(run_id)[0]["cwd"])


def read_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file() and path.name != ".git"}


def test_a_run_works_in_a_worktree_of_its_own_and_belongs_to_the_repository(house: CliEnv) -> None:
    before = read_files(house.work)
    run_id = run(house)
    path, short = find_path(house, run_id), make_short_name(run_id)
    assert read_files(house.work) == before
    assert read_files(path)["kept.txt"] == "kept\nmore\nlater\n"
    assert git(house, "log", "--format=%s", f"inspan/{short}") == "work\nfirst\n"
    plain = house.detach("scripted", SAYS_HELLO)
    house.inspan("wait", plain)
    rows = json.loads(house.inspan("ps", "-a", "--json").stdout)["runs"]
    assert {row["run_id"] for row in rows} == {run_id, plain}
    assert len({row["project"] for row in rows}) == 1
    assert json.loads(house.inspan("show", "@2", "--json").stdout)["run"]["run_id"] == run_id
    assert [row["run_id"] for row in json.loads(house.inspan("ps", "-a", "--json", cwd=path).stdout)["runs"]] == [
        plain,
        run_id,
    ]
    left = next(event for event in house.events(run_id) if event["kind"] == "worktree_left")
    assert left == {
        "kind": "worktree_left",
        "path": str(path),
        "kept": True,
        "branch": f"inspan/{short}",
        "files": 2,
        "commits": 1,
    }


def test_the_lines_of_a_run_say_where_it_works_and_what_comes_next(house: CliEnv) -> None:
    (house.work / "kept.txt").write_text("half done\n")
    done = house.run("scripted", WORKS, "--sandbox", "worktree", "--name", "boat")
    path = find_path(house, done.run_id)
    assert f"· worktree inspan/boat of {house.work} · full access" in done.stderr
    assert f"! 1 uncommitted change in {house.work} is not in the worktree, which begins at commit " in done.stderr
    short = make_short_name(done.run_id)
    assert f"  worktree kept on branch inspan/boat: 2 uncommitted files, 1 commit, in {path}\n" in done.stderr
    assert f"→ `inspan apply {short}` brings its changes here, `git merge inspan/boat` its commits;" in done.stderr


def test_a_worktree_in_which_nothing_changed_goes_with_its_branch(house: CliEnv) -> None:
    done = house.run("scripted", SAYS_HELLO, "--sandbox", "worktree")
    assert "  worktree removed: nothing was changed in it\n" in done.stderr
    assert (list_entries(house), git(house, "branch", "--format=%(refname:short)").split()) == ([], ["master"])
    assert not find_path(house, done.run_id).exists()


RESETS = f"""
[[call]]
run = "echo x > precious; git add precious; git {" ".join(IDENTITY)} commit -qm precious; git reset -q --hard HEAD~1"
[[call]]
say = "done"
"""
REWRITES = """
[[call]]
run = "sed -i 's/[0-9]/0/g' word"
[[call]]
say = "done"
"""


@pytest.mark.parametrize(
    ("scenario", "told", "listed"),
    [(RESETS, "1 commit on no branch", ("changed", 1)), (REWRITES, "1 uncommitted file", ("clean", 0))],
    ids=["a commit that was reset", "a keyword that git writes"],
)
def test_what_git_does_not_show_keeps_a_worktree(
    house: CliEnv, scenario: str, told: str, listed: tuple[str, int]
) -> None:
    (house.work / ".gitattributes").write_text("word ident\n")
    (house.work / "word").write_text("$Id$\n")
    git(house, "add", ".gitattributes", "word")
    git(house, *IDENTITY, "commit", "-qm", "rules")
    done = house.run("scripted", scenario, "--sandbox", "worktree")
    assert f": {told}, in {find_path(house, done.run_id)}\n" in done.stderr
    (entry,) = list_entries(house)
    assert (entry["state"], entry["unreachable"]) == listed
    assert house.inspan("worktrees", "prune", "--yes").returncode == 0
    house.inspan("worktrees", "restore", done.run_id)
    if scenario == REWRITES:
        blob = git(house, "rev-parse", "HEAD:word").strip()
        zeros = "".join("0" if letter.isdigit() else letter for letter in blob)
        assert (find_path(house, done.run_id) / "word").read_text() == f"$Id: {zeros} $\n"
    else:
        assert "precious" in git(house, "log", "--format=%s", f"refs/inspan/salvage/{done.run_id}")


def test_files_that_git_ignores_keep_a_worktree_until_somebody_removes_it(house: CliEnv) -> None:
    run_id = run(house, '[[call]]\nrun = "echo x > built.log"\n[[call]]\nsay = "built"\n')
    (entry,) = list_entries(house)
    assert (entry["run_id"], entry["state"], entry["ignored"], entry["files"]) == (run_id, "clean", 1, 0)
    removed = f"{make_short_name(run_id)} removed; 1 ignored file or folder deleted\n"
    assert house.inspan("worktrees", "prune", "--yes").stdout == removed


def test_a_subfolder_is_the_same_subfolder_of_the_worktree(house: CliEnv) -> None:
    (house.work / "sub").mkdir()
    run_id = run(house, WORKS.replace("kept.txt", "../kept.txt"), "--cwd", str(house.work / "sub"))
    path = find_path(house, run_id)
    assert (path.name, read_files(path)) == ("sub", {"new.txt": "new\n"})


def test_a_link_that_an_agent_has_committed_in_the_place_of_a_subfolder_leads_no_run_out(house: CliEnv) -> None:
    outside = house.work.parent / "outside"
    outside.mkdir()
    (house.work / "sub").symlink_to(outside)
    git(house, "add", "-A")
    git(house, *IDENTITY, "commit", "-qm", "a link")
    (house.work / "sub").unlink()
    (house.work / "sub/deep").mkdir(parents=True)
    model = house.scenario(SAYS_HELLO)
    argv = ("run", "go", "-a", "scripted", "--model-from", model, "--sandbox", "worktree")
    done = house.inspan(*argv, cwd=house.work / "sub/deep")
    assert "it leads out of the worktree." in done.stderr
    assert (done.returncode != 0, os.listdir(outside), list_entries(house)) == (True, [], [])


def test_apply_brings_the_changes_into_the_checkout_and_undo_takes_them_back(house: CliEnv) -> None:
    before = read_files(house.work)
    run_id = run(house)
    assert house.inspan("apply", "--yes").returncode == 0
    assert read_files(house.work) == {**before, "kept.txt": "kept\nmore\nlater\n", "new.txt": "new\n"}
    house.inspan("worktrees", "rm", run_id)
    assert house.inspan("undo", "--yes").returncode == 0
    assert read_files(house.work) == before
    (house.work / "kept.txt").write_text("my own\n")
    refused = house.inspan("apply", run_id, "--yes")
    assert refused.returncode != 0
    assert f"Nothing was applied, because of 1 file in {house.work}:" in refused.stderr
    assert read_files(house.work) == {**before, "kept.txt": "my own\n"}
    assert house.inspan("apply", run_id, "new.txt", "--yes").returncode == 0


@pytest.mark.parametrize("way", ["worktrees rm", "worktrees prune --yes", "rm", "prune --older-than 2099-01-01 --yes"])
def test_every_way_to_remove_one_saves_what_is_in_it(house: CliEnv, way: str) -> None:
    run_id = run(house)
    path = find_path(house, run_id)
    names = [run_id] if way.endswith("rm") else []
    done = house.inspan(*way.split(), *names)
    assert done.returncode == 0, done.stderr
    assert not path.exists()
    (entry,) = list_entries(house)
    assert (entry["state"], entry["run_id"]) == ("saved", run_id)
    assert git(house, "show", f"refs/inspan/salvage/{run_id}:kept.txt") == "kept\nmore\nlater\n"
    assert "+later" in Path(entry["patch"]).read_text()
    assert git(house, "worktree", "list").count("\n") == 1
    Path(entry["patch"]).write_text("evil")
    restored = house.inspan("worktrees", "restore", make_short_name(run_id))
    assert restored.stdout == f"{path}\n" and "is not what was saved" in restored.stderr.replace("\n", " ")
    assert read_files(path)["kept.txt"] == "kept\nmore\nlater\n"


IGNORED = """
[[call]]
run = "echo more >> kept.txt; echo x > build.log"
[[call]]
say = "done"
"""


def test_deleting_a_run_says_what_becomes_of_its_worktree_and_keeps_its_name(house: CliEnv) -> None:
    run_id = run(house, IGNORED, "--name", "sp")
    old = ("prune", "--older-than", "2099-01-01")
    for command in (("rm", "sp"), old):
        would = house.inspan(*command, "--dry-run")
        assert "worktree sp would be removed: " in would.stdout + would.stderr
        assert "(1 file, 1 ignored)" in would.stdout + would.stderr
    assert "uncommitted work is saved; 1 ignored file or folder deleted" in house.inspan(*old).stderr
    assert json.loads(house.inspan("rm", "sp", "--dry-run", "--json").stdout)["worktrees"] == [run_id]
    done = house.inspan("rm", "sp")
    assert done.stdout == f"{run_id}\n"
    assert f"worktree sp removed; saved as refs/inspan/salvage/{run_id} and " in done.stderr
    assert done.stderr.endswith(": `inspan worktrees restore sp`; 1 ignored file or folder deleted\n")
    assert [entry["run"] for entry in list_entries(house)] == ["sp"]
    assert house.inspan("worktrees", "restore", "sp").returncode == 0


def test_a_second_removal_says_that_there_was_a_first(house: CliEnv) -> None:
    run(house, IGNORED, "--name", "sp")
    first, second = (house.inspan("worktrees", "rm", "sp") for _ in range(2))
    assert first.stdout.startswith("sp removed; saved as refs/inspan/salvage/")
    assert second.stdout.startswith("sp was removed already; saved as refs/inspan/salvage/")
    assert "restore sp`" in second.stdout
    assert "was removed already" in house.inspan("worktrees", "rm", "sp", "--dry-run").stdout


def test_pruning_runs_says_what_becomes_of_their_worktrees(house: CliEnv) -> None:
    one, two = run(house, IGNORED, "--name", "sp"), run(house, IGNORED)
    asked = house.inspan("rm", one, two)
    question = "Delete 2 runs, their sessions and 2 worktrees (uncommitted work is saved; 2 ignored files and folders"
    assert question in asked.stderr
    lines = house.inspan("prune", "--older-than", "2099-01-01", "--yes").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("worktree ")][:2] == ["sp", make_short_name(two)]
    assert "2 runs, 2 sessions, 2 worktrees deleted; " in "\n".join(lines)
    assert lines[-1].endswith(f"`inspan worktrees restore {make_short_name(two)}`; 1 ignored file or folder deleted")


def test_removing_several_asks_and_forgetting_deletes_what_was_saved(house: CliEnv) -> None:
    one, two = run(house), run(house)
    alone = house.inspan("worktrees", "rm", one, "--forget")
    assert "Remove 1 worktree (what was saved of it is deleted" in alone.stderr
    asked = house.inspan("worktrees", "rm", one, two)
    assert (asked.returncode, "Cannot ask here: use --yes to remove" in asked.stderr) == (2, True)
    would = house.inspan("worktrees", "rm", one, two, "--dry-run").stdout.splitlines()
    assert [line.split(" would be removed: ")[0] for line in would] == [make_short_name(one), make_short_name(two)]
    assert len(list_entries(house)) == 2
    done = house.inspan("worktrees", "rm", one, two, "--forget", "--yes")
    assert done.returncode == 0, done.stderr
    assert (list_entries(house), git(house, "for-each-ref", "refs/inspan")) == ([], "")
    # Commits stay: they are on a branch that is the user's to delete.
    assert git(house, "branch", "--list", "inspan/*").count("inspan/") == 2


@pytest.mark.parametrize("width", range(20, 200))
def test_the_list_fits_the_width_and_names_run_and_state(width: int) -> None:
    path = f"~/.local/state/inspan/worktrees/app-0123abcd/{RUN_ID}"
    row = ("k3fb", "changed", "12 files, 3 commits", "inspan/k3fb", "24.6 kB", path, "~/src/app")
    lines = format_table(COLUMNS, [row], width=width).splitlines()
    assert all(measure_width(line) <= width for line in lines)
    assert "k3fb  changed" in lines[1]


def start_waiting(house: CliEnv) -> str:
    run_id = house.detach("scripted", WAITS, "--sandbox", "worktree")
    wait_until(lambda: (find_path(house, run_id) / "begun.txt").exists(), "tool")
    return run_id


def test_two_runs_have_two_worktrees_and_one_worktree_has_one_run(house: CliEnv) -> None:
    one, two = start_waiting(house), start_waiting(house)
    path = find_path(house, one)
    assert path != find_path(house, two)
    assert {entry["state"] for entry in list_entries(house)} == {"in use"}
    model = house.scenario(SAYS_HELLO)
    for command in (("worktrees", "rm", one), ("run", "x", "-a", "scripted", "-C", str(path), "--model-from", model)):
        refused = house.inspan(*command)
        assert f"Run {one} is working in the worktree {path}." in refused.stderr
    pruned = house.inspan("worktrees", "prune", "--yes")
    assert pruned.stdout == "nothing to remove\n"
    assert f"inspan: {make_short_name(one)} stays: run {one} works in it.\n" in pruned.stderr
    (path.parent / "go").touch()
    for run_id in (one, two):
        house.inspan("wait", run_id)
    assert {entry["state"] for entry in list_entries(house)} == {"changed"}


def test_the_worktree_of_a_run_whose_supervisor_was_killed_is_kept_and_saved(house: CliEnv) -> None:
    run_id = start_waiting(house)
    kill_process(house.supervisor(run_id))
    wait_until(lambda: not processes_of(run_id), "end of all its processes")
    (entry,) = list_entries(house)
    assert entry["state"] == "changed"
    assert house.inspan("worktrees", "prune", "--yes").returncode == 0
    assert git(house, "show", f"refs/inspan/salvage/{run_id}:begun.txt") == "begun\n"


def test_a_starter_that_is_killed_while_git_works_leaves_nothing_that_prune_does_not_remove(
    house: CliEnv, tmp_path: Path
) -> None:
    body = 'case "$3 $4" in "worktree add") "$GIT" "$@"; touch {0}/made; sleep 60;; *) exec "$GIT" "$@";; esac'
    slow = {"PATH": wrap_git(tmp_path / "bin", body.format(tmp_path))}
    model = house.scenario(SAYS_HELLO)
    starter = house.start("run", "x", "-a", "scripted", "--sandbox", "worktree", "--model-from", model, env=slow)
    wait_until(lambda: (tmp_path / "made").exists(), "worktree")
    starter.kill()
    starter.wait()
    (entry,) = list_entries(house)
    assert entry["state"] == "unfinished"
    done = house.inspan("worktrees", "prune", "--yes")
    assert done.returncode == 0, done.stderr
    assert (list_entries(house), git(house, "branch", "--format=%(refname:short)").split()) == ([], ["master"])
    assert git(house, "worktree", "list").count("\n") == 1


def test_a_starter_that_is_interrupted_while_git_works_takes_the_worktree_away(house: CliEnv, tmp_path: Path) -> None:
    body = 'case "$3 $4" in "worktree add") "$GIT" "$@"; touch {0}/made; exec sleep 60;; *) exec "$GIT" "$@";; esac'
    slow = {"PATH": wrap_git(tmp_path / "bin", body.format(tmp_path))}
    argv = house.argv("run", "x", "-a", "scripted", "--sandbox", "worktree", "--model-from", house.scenario(SAYS_HELLO))
    starter = subprocess.Popen(argv, env={**house.env, **slow}, cwd=house.work, start_new_session=True)
    house.processes.append(starter)
    wait_until(lambda: (tmp_path / "made").exists(), "worktree")
    # Whoever types Ctrl-C sends it to all that run in the foreground.
    os.killpg(starter.pid, signal.SIGINT)
    assert starter.wait(60) == 130
    assert (list_entries(house), git(house, "branch", "--format=%(refname:short)").split()) == ([], ["master"])
    assert not list(house.state.glob("projects/*/*/runs/*"))


def test_a_worktree_that_no_record_knows_is_adopted_and_saved(house: CliEnv) -> None:
    run_id = run(house)
    path = find_path(house, run_id)
    # As after a crash that has taken all that was known of it.
    Path(f"{path}.json").unlink()
    shutil.rmtree(house.state / "projects")
    (path / "kept.txt").write_text("adopted\n")
    (entry,) = list_entries(house, "--all")
    assert (entry["state"], entry["run_id"]) == ("changed", run_id)
    assert house.inspan("worktrees", "prune", "--all", "--yes").returncode == 0
    assert git(house, "show", f"refs/inspan/salvage/{run_id}:kept.txt") == "adopted\n"


def test_in_a_box_the_agent_commits_and_cannot_set_what_the_users_git_runs(house: CliEnv) -> None:
    if not _has_bwrap(house):
        skip("no-bubblewrap")
    common = house.work / ".git"
    tries = " ; ".join(
        f"echo x > {target} 2>/dev/null && echo wrote >> escaped.txt"
        for target in (
            common / "config",
            common / "hooks/post-commit",
            "$(git rev-parse --git-dir)/commondir",
            ".git",
        )
    )
    scenario = f"""
[[call]]
run = "echo more >> kept.txt; git {" ".join(IDENTITY)} commit -qam work && echo ok > committed.txt; {tries}; true"
[[call]]
say = "done"
"""
    run_id = run(house, scenario, sandbox="worktree+bwrap")
    path = find_path(house, run_id)
    assert read_files(path).get("committed.txt") == "ok\n", house.inspan("logs", run_id).stdout
    assert "escaped.txt" not in read_files(path)
    assert git(house, "log", "--format=%s", f"inspan/{make_short_name(run_id)}") == "work\nfirst\n"
    assert house.events(run_id)[0]["sandbox"] == "bwrap"


def _has_bwrap(house: CliEnv) -> bool:
    found = json.loads(house.inspan("doctor", "--json").stdout)
    return any(each.get("subject") == "sandbox bwrap" and each.get("state") == "ok" for each in found["findings"])


def test_outside_of_a_repository_and_without_a_commit_it_is_refused_and_nothing_is_left(cli_env: CliEnv) -> None:
    arguments = ("run", "x", "-a", "scripted", "--sandbox", "worktree", "--model-from", cli_env.scenario(SAYS_HELLO))
    assert "is in no git repository." in cli_env.inspan(*arguments).stderr
    git(cli_env, "init", "-q")
    refused = cli_env.inspan(*arguments)
    assert "has no commit that a worktree could be made of" in refused.stderr
    git(cli_env, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "first")
    git(cli_env, "checkout", "-q", "--orphan", "fresh")
    assert "The branch fresh, which " in cli_env.inspan(*arguments).stderr
    git(cli_env, "clone", "-q", "--bare", ".", "../bare")
    bare = cli_env.inspan(*arguments, cwd=cli_env.work.parent / "bare")
    assert f"{cli_env.work.parent / 'bare'} is a bare repository" in bare.stderr
    assert not list(cli_env.state.glob("projects/*/*/runs/*"))
    assert list_entries(cli_env) == []
    assert not list(cli_env.state.glob("worktrees/*/*"))


def test_a_resume_that_is_refused_makes_no_worktree_again(house: CliEnv) -> None:
    run_id = run(house)
    path = find_path(house, run_id)
    house.inspan("worktrees", "rm", run_id)
    before = list_entries(house)
    refused = house.inspan("resume", run_id, "more")
    assert (refused.returncode, path.exists(), list_entries(house)) == (2, False, before), refused.stderr
