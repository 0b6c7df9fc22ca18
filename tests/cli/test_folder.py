"""Runs of this folder: `@last`, and every command that picks a run by itself, mean the project that one stands in."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inspan.runs.projects import project_of
from tests.cli_env import CliEnv, SavedCliEnv, wait_until

from .dialogue import type_answer
from .refusal import expect_refusal, parse_refusal

PICKERS = ("show", "logs", "events", "diff", "transcript", "export")
SEVERAL = ("wait", "stop", "kill", "rm")
MAKES = "[[call]]\nrun = 'echo made > made.txt'\n[[call]]\nsay = 'made'\n"
WAITS = "[[call]]\nrun = 'touch started; while [ ! -e go ]; do sleep 0.02; done'\n[[call]]\nsay = 'went on'\n"


class Projects(NamedTuple):
    """Two repositories with one run each: first in `a`, then in `b`."""

    cli_env: CliEnv
    a: Path
    b: Path
    run_a: str
    run_b: str


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, env={"PATH": os.defpath})


def repository(path: Path) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q")
    (path / "kept.txt").write_text("kept\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    return path


def start_in(cli_env: CliEnv, cwd: Path, *more: str, agent: str = "scripted", scenario: str = MAKES) -> str:
    """Starts a run in a folder and gives its id."""
    model = cli_env.scenario(scenario, name=f"scenario-{len(os.listdir(cli_env.root))}")
    words = ("run", "do it", "-d", "-a", agent, "--profile", "clean", "--model-from", model, *more)
    done = cli_env.inspan(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_in(cli_env: CliEnv, cwd: Path, *more: str, agent: str = "scripted", scenario: str = MAKES) -> str:
    run_id = start_in(cli_env, cwd, *more, agent=agent, scenario=scenario)
    assert cli_env.inspan("wait", run_id).returncode == 0
    return run_id


def list_run_ids(cli_env: CliEnv) -> set[str]:
    return set(cli_env.inspan("ps", "-aq", "--all").stdout.split())


def two_projects(cli_env: CliEnv, *, agent: str = "scripted") -> Projects:
    a, b = repository(cli_env.root / "places" / "a"), repository(cli_env.root / "places" / "b")
    return Projects(cli_env, a, b, run_in(cli_env, a, agent=agent), run_in(cli_env, b, agent=agent))


@pytest.fixture(scope="module")
def shared_projects(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[Projects]:
    """Two projects whose runs, by a real agent, are only looked at."""
    made = CliEnv(tmp_path_factory.mktemp("two"), binaries=binaries)
    yield two_projects(made, agent="codex")
    made.close()


@pytest.fixture(scope="module")
def saved_projects(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> tuple[SavedCliEnv, Projects]:
    made = CliEnv(tmp_path_factory.mktemp("own"), binaries=binaries)
    found = two_projects(made)
    return SavedCliEnv(made), found


@pytest.fixture
def projects(saved_projects: tuple[SavedCliEnv, Projects]) -> Iterator[Projects]:
    """Two projects of the test's own, to change as it likes."""
    saved, found = saved_projects
    saved.restore()
    yield found
    saved.close()


# Picking


@pytest.mark.parametrize("name", [(), ("@last",)], ids=["by itself", "@last"])
@pytest.mark.parametrize("command", PICKERS)
def test_a_command_takes_the_last_run_of_its_own_project_and_says_so(
    shared_projects: Projects, command: str, name: tuple[str, ...]
) -> None:
    cli_env, a, b, run_a, run_b = shared_projects
    by_id = cli_env.inspan(command, run_a, cwd=a)
    assert by_id.returncode == 0, by_id.stderr
    done = cli_env.inspan(command, *name, cwd=a)
    assert (done.returncode, done.stdout) == (0, by_id.stdout)
    note, *rest = done.stderr.splitlines()
    assert note.startswith(f"inspan: run {run_a}: codex in {a}, ") and note.endswith(" ago")
    assert rest == by_id.stderr.splitlines()
    assert f"inspan: run {run_b}: codex in {b}, " in cli_env.inspan(command, *name, cwd=b).stderr


