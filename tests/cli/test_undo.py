"""`undo` and `apply`, as a person types them, on runs of the built-in agent and of a real one."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import inspan
from inspan.errors import UndoRefused
from inspan.protocol.ids import make_short_name
from tests.agents.styles import Style, each_agent
from tests.cli_env import CliEnv, SavedCliEnv, kill_process, wait_until
from tests.conftest import skip

from .dialogue import type_answer
from .refusal import expect_refusal, parse_refusal
from .scenarios import release_tool, start_waiting_run, strip_run_note
from .test_diff import CHANGES, WRITES_AND_RUNS, git, make_repository

TABLE = """\
WHAT    FILE          LINES
delete  by-shell.txt  −1
delete  by-tool.txt   −1
change  kept.txt      −1
add     old.txt       +1
"""
LEFT = {
    ".gitignore": "*.log\n",
    "a.log": "",
    "by-shell.txt": "two\n",
    "by-tool.txt": "one\n",
    "kept.txt": "kept\nmore\n",
}
FOUND = {".gitignore": "*.log\n", "a.log": "", "kept.txt": "kept\n", "old.txt": "old\n"}


@pytest.fixture(scope="module")
def saved_changes(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> SavedCliEnv:
    made = _change_files(CliEnv(tmp_path_factory.mktemp("own"), binaries=binaries))
    return SavedCliEnv(made)


@pytest.fixture
def changed(saved_changes: SavedCliEnv) -> Iterator[CliEnv]:
    """A house of the test's own with one ended run that changed files."""
    yield saved_changes.restore()
    saved_changes.close()


@pytest.fixture(scope="module")
def kept_changes(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """The same for tests that only look; none of them changes a file."""
    made = _change_files(CliEnv(tmp_path_factory.mktemp("changed"), binaries=binaries))
    yield made
    assert read_files(made) == LEFT
    made.close()


def _change_files(made: CliEnv) -> CliEnv:
    assert make_repository(made).run("scripted", WRITES_AND_RUNS).code == 0
    return made


def read_files(cli_env: CliEnv) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(cli_env.work.iterdir()) if path.is_file()}


def succeed(cli_env: CliEnv, *arguments: str, cwd: Path | None = None) -> str:
    done = cli_env.inspan(*arguments, cwd=cwd)
    assert (done.returncode, strip_run_note(done.stderr)) == (0, "")
    return done.stdout


def test_nothing_is_changed_and_nothing_offered_where_the_same_bytes_were_written_again(cli_env: CliEnv) -> None:
    make_repository(cli_env)
    run = cli_env.run(
        "scripted", '[[call]]\nwrite = {path = "kept.txt", content = "kept\\n"}\n[[call]]\nsay = "Done."\n'
    )
    assert [event["path"] for event in run.select_events("file_changed")] == [str(cli_env.work / "kept.txt")]
    assert run.ended.get("files_changed", []) == []
    assert "  files changed: none" in run.stderr
    assert "  files changed: none" in succeed(cli_env, "show")


def test_a_run_is_not_undone_in_another_repository_at_its_path(changed: CliEnv) -> None:
    moved = changed.work.rename(changed.root / "moved")
    shutil.copytree(moved, changed.work, ignore=shutil.ignore_patterns(".git"))
    git(changed, "init", "-q")
    refusal = expect_refusal(changed, "undo", "--dry-run")
    assert refusal.message.endswith(f"The repository in {changed.work} is not the one in which it worked.")
    assert read_files(changed) == LEFT
    shutil.rmtree(changed.work)
    shutil.copytree(moved, changed.work)
    succeed(changed, "undo", "--yes")
    assert read_files(changed) == FOUND


def test_a_run_is_undone_and_applied_and_undone_again(changed: CliEnv) -> None:
    run_id, work = changed.folder().name, changed.work
    said = f"the changes of run {run_id} to 4 files in {work}"
    undone = f"{TABLE}{said} undone; `inspan apply {run_id}` brings them in again\n"
    assert succeed(changed, "undo", "--yes") == undone
    assert read_files(changed) == FOUND
    applied = succeed(changed, "apply", "-y")
    assert applied.splitlines()[-1] == f"{said} applied; `inspan undo {run_id}` takes them back"
    assert read_files(changed) == LEFT
    assert succeed(changed, "undo", run_id, "--yes") == undone
    assert read_files(changed) == FOUND


