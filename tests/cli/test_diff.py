"""`diff`: what a run changed, told by its files, with the built-in agent and with the real ones."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.styles import Style, each_agent
from tests.cli_env import CliEnv, kill_process, wait_until
from tests.stores.snapshot_repository import wrap_git

from .scenarios import SAYS_HELLO, WAITS, release_tool, start_waiting_run, strip_run_note

WRITES_AND_RUNS = """
[[call]]
write = {path = "by-tool.txt", content = "one\\n"}
[[call]]
run = "echo two > by-shell.txt; rm old.txt; echo more >> kept.txt; touch a.log"
[[call]]
say = "Done."
"""
CASTS_A_SPELL = """
[[call]]
run = "printf '\\\\033[2J\\\\007\\\\n' > spell"
[[call]]
say = "Done."
"""
CHANGES = [("by-shell.txt", "added"), ("by-tool.txt", "added"), ("kept.txt", "modified"), ("old.txt", "deleted")]
PATCH = """\
diff --git a/by-shell.txt b/by-shell.txt
new file mode 100644
index 0000000..f719efd
--- /dev/null
+++ b/by-shell.txt
@@ -0,0 +1 @@
+two
diff --git a/by-tool.txt b/by-tool.txt
new file mode 100644
index 0000000..5626abf
--- /dev/null
+++ b/by-tool.txt
@@ -0,0 +1 @@
+one
diff --git a/kept.txt b/kept.txt
index bd93009..a0a5694 100644
--- a/kept.txt
+++ b/kept.txt
@@ -1 +1,2 @@
 kept
+more
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 3367afd..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
"""


@pytest.fixture
def repository(cli_env: CliEnv) -> CliEnv:
    return make_repository(cli_env)


@pytest.fixture(scope="module")
def env_with_changes(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with one ended run that changed files; its tests only look."""
    made = make_repository(CliEnv(tmp_path_factory.mktemp("changed"), binaries=binaries))
    assert made.run("scripted", WRITES_AND_RUNS).code == 0
    yield made
    made.close()


def make_repository(cli_env: CliEnv) -> CliEnv:
    """Makes the working folder a repository with a commit."""
    for name, text in {"kept.txt": "kept\n", "old.txt": "old\n", ".gitignore": "*.log\n"}.items():
        (cli_env.work / name).write_text(text)
    git(cli_env, "init", "-q")
    git(cli_env, "add", "-A")
    git(cli_env, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return cli_env


def git(cli_env: CliEnv, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=cli_env.work, env=cli_env.env, check=True, capture_output=True, text=True
    )
    return done.stdout


def run_diff(cli_env: CliEnv, *arguments: str) -> str:
    done = cli_env.inspan("diff", *arguments)
    assert (done.returncode, strip_run_note(done.stderr)) == (0, "")
    return done.stdout


def files_of(cli_env: CliEnv, shown: dict[str, Any]) -> list[tuple[str, str]]:
    return [(os.path.relpath(each["path"], cli_env.work), each["change"]) for each in shown["files"]]


def test_the_patch_has_what_tools_and_shell_commands_did(env_with_changes: CliEnv) -> None:
    assert run_diff(env_with_changes) == PATCH
    assert run_diff(env_with_changes, "@last") == PATCH
    assert run_diff(env_with_changes, env_with_changes.folder().name) == PATCH


def test_the_patch_can_be_applied(env_with_changes: CliEnv, tmp_path: Path) -> None:
    git(env_with_changes, "worktree", "add", "-q", "--detach", str(tmp_path / "again"))
    subprocess.run(["git", "apply"], cwd=tmp_path / "again", input=run_diff(env_with_changes).encode(), check=True)
    told = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "again", check=True, capture_output=True, text=True
    )
    assert told.stdout == " M kept.txt\n D old.txt\n?? by-shell.txt\n?? by-tool.txt\n"


def test_a_summary_and_names_alone(env_with_changes: CliEnv) -> None:
    assert run_diff(env_with_changes, "--stat").splitlines()[-1] == " 4 files changed, 3 insertions(+), 1 deletion(-)"
    assert run_diff(env_with_changes, "--name-only") == "by-shell.txt\nby-tool.txt\nkept.txt\nold.txt\n"