@pytest.mark.parametrize("command", PICKERS)
def test_json_is_alone_and_names_the_run(shared_projects: Projects, command: str) -> None:
    cli_env, a, _, run_a, _ = shared_projects
    more = ("-o", str(cli_env.root / f"{command}.jsonl")) if command == "export" else ()
    done = cli_env.inspan(command, *more, "--json", cwd=a)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert run_a in json.dumps(lines[0])


@pytest.mark.parametrize("command", PICKERS)
def test_the_last_run_of_all_has_a_name_of_its_own(shared_projects: Projects, command: str) -> None:
    cli_env, a, b, _, run_b = shared_projects
    done = cli_env.inspan(command, "@last-anywhere", cwd=a)
    assert done.returncode == 0
    assert done.stderr.startswith(f"inspan: run {run_b}: codex in {b}, ")


@pytest.mark.parametrize("command", [*PICKERS, *SEVERAL])
def test_a_project_without_a_run_gets_none_of_the_others(shared_projects: Projects, command: str) -> None:
    empty = shared_projects.cli_env.root / "empty"
    empty.mkdir(exist_ok=True)
    refusal = parse_refusal(shared_projects.cli_env.inspan(command, "@last", "--json", cwd=empty))
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == f"There is no run of this folder's project, {empty}."
    assert (
        refusal.next
        == "2 runs are in other projects: `inspan ps -a --all` lists them, @last-anywhere is the last of all."
    )


@pytest.mark.parametrize("command", SEVERAL)
def test_what_acts_on_runs_acts_on_none_that_nobody_named(projects: Projects, command: str) -> None:
    before = list_run_ids(projects.cli_env)
    done = projects.cli_env.inspan(command, cwd=projects.a)
    assert (done.returncode, done.stdout) == (2, "")
    assert list_run_ids(projects.cli_env) == before


def test_an_id_and_its_beginning_reach_runs_of_any_project(shared_projects: Projects) -> None:
    cli_env, a, _, _, run_b = shared_projects
    for name in (run_b, run_b[:-1]):
        done = cli_env.inspan("show", name, "--json", cwd=a)
        assert json.loads(done.stdout)["run"]["run_id"] == run_b
    both = parse_refusal(cli_env.inspan("show", "2", "--json", cwd=a))
    assert "'2' begins more than one run id" in both.message


def test_the_last_run_is_deleted_in_its_own_project(projects: Projects) -> None:
    cli_env, a, _, run_a, run_b = projects
    done = cli_env.inspan("rm", "@last", run_a, cwd=a)
    assert (done.returncode, done.stdout) == (0, f"{run_a}\n")
    assert done.stderr.startswith(f"inspan: run {run_a}: scripted in {a}, ")
    assert list_run_ids(cli_env) == {run_b}
    assert parse_refusal(cli_env.inspan("rm", "@last", "--json", cwd=a)).code == "run_not_found"
    assert list_run_ids(cli_env) == {run_b}


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_a_living_run_of_another_project_is_not_ended(projects: Projects, command: str) -> None:
    cli_env, a, b, run_a, _ = projects
    living = start_in(cli_env, b, scenario=WAITS)
    wait_until((b / "started").exists, "tool")
    done = cli_env.inspan(command, "@last", cwd=a)
    assert (done.returncode, done.stdout) == (0, f"{run_a} completed\n")
    assert cli_env.inspan("ps", "-q", cwd=b).stdout == f"{living}\n"
    ended_here = cli_env.inspan(command, "@last", cwd=b)
    assert (ended_here.returncode, ended_here.stdout) == (0, f"{living} cancelled\n")