def test_the_second_time_says_so_and_how_to_go_back(changed: CliEnv) -> None:
    run_id, where = changed.folder().name, f"in {changed.work} are"
    succeed(changed, "undo", "--yes")
    for more in ((), ("--yes",), ("--dry-run",)):
        assert succeed(changed, "undo", *more) == (
            f"the changes of run {run_id} {where} undone already; `inspan apply {run_id}` brings them in again\n"
        )
    found = json.loads(succeed(changed, "undo", "--json"))
    assert (found["files"], len(found["unchanged"])) == ([], 4)
    succeed(changed, "apply", "--yes")
    assert succeed(changed, "apply") == (
        f"the changes of run {run_id} {where} applied already; `inspan undo {run_id}` takes them back\n"
    )


def test_show_says_when(changed: CliEnv) -> None:
    assert "changes undone" not in succeed(changed, "show")
    assert json.loads(succeed(changed, "show", "--json"))["undo"] == []
    succeed(changed, "undo", "--yes")
    last = succeed(changed, "show").splitlines()[-1]
    assert re.fullmatch(r"  changes undone at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(4 files\)", last)
    succeed(changed, "apply", "@last", "kept.txt", "--yes")
    assert re.fullmatch(r"  changes brought in again at .* UTC \(1 file\)", succeed(changed, "show").splitlines()[-1])
    assert [each["direction"] for each in json.loads(succeed(changed, "show", "--json"))["undo"]] == ["undo", "apply"]


def test_a_look_changes_nothing(kept_changes: CliEnv) -> None:
    run_id, work = kept_changes.folder().name, kept_changes.work
    assert succeed(kept_changes, "undo", "--dry-run") == (
        f"{TABLE}the changes of run {run_id} to 4 files in {work} would be undone\n"
    )


def test_json_has_each_file_and_what_happens_to_it(kept_changes: CliEnv) -> None:
    turned = {"added": "deleted", "deleted": "added", "modified": "modified"}
    lines = {"added": (0, 1), "deleted": (1, 0), "modified": (0, 1)}
    assert json.loads(succeed(kept_changes, "undo", "--dry-run", "--json")) == {
        "schema": 1,
        "run_id": kept_changes.folder().name,
        "action": "undo",
        "dry_run": True,
        "top": str(kept_changes.work),
        "files": [
            {
                "path": str(kept_changes.work / path),
                "change": turned[change],
                "lines_added": lines[change][0],
                "lines_removed": lines[change][1],
            }
            for path, change in CHANGES
        ],
        "unchanged": [],
        "notes": [],
    }


@pytest.mark.parametrize("command", ["undo", "apply"])
def test_where_nobody_can_be_asked_nothing_is_done(changed: CliEnv, command: str) -> None:
    if command == "apply":
        succeed(changed, "undo", "--yes")
    before = read_files(changed)
    done = changed.inspan(command, stdin="y\n")
    assert (done.returncode, done.stdout) == (2, "")
    what = {"undo": "Take back", "apply": "Bring in again"}[command]
    run_id = changed.folder().name
    assert strip_run_note(done.stderr) == (
        f"inspan: {what} the changes of run {run_id} to 4 files in {changed.work}? Cannot ask here: use --yes to "
        f"{command}, --dry-run to look.\n  → Try `inspan {command} --help`.\n"
    )
    assert expect_refusal(changed, command).code == "usage"
    assert read_files(changed) == before


@pytest.mark.parametrize("keys", ["n\n", "\x03", "\x04"], ids=["n", "Ctrl-C", "Ctrl-D"])
def test_anything_but_a_yes_undoes_nothing(kept_changes: CliEnv, keys: str) -> None:
    printed, code = type_answer(kept_changes, keys, "undo")
    assert (code, printed.splitlines()[-1]) == (1, "nothing undone"), printed


def test_somebody_at_a_terminal_sees_what_happens_before_the_question(changed: CliEnv) -> None:
    printed, code = type_answer(changed, "y\n", "undo")
    run = make_short_name(changed.folder().name)
    question = f"Take back the changes of run {run} to 4 files in {changed.work}? [y/N]:"
    before, _, after = printed.partition(question)
    assert code == 0, printed
    assert strip_run_note(before) == TABLE
    assert "undone; `inspan apply" in after and "WHAT" not in after
    assert read_files(changed) == FOUND


def test_the_work_tree_of_the_run_is_meant_wherever_one_is(changed: CliEnv, tmp_path: Path) -> None:
    run_id = changed.folder().name
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("another\n")
    assert f"in {changed.work} undone" in succeed(changed, "undo", run_id, "--yes", cwd=elsewhere)
    assert read_files(changed) == FOUND
    deep = changed.work / "deep"
    deep.mkdir()
    succeed(changed, "apply", run_id, "--yes", cwd=deep)
    assert read_files(changed) == LEFT
    assert (elsewhere / "kept.txt").read_text() == "another\n"