def test_paths_narrow_it_down(env_with_changes: CliEnv) -> None:
    assert run_diff(env_with_changes, "@last", "by-*", "--name-only") == "by-shell.txt\nby-tool.txt\n"
    assert (
        run_diff(env_with_changes, "@last", "--name-only", "--", str(env_with_changes.work / "kept.txt"))
        == "kept.txt\n"
    )


def test_json_has_files_and_patch(env_with_changes: CliEnv) -> None:
    told = json.loads(run_diff(env_with_changes, "--json"))
    assert told == {
        "schema": 1,
        "run_id": env_with_changes.folder().name,
        "top": str(env_with_changes.work),
        "files": [{"path": str(env_with_changes.work / path), "change": change} for path, change in CHANGES],
        "patch": PATCH,
        "notes": [],
    }


def test_the_last_event_names_every_file_and_each_is_told_once(env_with_changes: CliEnv) -> None:
    events = env_with_changes.events()
    told = [
        (os.path.relpath(each["path"], env_with_changes.work), each["change"]) for each in events if "change" in each
    ]
    assert told == [CHANGES[1], CHANGES[0], *CHANGES[2:]]
    assert events[-1]["files_changed"] == [str(env_with_changes.work / path) for path, _ in told]


def test_the_users_repository_is_not_touched(env_with_changes: CliEnv) -> None:
    assert (
        git(env_with_changes, "status", "--porcelain") == " M kept.txt\n D old.txt\n?? by-shell.txt\n?? by-tool.txt\n"
    )
    assert git(env_with_changes, "count-objects") == "5 objects, 20 kilobytes\n"


def test_a_run_that_changed_nothing_says_so(repository: CliEnv) -> None:
    repository.run("scripted", SAYS_HELLO)
    done = repository.inspan("diff")
    assert (done.returncode, done.stdout, strip_run_note(done.stderr)) == (0, "", "no changes\n")
    assert json.loads(run_diff(repository, "--json"))["patch"] == ""


def test_an_encoding_that_git_refuses_hides_nothing(repository: CliEnv) -> None:
    acts = "printf '*.x working-tree-encoding=UTF-16\\\\n' > .gitattributes; echo hi > a.x; rm kept.txt"
    done = repository.run("scripted", f'[[call]]\nrun = "{acts}"\n[[call]]\nsay = "done"\n')
    assert repository.inspan("diff", "--name-only").stdout.split() == [".gitattributes", "a.x", "kept.txt"]
    assert repository.inspan("undo", "--yes").returncode == 0, done.stderr
    assert (repository.work / "kept.txt").exists()


def test_changes_that_nobody_can_tell_are_told_as_unknown(repository: CliEnv) -> None:
    done = repository.run("scripted", '[[call]]\nrun = "mv .git gone; rm kept.txt"\n[[call]]\nsay = "done"\n')
    assert "\n! Which files were changed is not known: " in done.stderr
    assert "See for yourself: `git status`.\n" in done.stderr
    assert "\n  files changed: unknown\n" in done.stderr
    assert repository.events(done.run_id)[-1]["files_unknown"] is True


def test_files_that_are_not_compared_are_named(repository: CliEnv) -> None:
    outside = repository.root / "outside.txt"
    writes = [f"[[call]]\nwrite = {{path = '{path}', content = 'x'}}\n" for path in (outside, "kept.log")]
    repository.run("scripted", "".join([*writes, "[[call]]\nsay = 'Done.'\n"]))
    note = (
        "The agent reported files that are not shown here (outside of the work tree, ignored by git, in another "
        f"repository, or as they were before): {outside}, {repository.work / 'kept.log'}."
    )
    done = repository.inspan("diff")
    expected = f"inspan: {note}\nno changes in the work tree {repository.work}\n"
    assert (done.returncode, done.stdout, strip_run_note(done.stderr)) == (0, "", expected)
    assert json.loads(run_diff(repository, "--json"))["notes"] == [note]
    assert strip_run_note(repository.inspan("diff", "@last", "kept.txt").stderr) == "no changes\n"