def test_a_living_run_is_the_last_of_its_project_and_of_no_other(projects: Projects) -> None:
    cli_env, a, b, run_a, _ = projects
    living = start_in(cli_env, b, scenario=WAITS)
    wait_until((b / "started").exists, "tool")
    shown = [json.loads(cli_env.inspan("show", "--json", cwd=cwd).stdout)["run"]["run_id"] for cwd in (a, b)]
    (b / "go").touch()
    assert shown == [run_a, living]
    assert cli_env.inspan("wait", living).returncode == 0


# Which folders are one project


def sub_folder(projects: Projects) -> Path:
    (projects.a / "deep" / "er").mkdir(parents=True, exist_ok=True)
    return projects.a / "deep" / "er"


def link(projects: Projects) -> Path:
    path = projects.cli_env.root / "link"
    path.unlink(missing_ok=True)
    path.symlink_to(projects.a)
    return path


def link_into(projects: Projects) -> Path:
    path = projects.cli_env.root / "link-into"
    path.unlink(missing_ok=True)
    path.symlink_to(sub_folder(projects))
    return path


@pytest.mark.parametrize("place", [sub_folder, link, link_into])
def test_a_folder_of_the_same_work_tree_is_the_same_project(shared_projects: Projects, place: Any) -> None:
    cwd: Path = place(shared_projects)
    done = shared_projects.cli_env.inspan("show", "--json", cwd=cwd, env={"PWD": str(cwd)})
    assert json.loads(done.stdout)["run"]["run_id"] == shared_projects.run_a


def work_tree(projects: Projects) -> Path:
    path = projects.cli_env.root / "work-tree"
    if not path.exists():
        git(projects.a, "worktree", "add", "-q", str(path))
    return path


def clone(projects: Projects) -> Path:
    path = projects.cli_env.root / "clones" / "a"
    if not path.exists():
        git(projects.cli_env.root, "clone", "-q", str(projects.a), str(path))
    return path


def nested_repository(projects: Projects) -> Path:
    path = projects.a / "nested"
    return path if path.exists() else repository(path)


def parent_folder(projects: Projects) -> Path:
    return projects.a.parent


def test_a_linked_work_tree_is_of_its_repositorys_project(shared_projects: Projects) -> None:
    shown = shared_projects.cli_env.inspan("show", "--json", cwd=work_tree(shared_projects))
    assert json.loads(shown.stdout)["run"]["run_id"] == shared_projects.run_a


@pytest.mark.parametrize("place", [clone, nested_repository, parent_folder])
def test_another_repository_is_another_project(shared_projects: Projects, place: Any) -> None:
    cwd: Path = place(shared_projects)
    refusal = parse_refusal(shared_projects.cli_env.inspan("diff", "--json", cwd=cwd))
    assert refusal.message == f"There is no run of this folder's project, {cwd}."


def test_a_run_below_is_its_own_projects(projects: Projects) -> None:
    cli_env, a, _, run_a, _ = projects
    inner = run_in(cli_env, nested_repository(projects))
    shown = [json.loads(cli_env.inspan("show", "--json", cwd=cwd).stdout)["run"]["run_id"] for cwd in (a, a / "nested")]
    assert shown == [run_a, inner]


def test_a_run_with_a_project_of_its_own_name_is_still_one_of_its_folder(projects: Projects) -> None:
    cli_env, a, b, _, run_b = projects
    named = run_in(cli_env, a, "--project", "boat")
    deep = sub_folder(projects)
    shown = [json.loads(cli_env.inspan("show", "--json", cwd=cwd).stdout)["run"]["run_id"] for cwd in (a, deep, b)]
    assert shown == [named, named, run_b]