def test_paths_are_relative_to_the_current_folder(changed: CliEnv) -> None:
    deep = changed.work / "deep"
    deep.mkdir()
    assert (
        succeed(changed, "undo", "@last", "../by-*", "--yes", cwd=deep)
        .splitlines()[-1]
        .startswith(f"the changes of run {changed.folder().name} to 2 files")
    )
    assert sorted(read_files(changed)) == [".gitignore", "a.log", "kept.txt"]


@pytest.mark.parametrize(
    ("arguments", "code", "message", "next_step"),
    [
        (("kept.txt",), "run_not_found", "There is no run 'kept.txt'.", "inspan undo @last kept.txt"),
        (("nosuch",), "run_not_found", "There is no run 'nosuch'.", "inspan ps -a"),
        (("@last", "nosuch"), "bad_input", "PATHS 'nosuch': run ", "--name-only"),
        (("@last", "/nowhere"), "bad_input", "PATHS '/nowhere': ", "Name files of the work tree."),
    ],
)
def test_what_names_nothing_is_refused(
    kept_changes: CliEnv, arguments: tuple[str, ...], code: str, message: str, next_step: str
) -> None:
    refusal = expect_refusal(kept_changes, "undo", *arguments, "--yes")
    assert (refusal.exit_code, refusal.code) == (2, code)
    assert message in refusal.message and next_step in refusal.next


def test_a_file_that_changed_since_stops_it_and_is_named(changed: CliEnv) -> None:
    run_id = changed.folder().name
    (changed.work / "kept.txt").write_text("by hand\n")
    before = read_files(changed)
    for more in ("--yes", "--dry-run"):
        done = changed.inspan("undo", more)
        assert (done.returncode, done.stdout) == (1, "")
        assert strip_run_note(done.stderr) == (
            f"inspan: Nothing was undone, because of 1 file in {changed.work}:\n"
            "  kept.txt: changed since the run\n"
            f"  → To leave it out: `inspan undo {run_id} ':(top,exclude)kept.txt'`.\n"
        )
    assert expect_refusal(changed, "undo", "--yes").code == "undo_refused"
    assert read_files(changed) == before
    succeed(changed, "undo", run_id, ":(top,exclude)kept.txt", "--yes")
    assert read_files(changed) == {**FOUND, "kept.txt": "by hand\n"}