def test_a_file_that_is_reported_through_a_link_is_compared(repository: CliEnv) -> None:
    (link := repository.root / "link").symlink_to(repository.work)
    scenario = f"[[call]]\nwrite = {{path = '{link}/new.txt', content = 'x'}}\n[[call]]\nsay = 'Done.'\n"
    repository.run("scripted", scenario)
    assert json.loads(run_diff(repository, "--json"))["notes"] == []


def test_a_living_run_is_compared_with_the_files_as_they_are(repository: CliEnv) -> None:
    run_id = start_waiting_run(repository)
    done = repository.inspan("diff", run_id, "--name-only")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert done.stderr == "inspan: The run is still going; this is what changed so far.\n"
    release_tool(repository)
    repository.inspan("wait", run_id)
    assert run_diff(repository, "--name-only") == "go\nstarted\n"


def test_a_lost_run_is_compared_with_the_files_as_they_are(repository: CliEnv) -> None:
    run_id = start_waiting_run(repository)
    wait_until(lambda: (repository.folder(run_id) / "snapshot.json").exists(), "first snapshot")
    kill_process(repository.supervisor(run_id))
    repository.inspan("wait", run_id)
    done = repository.inspan("diff", run_id, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, files_of(repository, told)) == (0, [("started", "added")])
    assert told["notes"] == [
        "The run was lost before its second snapshot. The first one is compared with the files as they are now."
    ]


def test_a_first_snapshot_that_comes_late_says_so(repository: CliEnv) -> None:
    wait = f'test "$3" = ls-files && while [ ! -e {repository.root}/shown ]; do sleep 0.02; done; exec "$GIT" "$@"'
    slow = {"PATH": wrap_git(repository.root / "programs", wait)}
    run_id = repository.detach("scripted", WAITS, env=slow)
    wait_until((repository.work / "started").exists, "tool")
    done = repository.inspan("diff", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "inspan: The first snapshot is not complete yet.\n")
    (repository.root / "shown").touch()
    wait_until(lambda: (repository.folder(run_id) / "snapshot.json").exists(), "first snapshot")
    release_tool(repository)
    repository.inspan("wait", run_id)
    done = repository.inspan("diff", run_id, "--name-only")
    assert done.stdout == "go\n"
    assert done.stderr.startswith("inspan: The first snapshot came ")
    assert done.stderr.endswith(" s after the first tool call: what changed before may be missing.\n")


@pytest.mark.parametrize(
    ("env", "why"),
    [
        pytest.param({}, "{work} is in no git work tree, so no snapshot was taken.", id="no repository"),
        pytest.param({"INSPAN_SNAPSHOT": "off"}, "INSPAN_SNAPSHOT is off, so no snapshot was taken.", id="off"),
    ],
)
def test_without_a_snapshot_the_agents_own_word_is_told(cli_env: CliEnv, env: dict[str, str], why: str) -> None:
    (cli_env.work / "kept.txt").touch()
    (cli_env.work / "old.txt").touch()
    run = cli_env.run("scripted", WRITES_AND_RUNS, env=env)
    path, problem = cli_env.work / "by-tool.txt", why.format(work=cli_env.work)
    done = cli_env.inspan("diff")
    assert (done.returncode, done.stdout) == (1, f"added {path}\n")
    assert strip_run_note(done.stderr) == (
        f"inspan: {problem}\n  → The agent reported these files; changes made by its shell commands are unknown.\n"
    )
    assert cli_env.inspan("diff", "--name-only").stdout == f"{path}\n"
    assert json.loads(cli_env.inspan("diff", "--json").stdout) == {
        "schema": 1,
        "run_id": run.run_id,
        "top": "",
        "files": [{"path": str(path), "change": "added"}],
        "patch": None,
        "notes": [problem],
    }
    assert run.ended["files_changed"] == [str(path)]