def test_folders_in_a_home_that_is_a_repository_are_one_project_and_the_folder_is_said(cli_env: CliEnv) -> None:
    home = Path(cli_env.env["HOME"])
    git(home, "init", "-q")
    for name in ("x", "y"):
        (home / name).mkdir()
    run_id = run_in(cli_env, home / "x")
    assert cli_env.inspan("show", cwd=home / "y").stderr.startswith(f"inspan: run {run_id}: scripted in {home / 'x'}, ")
    other = repository(home / "z")
    assert parse_refusal(cli_env.inspan("show", "--json", cwd=other)).code == "run_not_found"


def test_a_home_without_git_is_the_project_of_itself_alone(cli_env: CliEnv) -> None:
    home = Path(cli_env.env["HOME"])
    (home / "x").mkdir()
    run_in(cli_env, home / "x")
    refusal = parse_refusal(cli_env.inspan("show", "--json", cwd=home))
    assert refusal.message == f"There is no run of this folder's project, {home}."
    assert refusal.next.startswith("1 run is in another project: ")


@pytest.mark.parametrize("command", [*PICKERS, *SEVERAL, "prune"])
def test_a_folder_that_is_gone_has_no_project(shared_projects: Projects, command: str) -> None:
    name = () if command == "prune" else ("@last",)
    done = in_a_gone_folder(shared_projects.cli_env, command, *name, "--json")
    refusal = parse_refusal(done)
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
    assert refusal.message == "The current folder is gone, so it has no project."
    by_id = in_a_gone_folder(shared_projects.cli_env, "show", shared_projects.run_a, "--json")
    assert json.loads(by_id.stdout)["run"]["run_id"] == shared_projects.run_a


def test_no_project_is_set_up_in_a_folder_that_is_gone(cli_env: CliEnv) -> None:
    refusal = parse_refusal(in_a_gone_folder(cli_env, "init", "--agent", "codex", "--json"))
    assert (refusal.exit_code, refusal.message) == (2, "cwd '.': it is gone.")
    assert not os.path.exists("/inspan.toml")


def test_nothing_is_run_in_a_folder_that_is_gone(shared_projects: Projects) -> None:
    for more in ((), ("--resume", "@last"), ("--resume", shared_projects.run_a)):
        refusal = parse_refusal(
            in_a_gone_folder(shared_projects.cli_env, "run", "do it", "-a", "codex", *more, "--json")
        )
        assert (refusal.exit_code, refusal.code) == (2, "bad_input")
        assert refusal.message == "--cwd '.': the current folder is gone."


