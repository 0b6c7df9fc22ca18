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
from tests.house import House, end, until
from tests.stores.ground import wrapped_git

from .scenes import SAYS_HELLO, WAITS, let_go, waiting_run

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
def repository(house: House) -> House:
    return with_repository(house)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[House]:
    """A house with one ended run that changed files; its tests only look."""
    made = with_repository(House(tmp_path_factory.mktemp("changed"), binaries=binaries))
    assert made.run("scripted", WRITES_AND_RUNS).code == 0
    yield made
    made.close()


def with_repository(house: House) -> House:
    """Makes the working folder a repository with a commit."""
    for name, text in {"kept.txt": "kept\n", "old.txt": "old\n", ".gitignore": "*.log\n"}.items():
        (house.work / name).write_text(text)
    git(house, "init", "-q")
    git(house, "add", "-A")
    git(house, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return house


def git(house: House, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=house.work, env=house.env, check=True, capture_output=True, text=True
    )
    return done.stdout


def shown(house: House, *arguments: str) -> str:
    done = house.inspan("diff", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def files_of(house: House, shown: dict[str, Any]) -> list[tuple[str, str]]:
    return [(os.path.relpath(each["path"], house.work), each["change"]) for each in shown["files"]]


def test_the_patch_has_what_tools_and_shell_commands_did(changed: House) -> None:
    assert shown(changed) == PATCH
    assert shown(changed, "@last") == PATCH
    assert shown(changed, changed.folder().name) == PATCH


def test_the_patch_can_be_applied(changed: House, tmp_path: Path) -> None:
    git(changed, "worktree", "add", "-q", "--detach", str(tmp_path / "again"))
    subprocess.run(["git", "apply"], cwd=tmp_path / "again", input=shown(changed).encode(), check=True)
    told = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "again", check=True, capture_output=True, text=True
    )
    assert told.stdout == " M kept.txt\n D old.txt\n?? by-shell.txt\n?? by-tool.txt\n"


def test_a_summary_and_names_alone(changed: House) -> None:
    assert shown(changed, "--stat").splitlines()[-1] == " 4 files changed, 3 insertions(+), 1 deletion(-)"
    assert shown(changed, "--name-only") == "by-shell.txt\nby-tool.txt\nkept.txt\nold.txt\n"


def test_paths_narrow_it_down(changed: House) -> None:
    assert shown(changed, "@last", "by-*", "--name-only") == "by-shell.txt\nby-tool.txt\n"
    assert shown(changed, "@last", "--name-only", "--", str(changed.work / "kept.txt")) == "kept.txt\n"


def test_json_has_files_and_patch(changed: House) -> None:
    told = json.loads(shown(changed, "--json"))
    assert told == {
        "schema": 1,
        "run_id": changed.folder().name,
        "top": str(changed.work),
        "files": [{"path": str(changed.work / path), "change": change} for path, change in CHANGES],
        "patch": PATCH,
        "notes": [],
    }


def test_the_last_event_names_every_file_and_each_is_told_once(changed: House) -> None:
    events = changed.events()
    told = [(os.path.relpath(each["path"], changed.work), each["change"]) for each in events if "change" in each]
    assert told == [CHANGES[1], CHANGES[0], *CHANGES[2:]]
    assert events[-1]["files_changed"] == [str(changed.work / path) for path, _ in told]


def test_the_users_repository_is_not_touched(changed: House) -> None:
    assert git(changed, "status", "--porcelain") == " M kept.txt\n D old.txt\n?? by-shell.txt\n?? by-tool.txt\n"
    assert git(changed, "count-objects") == "5 objects, 20 kilobytes\n"


def test_a_run_that_changed_nothing_says_so(repository: House) -> None:
    repository.run("scripted", SAYS_HELLO)
    done = repository.inspan("diff")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no changes\n")
    assert json.loads(shown(repository, "--json"))["patch"] == ""


def test_a_living_run_is_compared_with_the_files_as_they_are(repository: House) -> None:
    run_id = waiting_run(repository)
    done = repository.inspan("diff", run_id, "--name-only")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert done.stderr == "inspan: The run goes on; this is what changed so far.\n"
    let_go(repository)
    repository.inspan("wait", run_id)
    assert shown(repository, "--name-only") == "go\nstarted\n"


def test_a_lost_run_is_compared_with_the_files_as_they_are(repository: House) -> None:
    run_id = waiting_run(repository)
    until(lambda: (repository.folder(run_id) / "snapshot.json").exists(), "first snapshot")
    end(repository.supervisor(run_id))
    repository.inspan("wait", run_id)
    done = repository.inspan("diff", run_id, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, files_of(repository, told)) == (0, [("started", "added")])
    assert told["notes"] == [
        "The run was lost before its second snapshot. The first one is compared with the files as they are now."
    ]


def test_a_first_snapshot_that_comes_late_says_so(repository: House) -> None:
    wait = f'test "$3" = ls-files && while [ ! -e {repository.work}/started ]; do sleep 0.02; done; exec "$GIT" "$@"'
    slow = {"PATH": wrapped_git(repository.root / "programs", wait)}
    run_id = repository.detach("scripted", WAITS, env=slow)
    done = repository.inspan("diff", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "inspan: The first snapshot is not complete yet.\n")
    until(lambda: (repository.folder(run_id) / "snapshot.json").exists(), "first snapshot")
    let_go(repository)
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
def test_without_a_snapshot_the_agents_own_word_is_told(house: House, env: dict[str, str], why: str) -> None:
    (house.work / "kept.txt").touch()
    (house.work / "old.txt").touch()
    run = house.run("scripted", WRITES_AND_RUNS, env=env)
    path, problem = house.work / "by-tool.txt", why.format(work=house.work)
    done = house.inspan("diff")
    assert (done.returncode, done.stdout) == (1, f"added {path}\n")
    assert done.stderr == (
        f"inspan: {problem}\n  → The agent itself told of these files; what its shell commands changed is not known.\n"
    )
    assert house.inspan("diff", "--name-only").stdout == f"{path}\n"
    assert json.loads(house.inspan("diff", "--json").stdout) == {
        "schema": 1,
        "run_id": run.run_id,
        "top": "",
        "files": [{"path": str(path), "change": "added"}],
        "patch": None,
        "notes": [problem],
    }
    assert run.ended["files_changed"] == [str(path)]


def test_a_path_in_the_place_of_a_run_gets_a_hint(changed: House) -> None:
    done = changed.inspan("diff", "kept.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "inspan: There is no run 'kept.txt'.\n  → Name the run first: inspan diff @last kept.txt\n"


def test_a_path_outside_the_work_tree_is_refused(changed: House) -> None:
    done = changed.inspan("diff", "@last", "/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inspan: PATHS '/nowhere': ")
    assert done.stderr.endswith("  → Name files of the work tree.\n")


def test_shapes_that_exclude_each_other_are_refused(changed: House) -> None:
    done = changed.inspan("diff", "--stat", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr


def test_control_characters_are_shown_on_a_terminal_and_kept_in_a_pipe(repository: House) -> None:
    repository.run("scripted", CASTS_A_SPELL)
    patch = shown(repository)
    assert patch.endswith("+\x1b[2J\x07\n")
    assert on_a_terminal(repository, env={"NO_COLOR": "1"}) == patch.replace("\x1b", "␛").replace("\x07", "␇")


def test_a_terminal_gets_colours(changed: House) -> None:
    lines = on_a_terminal(changed, "@last", "kept.txt").splitlines()
    assert lines == [
        "\x1b[1mdiff --git a/kept.txt b/kept.txt\x1b[0m",
        "\x1b[1mindex bd93009..a0a5694 100644\x1b[0m",
        "\x1b[1m--- a/kept.txt\x1b[0m",
        "\x1b[1m+++ b/kept.txt\x1b[0m",
        "\x1b[36m@@ -1 +1,2 @@\x1b[0m",
        " kept",
        "\x1b[32m+more\x1b[0m",
    ]
    assert on_a_terminal(changed, "--stat") == shown(changed, "--stat")


@each_agent
def test_a_real_agents_tools_and_shell_commands_are_told(repository: House, style: Style) -> None:
    scenario = WRITES_AND_RUNS.replace("touch a.log", "touch a.log; git add kept.txt")
    run = repository.run(style.agent, scenario, *style.arguments)
    assert run.code == 0, run.stderr
    assert shown(repository) == PATCH
    told = [(os.path.relpath(each["path"], repository.work), each["change"]) for each in run.of("file_changed")]
    assert told == [CHANGES[1], CHANGES[0], *CHANGES[2:]]
    assert run.ended["files_changed"] == [str(repository.work / path) for path, _ in told]


@each_agent
def test_files_that_cannot_be_read_do_not_spoil_it(user_house: House, style: Style) -> None:
    house = with_repository(user_house)
    (house.work / "locked").write_text("x")
    (house.work / "locked").chmod(0)
    house.run(style.agent, WRITES_AND_RUNS, *style.arguments)
    assert shown(house) == PATCH


def on_a_terminal(house: House, *arguments: str, env: dict[str, str] | None = None) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        house.argv("diff", *arguments), env={**house.env, "TERM": "xterm", **(env or {})}, cwd=house.work, stdout=theirs
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 4096):
            printed += piece
    except OSError:
        pass  # Linux says EIO where the other side of a terminal has closed.
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return printed.decode().replace("\r\n", "\n")