@pytest.mark.parametrize("after", ["true", "git init -q"])
def test_a_repository_that_the_agent_deleted_is_told_in_a_sentence(repository: CliEnv, after: str) -> None:
    run_id = repository.detach("scripted", f'[[call]]\nrun = "rm -rf .git; {after}; echo new > new"\n{SAYS_HELLO}')
    repository.wait_for_end(run_id)
    for command in ("diff", "undo"):
        told = strip_run_note(repository.inspan(command, run_id).stderr)
        assert "its .git was deleted, replaced or damaged." in told
        assert "git diff-tree" not in told and "fatal" not in told


def test_a_path_in_the_place_of_a_run_gets_a_hint(env_with_changes: CliEnv) -> None:
    done = env_with_changes.inspan("diff", "kept.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "inspan: There is no run 'kept.txt'.\n  → Name the run first: inspan diff @last kept.txt\n"


def test_a_path_outside_the_work_tree_is_refused(env_with_changes: CliEnv) -> None:
    done = env_with_changes.inspan("diff", "@last", "/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert strip_run_note(done.stderr).startswith("inspan: PATHS '/nowhere': ")
    assert done.stderr.endswith("  → Name files of the work tree.\n")


def test_shapes_that_exclude_each_other_are_refused(env_with_changes: CliEnv) -> None:
    done = env_with_changes.inspan("diff", "--stat", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr


def test_control_characters_are_shown_on_a_terminal_and_kept_in_a_pipe(repository: CliEnv) -> None:
    repository.run("scripted", CASTS_A_SPELL)
    patch = run_diff(repository)
    assert patch.endswith("+\x1b[2J\x07\n")
    assert on_a_terminal(repository, env={"NO_COLOR": "1"}) == patch.replace("\x1b", "␛").replace("\x07", "␇")


def test_a_terminal_gets_colours(env_with_changes: CliEnv) -> None:
    lines = on_a_terminal(env_with_changes, "@last", "kept.txt").splitlines()
    assert lines == [
        "\x1b[1mdiff --git a/kept.txt b/kept.txt\x1b[0m",
        "\x1b[1mindex bd93009..a0a5694 100644\x1b[0m",
        "\x1b[1m--- a/kept.txt\x1b[0m",
        "\x1b[1m+++ b/kept.txt\x1b[0m",
        "\x1b[36m@@ -1 +1,2 @@\x1b[0m",
        " kept",
        "\x1b[32m+more\x1b[0m",
    ]
    assert on_a_terminal(env_with_changes, "--stat") == run_diff(env_with_changes, "--stat")


@each_agent
def test_a_real_agents_tools_and_shell_commands_are_told(repository: CliEnv, style: Style) -> None:
    scenario = WRITES_AND_RUNS.replace("touch a.log", "touch a.log; git add kept.txt")
    run = repository.run(style.agent, scenario, *style.arguments)
    assert run.code == 0, run.stderr
    assert run_diff(repository) == PATCH
    told = [
        (os.path.relpath(each["path"], repository.work), each["change"]) for each in run.select_events("file_changed")
    ]
    assert told == [CHANGES[1], CHANGES[0], *CHANGES[2:]]
    assert run.ended["files_changed"] == [str(repository.work / path) for path, _ in told]


@each_agent
def test_files_that_cannot_be_read_do_not_spoil_it(user_cli_env: CliEnv, style: Style) -> None:
    cli_env = make_repository(user_cli_env)
    (cli_env.work / "locked").write_text("x")
    (cli_env.work / "locked").chmod(0)
    cli_env.run(style.agent, WRITES_AND_RUNS, *style.arguments)
    assert run_diff(cli_env) == PATCH


def on_a_terminal(cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        cli_env.argv("diff", *arguments),
        env={**cli_env.env, "TERM": "xterm", **(env or {})},
        cwd=cli_env.work,
        stdout=theirs,
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 4096):
            printed += piece
    except OSError:
        pass  # Linux says EIO where the other side of a terminal has closed.
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return printed.decode().replace("\r\n", "\n")


def test_a_path_in_the_place_of_a_run_is_told_by_both_readings(env_with_changes: CliEnv) -> None:
    done = env_with_changes.inspan("diff", "nosuch.txt")
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "inspan: There is no run 'nosuch.txt', and no file of that name here.\n"
        "  → `inspan ps -a` lists the runs. For a path, name the run first: inspan diff @last nosuch.txt\n",
    )