def test_a_folder_that_is_named_is_worked_in_though_the_current_one_is_gone(cli_env: CliEnv) -> None:
    words = ("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(MAKES), "-C", str(cli_env.work))
    # With its settings elsewhere, an agent's login is looked for by a path that begins with ~.
    done = in_a_gone_folder(cli_env, *words, env={"CODEX_HOME": str(cli_env.root / "codex")})
    assert done.returncode == 0, done.stderr
    assert (cli_env.work / "made.txt").exists()


@pytest.mark.parametrize(
    ("flag", "value"), [("--add-dir", "more"), ("--attach", "a.png"), ("--model-from", "script:more.toml"), ("-C", "x")]
)
def test_a_path_that_counts_from_a_folder_that_is_gone_is_refused(cli_env: CliEnv, flag: str, value: str) -> None:
    model = () if flag == "--model-from" else ("--model-from", cli_env.scenario(MAKES))
    words = ("run", "do it", "-a", "scripted", *model, "-C", str(cli_env.work), flag, value, "--json")
    refusal = parse_refusal(in_a_gone_folder(cli_env, *words))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"{'--cwd' if flag == '-C' else flag} {value!r}: the current folder is gone."
    assert refusal.next.startswith("Change to one that is there, or ")


def test_a_program_that_is_named_from_a_folder_that_is_gone_is_not_there(cli_env: CliEnv) -> None:
    words = ("run", "do it", "-a", "codex", "--model-from", cli_env.scenario(MAKES), "-C", str(cli_env.work), "--json")
    refusal = parse_refusal(in_a_gone_folder(cli_env, *words, env={"INSPAN_CODEX_BIN": "./codex"}))
    assert refusal.code == "agent_missing"
    assert refusal.message == "INSPAN_CODEX_BIN names ./codex, which does not exist."


def test_the_demo_needs_no_current_folder(cli_env: CliEnv) -> None:
    done = in_a_gone_folder(cli_env, "demo", "-a", "scripted")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"next: `{sys.executable} -m inspan show " in done.stdout


def in_a_gone_folder(
    cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    words = shlex.join([sys.executable, "-P", "-m", "inspan", *arguments])
    gone = cli_env.root / "gone"
    gone.mkdir(exist_ok=True)
    script = f"cd {shlex.quote(str(gone))} && rmdir {shlex.quote(str(gone))} && exec {words}"
    return subprocess.run(
        ["sh", "-c", script],
        env={**cli_env.env, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cli_env.root,
    )


def test_a_folder_whose_name_is_no_text_is_a_project_too(shared_projects: Projects) -> None:
    odd = Path(os.fsdecode(os.fsencode(str(shared_projects.cli_env.root)) + b"/odd\xff"))
    odd.mkdir(exist_ok=True)
    done = shared_projects.cli_env.inspan("show", cwd=odd)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no run of this folder's project" in done.stderr


# The patch of a run


def test_undoing_by_the_guides_recipe_changes_this_project_alone(projects: Projects) -> None:
    cli_env, a, b, run_a, _ = projects
    # The same change in a clone: nothing but its name tells whose patch it is.
    assert [(path / "made.txt").exists() for path in (a, b)] == [True, True]
    undone = run_piped(cli_env, "diff --here --binary | git apply -R", cwd=a)
    assert undone.returncode == 0, undone.stderr
    assert f"inspan: run {run_a}: " in undone.stderr
    assert [(path / "made.txt").exists() for path in (a, b)] == [False, True]


@pytest.mark.parametrize("name", ["@last-anywhere", "by id"])
def test_a_patch_of_another_project_is_not_given_to_be_applied_here(projects: Projects, name: str) -> None:
    cli_env, a, b, _, run_b = projects
    name = run_b if name == "by id" else name
    undone = run_piped(cli_env, f"diff --here {name} --binary | git apply -R", cwd=a)
    assert undone.returncode != 0
    assert f"--here '{a}': run {run_b} changed the work tree {b}." in undone.stderr
    assert f"`cd {b}` first" in undone.stderr
    assert [(path / "made.txt").exists() for path in (a, b)] == [True, True]


def test_a_patch_is_not_applied_in_part_from_a_folder_below(projects: Projects) -> None:
    cli_env, a, *_ = projects
    done = run_piped(cli_env, "diff --here --binary | git apply -R", cwd=sub_folder(projects))
    assert done.returncode != 0
    assert f"changed the work tree {a}." in done.stderr
    assert (a / "made.txt").exists()


def test_whose_patch_it_is_is_said_where_it_is_another_projects(shared_projects: Projects) -> None:
    cli_env, a, b, run_a, run_b = shared_projects
    assert cli_env.inspan("diff", run_a, cwd=a).stderr == ""
    assert cli_env.inspan("diff", run_b, cwd=a).stderr.startswith(f"inspan: run {run_b}: codex in {b}, ")
    assert cli_env.inspan("diff", run_b, "--json", cwd=a).stderr == ""


def run_piped(cli_env: CliEnv, words: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m inspan {words}"
    return subprocess.run(
        ["bash", "-c", line], env=cli_env.env, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_recording_is_not_written_over_what_is_there(projects: Projects) -> None:
    cli_env, a, *_ = projects
    kept = a / "kept.txt"
    refusal = expect_refusal(cli_env, "export", projects.run_a, "-o", str(kept))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert "is not overwritten" in refusal.message
    assert kept.read_text() == "kept\n"


# Deleting


def run_prune(cli_env: CliEnv, cwd: Path, *arguments: str) -> dict[str, Any]:
    done = cli_env.inspan("prune", "--older-than", "0d", *arguments, "--json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_only_this_projects_runs_are_pruned(projects: Projects) -> None:
    cli_env, a, b, run_a, run_b = projects
    named = run_in(cli_env, a, "--project", "boat")
    found = run_prune(cli_env, a, "--yes")
    assert (set(found["runs"]), set(found["sessions"])) == ({run_a, named}, {run_a, named})
    assert found["projects"] == {project_of(str(a)): 1, "boat": 1}
    assert list_run_ids(cli_env) == {run_b}
    assert os.listdir(cli_env.state / "sessions") == [run_b]
    assert run_prune(cli_env, b, "--all-projects", "--dry-run")["runs"] == [run_b]


def test_all_projects_are_pruned_where_that_is_asked_for(projects: Projects) -> None:
    cli_env, a, b, run_a, run_b = projects
    found = run_prune(cli_env, a, "--all-projects", "--yes")
    assert set(found["runs"]) == {run_a, run_b}
    assert found["projects"] == {project_of(str(a)): 1, project_of(str(b)): 1}
    assert list_run_ids(cli_env) == set()


def test_what_other_projects_have_left_stays(projects: Projects) -> None:
    cli_env, a, b, run_a, run_b = projects
    for run_id in (run_a, run_b):
        shutil.rmtree(cli_env.folder(run_id))
    cli_env.inspan("reindex")
    assert run_prune(cli_env, a, "--yes")["sessions"] == [run_a]
    assert os.listdir(cli_env.state / "sessions") == [run_b]
    assert run_prune(cli_env, b.parent, "--yes")["sessions"] == []
    assert run_prune(cli_env, a, "--all-projects", "--yes")["sessions"] == [run_b]


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_nothing_is_deleted_where_nobody_can_be_asked(projects: Projects, more: tuple[str, ...]) -> None:
    cli_env, a, b, run_a, run_b = projects
    done = cli_env.inspan("prune", "--older-than", "0d", "--all-projects", *more, cwd=a, stdin="y\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Delete 2 runs, 2 sessions (" in done.stderr
    assert f"{project_of(str(a))} 1" in done.stderr and f"{project_of(str(b))} 1" in done.stderr
    assert "--yes" in done.stderr and "--dry-run" in done.stderr
    assert list_run_ids(cli_env) == {run_a, run_b}


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1), ("\x04", 1), ("\x03", 1)])
def test_whoever_sits_at_a_terminal_is_shown_and_asked(projects: Projects, answer: str, code: int) -> None:
    cli_env, a, _, run_a, run_b = projects
    keys = answer if answer in ("\x03", "\x04") else f"{answer}\n"
    printed, left = type_answer(cli_env, keys, "prune", "--older-than", "0d", cwd=a)
    assert left == code, printed
    question = f"Delete 1 run, 1 session (.* ago; project {project_of(str(a))})? [y/N]:"
    before, _, after = printed.partition(question.partition(".*")[2])
    assert run_a in before and "WHAT" in before, printed
    assert list_run_ids(cli_env) == ({run_b} if code == 0 else {run_a, run_b})
    assert ("1 run, 1 session deleted" in after) == (code == 0), printed


def test_nothing_is_asked_where_nothing_would_be_deleted(projects: Projects) -> None:
    done = projects.cli_env.inspan("prune", cwd=projects.a)
    assert (done.returncode, done.stdout) == (0, "nothing deleted; 0 bytes freed\n")
    assert re.fullmatch(r"inspan: no run is older than 30d: `--older-than 0d` takes \d+ newer ones?\n", done.stderr)


def test_a_project_and_all_of_them_exclude_each_other(projects: Projects) -> None:
    refusal = expect_refusal(projects.cli_env, "prune", "--project", "boat", "--all-projects")
    assert (refusal.exit_code, refusal.code) == (2, "usage")