def test_a_living_run_is_refused(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(make_repository(cli_env))
    refusal = parse_refusal(cli_env.inspan("undo", run_id, "--yes", "--json"))
    assert (refusal.exit_code, refusal.code) == (1, "run_busy")
    release_tool(cli_env)
    cli_env.inspan("wait", run_id)
    succeed(cli_env, "undo", run_id, "--yes")
    assert not (cli_env.work / "started").exists()


def test_a_run_that_works_there_now_is_told(changed: CliEnv) -> None:
    first = changed.folder().name
    living = start_waiting_run(changed)
    done = changed.inspan("undo", first, "--dry-run")
    assert (done.returncode, done.stderr) == (
        0,
        f"inspan: Run {living} works there now: it will see the files change.\n",
    )
    release_tool(changed)
    changed.inspan("wait", living)


def test_a_lost_run_is_refused_with_the_way_to_see_its_changes(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(make_repository(cli_env))
    wait_until(lambda: (cli_env.folder(run_id) / "snapshot.json").exists(), "first snapshot")
    kill_process(cli_env.supervisor(run_id))
    cli_env.inspan("wait", run_id)
    refusal = parse_refusal(cli_env.inspan("undo", run_id, "--yes", "--json"))
    assert (refusal.exit_code, refusal.code) == (1, "undo_refused")
    assert "The run was lost before its second snapshot." in refusal.message
    assert refusal.next == f"`inspan diff {run_id}` shows what is known of them."
    assert (cli_env.work / "started").exists()


def test_a_run_outside_of_git_is_refused(cli_env: CliEnv) -> None:
    cli_env.run("scripted", "[[call]]\nwrite = {path = 'a', content = 'x'}\n[[call]]\nsay = 'Done.'\n")
    refusal = expect_refusal(cli_env, "undo", "--yes")
    assert (refusal.exit_code, refusal.code) == (1, "undo_refused")
    assert "is in no git work tree" in refusal.message


def test_a_run_that_changed_nothing_says_so(cli_env: CliEnv) -> None:
    run_id = make_repository(cli_env).run("scripted", "[[call]]\nsay = 'hello'\n").run_id
    assert succeed(cli_env, "undo") == f"run {run_id} changed no files in {cli_env.work}\n"


def test_files_that_undo_does_not_reach_are_named(cli_env: CliEnv) -> None:
    outside = cli_env.root / "outside.txt"
    writes = [f"[[call]]\nwrite = {{path = '{path}', content = 'x'}}\n" for path in (outside, "kept.log", "new.txt")]
    make_repository(cli_env).run("scripted", "".join([*writes, "[[call]]\nsay = 'Done.'\n"]))
    left = f"(outside of the work tree, ignored by git, in another repository, or as they were before): {outside}, "
    done = cli_env.inspan("undo", "--yes")
    assert f"inspan: The agent reported files that stay as they are {left}{cli_env.work / 'kept.log'}.\n" in done.stderr
    assert (outside.exists(), (cli_env.work / "kept.log").exists(), (cli_env.work / "new.txt").exists()) == (
        True,
        True,
        False,
    )
    assert "stay as they are" not in cli_env.inspan("undo", "@last", "new.txt", "--yes").stderr


def test_a_file_whose_name_is_no_text_is_not_told_as_left(cli_env: CliEnv) -> None:
    name = os.fsdecode(b"\xff\xfe bad")
    (cli_env.work / name).write_text("before")
    calls = "[[call]]\nrun = 'for each in *bad; do echo more >> \"$each\"; done'\n[[call]]\nsay = 'Done.'\n"
    make_repository(cli_env).run("scripted", calls)
    done = cli_env.inspan("undo", "--yes")
    assert (done.returncode, (cli_env.work / name).read_text()) == (0, "before")
    assert "stay as they are" not in done.stderr


def test_a_path_without_git_is_a_sentence(kept_changes: CliEnv) -> None:
    refusal = expect_refusal(kept_changes, "undo", "--yes", env={"PATH": str(kept_changes.root / "nothing")})
    assert (refusal.exit_code, refusal.code) == (1, "undo_refused")
    assert "There is no git program on PATH." in refusal.message


def test_a_work_tree_that_is_gone_is_a_sentence(changed: CliEnv) -> None:
    run_id = changed.folder().name
    changed.work.rename(changed.root / "moved")
    done = changed.inspan("undo", run_id, "--yes", "--json", cwd=changed.root)
    assert f"The work tree {changed.work} is gone." in parse_refusal(done).message


def test_a_folder_that_is_read_only_stops_it(user_cli_env: CliEnv) -> None:
    script = "[[call]]\nrun = 'mkdir d; echo x > d/new; echo y > new'\n[[call]]\nsay = 'Done.'\n"
    make_repository(user_cli_env).run("scripted", script)
    (user_cli_env.work / "d").chmod(0o500)
    try:
        refusal = expect_refusal(user_cli_env, "undo", "--yes")
        assert "  d/new: its folder is read-only" in refusal.message.splitlines()
        assert (user_cli_env.work / "new").exists()
    finally:
        (user_cli_env.work / "d").chmod(0o700)
    succeed(user_cli_env, "undo", "--yes")
    assert not (user_cli_env.work / "d").exists()


def test_a_full_disk_changes_nothing(cli_env: CliEnv) -> None:
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    model = cli_env.scenario("[[call]]\nrun = 'rm large; echo x > new'\n[[call]]\nsay = 'Done.'\n")
    run = shlex.join(cli_env.argv("run", "do it", "-q", "-a", "scripted", "--profile", "clean", "--model-from", model))
    undo = shlex.join(cli_env.argv("undo", "--yes"))
    script = f"""
    mount -t tmpfs -o size=4m small . || exit 99
    cd "$PWD"; git init -q; head -c 2000000 /dev/zero > large
    {run} || exit 98
    head -c 4000000 /dev/zero > filler; ls -A > before
    {undo}; echo "code $?"; ls -A; rm filler
    {undo}; echo "code $?"; ls -A; wc -c < large
    """
    done = subprocess.run(
        [*alone, "sh", "-c", script], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stderr and "All files are as they were." in done.stderr
    first, second = done.stdout.split("code ")[1:]
    assert first.split()[:5] == ["1", ".git", "before", "filler", "new"], done.stdout
    assert second.split() == ["0", ".git", "before", "large", "2000000"], done.stdout


def test_another_file_system_in_the_work_tree_is_refused(cli_env: CliEnv) -> None:
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    model = cli_env.scenario("[[call]]\nrun = 'echo x > disk/new; echo x > new'\n[[call]]\nsay = 'Done.'\n")
    run = shlex.join(cli_env.argv("run", "do it", "-q", "-a", "scripted", "--profile", "clean", "--model-from", model))
    undo = shlex.join(cli_env.argv("undo", "--yes"))
    script = (
        f"mkdir disk; mount -t tmpfs small disk || exit 99; git init -q; {run} || exit 98; {undo}; echo $?; ls . disk"
    )
    done = subprocess.run(
        [*alone, "sh", "-c", script], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False
    )
    assert "  disk/new: on a file system of its own" in done.stderr.splitlines(), done.stderr
    assert done.stdout.split() == ["Done.", "1", ".:", "disk", "new", "disk:", "new"]


def test_the_changes_of_an_earlier_run_lie_below_a_later_one(changed: CliEnv) -> None:
    first = changed.folder().name
    model = changed.scenario("[[call]]\nrun = 'echo again >> kept.txt'\n[[call]]\nsay = 'Done.'\n")
    succeed(changed, "run", "more", "-q", "-a", "scripted", "--profile", "clean", "--model-from", model)
    second = changed.inspan("ps", "-aq").stdout.split()[0]
    refusal = expect_refusal(changed, "undo", first, "--yes")
    assert f"  kept.txt: changed since the run, by run {second}" in refusal.message.splitlines()
    assert refusal.next.startswith(f"`inspan undo {second}` first.")
    succeed(changed, "undo", "--yes")
    succeed(changed, "undo", first, "--yes")
    assert read_files(changed) == FOUND


@each_agent
def test_a_real_agents_changes_are_undone_and_applied(cli_env: CliEnv, style: Style) -> None:
    make_repository(cli_env)
    run = cli_env.run(style.agent, WRITES_AND_RUNS, *style.arguments)
    assert run.code == 0, run.stderr
    assert read_files(cli_env) == LEFT
    succeed(cli_env, "undo", "--yes")
    assert read_files(cli_env) == FOUND
    succeed(cli_env, "apply", "--yes")
    assert read_files(cli_env) == LEFT


def test_a_program_undoes_and_applies(changed: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in changed.env.items():
        monkeypatch.setenv(name, value)
    run_id = changed.folder().name

    async def work() -> list[Any]:
        looked = await inspan.undo_run(run_id, dry_run=True)
        undone = await inspan.undo_run(inspan.find_run(run_id), paths=["by-*"])
        rest = await inspan.undo_run("@last", cwd=changed.work)
        return [looked, undone, rest, read_files(changed), await inspan.apply_run(run_id)]

    looked, undone, rest, files, applied = inspan.run_sync(work())
    assert [len(each.files) for each in (looked, undone, rest, applied)] == [4, 2, 2, 4]
    assert (files, read_files(changed)) == (FOUND, LEFT)
    (changed.work / "kept.txt").write_text("by hand")
    with pytest.raises(UndoRefused) as caught:
        inspan.run_sync(inspan.undo_run(run_id))
    assert caught.value.files == ["kept.txt"]
    with pytest.raises(inspan.InspanError, match="one text"):
        inspan.run_sync(inspan.undo_run(run_id, paths="kept.txt"))
    with pytest.raises(inspan.InspanError, match="no text"):
        inspan.run_sync(inspan.undo_run(run_id, paths=cast(list[str], [5])))


def test_a_cancelled_call_has_ended_when_its_caller_hears_of_it(
    changed: CliEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changed.env.items():
        monkeypatch.setenv(name, value)
    run_id = changed.folder().name

    async def cancel() -> dict[str, str]:
        undoing = asyncio.create_task(inspan.undo_run(run_id))
        await asyncio.sleep(0)
        undoing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await undoing
        return read_files(changed)

    assert inspan.run_sync(cancel()) == FOUND


@pytest.mark.parametrize("command", ["undo", "apply"])
def test_a_run_of_another_project_is_named_with_its_folder_first(changed: CliEnv, tmp_path: Path, command: str) -> None:
    run_id = changed.folder().name
    if command == "apply":
        assert changed.inspan("undo", run_id, "--yes").stderr == "", "the run is of this folder's project"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = changed.inspan(command, make_short_name(run_id), "--yes", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"inspan: run {run_id}: scripted in {changed.work}, ")
