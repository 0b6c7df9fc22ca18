"""Claiming, locking and finding run folders."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from inspan.errors import RunBusy, RunNotFound, StateUnusable
from inspan.stores import run_folder
from inspan.stores.run_folder import (
    RunFolder,
    active_runs,
    all_runs,
    claim_folder,
    is_locked,
    lock_run,
    mark_active,
    open_folder,
    read_json,
    unmark_active,
    write_json,
    write_text,
)
from tests.cli_env import wait_until

_NOW = datetime(2026, 1, 2, 3, 4, 5, 999_000, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_names_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process that has given no name yet."""
    monkeypatch.setattr(run_folder, "_taken", {})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return claim_folder(str(tmp_path / "runs"), pid=1)


def test_a_claim_makes_a_private_folder_named_after_the_moment(tmp_path: Path) -> None:
    made = claim_folder(str(tmp_path / "runs"), pid=7, now=_NOW)
    assert made.run_id == "20260102-030405999-7"
    assert [oct(os.stat(path).st_mode & 0o777) for path in (made.path, made.agent_folder)] == ["0o700", "0o700"]


def test_a_claim_moves_the_millisecond_on_until_the_name_is_free(tmp_path: Path) -> None:
    ids = [claim_folder(str(tmp_path), pid=7, now=_NOW).run_id for _ in range(3)]
    assert ids == ["20260102-030405999-7", "20260102-030406000-7", "20260102-030406001-7"]


def test_one_process_gives_no_name_twice_whatever_the_project(tmp_path: Path) -> None:
    ids = [claim_folder(str(tmp_path / project), pid=7, now=_NOW).run_id for project in "ab"]
    assert ids == ["20260102-030405999-7", "20260102-030406000-7"]


def test_processes_that_claim_at_once_all_get_folders_of_their_own(tmp_path: Path) -> None:
    script = """
import os, sys
from datetime import UTC, datetime
from inspan.stores.run_folder import claim_folder
while not os.path.exists(sys.argv[2]): pass
for _ in range(50):
    print(claim_folder(sys.argv[1], pid=7, now=datetime(2026, 1, 2, tzinfo=UTC)).run_id)
"""
    runs, go = tmp_path / "runs", tmp_path / "go"
    argv = [sys.executable, "-c", script, str(runs), str(go)]
    claimers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    go.touch()
    claimed = [name for claimer in claimers for name in claimer.communicate()[0].split()]
    assert len(claimed) == 200
    assert sorted(claimed) == sorted(os.listdir(runs))


def test_a_second_writer_is_refused_while_the_first_lives(folder: RunFolder) -> None:
    assert not is_locked(folder)
    lock = lock_run(folder)
    assert is_locked(folder)
    with pytest.raises(RunBusy, match=f"Run {folder.run_id} has a writer already"):
        lock_run(folder)
    os.close(lock)
    assert not is_locked(folder)
    os.close(lock_run(folder))


def test_a_lock_goes_over_to_the_child_that_is_given_its_descriptor(folder: RunFolder) -> None:
    lock = lock_run(folder)
    child = subprocess.Popen(["sleep", "1000"], pass_fds=[lock])
    os.close(lock)
    try:
        assert is_locked(folder)
        with pytest.raises(RunBusy):
            lock_run(folder)
    finally:
        child.kill()
        child.wait()
    assert not is_locked(folder)


def test_a_lock_does_not_leak_to_a_child_that_is_not_given_it(folder: RunFolder) -> None:
    lock = lock_run(folder)
    child = subprocess.Popen(["sleep", "1000"], close_fds=False)
    os.close(lock)
    try:
        assert not is_locked(folder)
    finally:
        child.kill()
        child.wait()


def test_looking_at_a_lock_from_another_process_does_not_take_it(folder: RunFolder) -> None:
    script = """
import sys
from inspan.stores.run_folder import open_folder, is_locked, RunFolder
folder = RunFolder(run_id="r", path=sys.argv[1])
print("ready", flush=True)
while True: is_locked(folder)
"""
    lock = lock_run(folder)
    looker = subprocess.Popen([sys.executable, "-c", script, folder.path], stdout=subprocess.PIPE)
    try:
        assert looker.stdout
        looker.stdout.readline()
        assert all(is_locked(folder) for _ in range(1000))
        os.close(lock)
        assert wait_until(lambda: not is_locked(folder), "free lock")
    finally:
        looker.kill()
        looker.communicate()


def test_a_folder_is_a_run_once_it_is_described(tmp_path: Path) -> None:
    made = claim_folder(str(tmp_path / "projects" / "p" / "t" / "runs"), pid=1)
    assert list(all_runs(str(tmp_path))) == []
    with pytest.raises(RunNotFound):
        open_folder(made.path)
    write_json(made.file("run.json"), {"schema": 1})
    assert list(all_runs(str(tmp_path))) == [made]
    assert open_folder(made.path) == made
    assert read_json(made.file("run.json")) == {"schema": 1}


def test_active_runs_are_listed_oldest_first_until_they_are_taken_off(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert active_runs(state) == []
    runs = [claim_folder(str(tmp_path / "runs"), pid=7, now=_NOW) for _ in range(3)]
    for run in reversed(runs):
        mark_active(state, run)
    assert active_runs(state) == runs
    for _ in range(2):
        unmark_active(state, runs[1].run_id)
    assert active_runs(state) == [runs[0], runs[2]]


def test_files_of_a_run_are_for_its_owner_alone(folder: RunFolder) -> None:
    write_json(folder.file("run.json"), {})
    write_text(folder.file("prompt.md"), "hi")
    os.close(lock_run(folder))
    modes = {name: oct(os.stat(folder.file(name)).st_mode & 0o777) for name in ("run.json", "prompt.md", "lock")}
    assert modes == {"run.json": "0o600", "prompt.md": "0o600", "lock": "0o600"}


def test_a_json_file_is_replaced_whole_and_leaves_no_draft(folder: RunFolder) -> None:
    for value in ({"a": 1}, {"b": 2}):
        write_json(folder.file("run.json"), value)
    assert read_json(folder.file("run.json")) == {"b": 2}
    assert sorted(os.listdir(folder.path)) == ["agent", "run.json"]


def test_a_file_where_a_folder_is_needed_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = RunFolder(run_id=claim_folder(str(tmp_path / "runs"), pid=1).run_id, path=str(tmp_path / "file" / "run"))
    acts = (
        lambda: claim_folder(str(tmp_path / "file" / "runs"), pid=1),
        lambda: claim_folder(str(tmp_path / "file"), pid=1),
        lambda: lock_run(blocked),
        lambda: write_json(blocked.file("run.json"), {}),
        lambda: write_text(blocked.file("prompt.md"), ""),
        lambda: read_json(blocked.file("run.json")),
        lambda: mark_active(str(tmp_path / "file"), blocked),
        lambda: active_runs(str(tmp_path / "file")),
    )
    for act in acts:
        with pytest.raises(StateUnusable) as caught:
            act()
        assert str(tmp_path / "file") in caught.value.message
        assert caught.value.next_step


@pytest.mark.parametrize("content", [b"", b"\xff{", b'{"a":"\xff"}', b"[]", b'{"a":' * 9999])
def test_a_file_that_is_no_json_is_told_in_a_sentence(folder: RunFolder, content: bytes) -> None:
    Path(folder.file("run.json")).write_bytes(content)
    with pytest.raises(StateUnusable, match=r"run\.json is not readable as JSON"):
        read_json(folder.file("run.json"))
