"""What belongs to no run any more, and what only looks so."""

import fcntl
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.stores.orphans import disk_bytes, find_orphan_drafts, find_orphan_sessions, find_orphan_sockets
from inspan.stores.paths import socket_path
from inspan.stores.sessions import SessionRecord, write_session
from tests.deep_tree import nest_folders

A, B, C = (f"20260102-03040500{number}-7" for number in range(3))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path


def add_run(state: Path, run_id: str) -> Path:
    folder = state / "projects" / "p" / "t" / "runs" / run_id
    folder.mkdir(parents=True)
    return folder


def add_session(state: Path, name: str, *, runs: tuple[str, ...] | None = None) -> Path:
    """A session folder, with a record in it where its runs are given."""
    folder = state / "sessions" / name
    folder.mkdir(parents=True)
    if runs is not None:
        record = SessionRecord(key=name, agent="a", profile="clean", cwd="/", runs=runs)
        write_session(str(state), record)
    return folder


def names(state: Path, **more: set[str]) -> list[str]:
    return [each.name for each in find_orphan_sessions(str(state), **more)]


def make_old(path: Path) -> Path:
    os.utime(path, (time.time() - 3600, time.time() - 3600), follow_symlinks=False)
    return path


def test_nothing_is_left_where_nothing_is(state: Path) -> None:
    nowhere = str(state / "nowhere")
    assert (find_orphan_sessions(nowhere), find_orphan_sockets(nowhere), find_orphan_drafts(nowhere)) == ([], [], [])


def test_a_session_without_a_record_goes_with_the_run_it_is_named_after(state: Path) -> None:
    add_run(state, A)
    for name in (A, B):
        add_session(state, name)
    assert names(state) == [B]
    assert names(state, deleted={A}) == [A, B]


def test_a_session_stays_as_long_as_any_of_its_runs(state: Path) -> None:
    add_run(state, B)
    add_session(state, A, runs=(A, B))
    assert names(state) == []
    assert names(state, deleted={B}) == [A]


def test_a_run_that_has_only_claimed_its_folder_keeps_its_session(state: Path) -> None:
    assert list(add_run(state, A).iterdir()) == []
    add_session(state, A)
    assert names(state) == []


def test_a_session_that_somebody_has_locked_stays(state: Path) -> None:
    folder = add_session(state, A, runs=(B,))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert names(state) == []
    assert names(state) == [A]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"runs":[1]}'])
def test_a_session_whose_record_cannot_be_read_stays_as_long_as_a_run_names_it(state: Path, content: bytes) -> None:
    add_run(state, A)
    (add_run(state, C) / "run.json").write_text(json.dumps({"session": B}))
    for name in (A, B, "20250101-000000000-1"):
        (add_session(state, name) / "session.json").write_bytes(content)
    assert names(state) == ["20250101-000000000-1"]
    assert names(state, deleted={A, C}) == ["20250101-000000000-1", A, B]


def test_a_session_that_began_without_inspan_goes_like_any_other(state: Path) -> None:
    add_run(state, A)
    add_session(state, "agent-1", runs=(A,))
    add_session(state, "agent-2", runs=(B,))
    assert names(state) == ["agent-2"]


def test_what_is_no_session_is_left_alone(state: Path) -> None:
    add_session(state, "mine")
    (state / "sessions" / A).write_text("a file")
    (state / "elsewhere").mkdir()
    (state / "sessions" / B).symlink_to(state / "elsewhere")
    assert names(state) == []


def test_drafts_of_writers_that_are_gone_are_found_wherever_they_wrote(state: Path) -> None:
    run, session = add_run(state, A), add_session(state, A)
    drafts = [run / "run.json.12.draft", session / "session.json.12.draft"]
    for draft in drafts:
        draft.write_text("{")
        make_old(draft)
    (run / "exit.json.13.draft").write_text("being written just now")
    make_old(run).joinpath("run.json").write_text("{}")
    (run / "folder.draft").mkdir()
    make_old(run / "folder.draft")
    assert [Path(each.path) for each in find_orphan_drafts(str(state))] == drafts


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of the test's own; short, because socket paths must be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        (Path(name) / "inspan").mkdir()
        yield Path(name) / "inspan"


def bind_socket(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    make_old(Path(path))
    return listener


def test_a_socket_that_nobody_listens_on_is_left(state: Path, runtime: Path) -> None:
    run = add_run(state, A)
    deaf, listening, young, deleted = (
        socket_path(str(run.parent / name), name) for name in (A, B, C, "20250101-000000000-1")
    )
    bind_socket(deaf).close()
    bind_socket(deleted).close()
    bind_socket(young).close()
    os.utime(young)
    with bind_socket(listening) as server:
        server.listen()
        found = [each.path for each in find_orphan_sockets(str(state))]
    assert sorted(found) == sorted([deaf, deleted])
    assert {Path(path).parent for path in found} == {runtime}


def test_sockets_of_another_state_folder_and_other_files_are_left_alone(state: Path, runtime: Path) -> None:
    add_run(state, A)
    other = socket_path(f"/another/state/projects/p/t/runs/{A}", A)
    bind_socket(other).close()
    (runtime / os.path.basename(socket_path(str(state / "projects/p/t/runs" / B), B))).write_text("a file")
    (runtime / "mine.sock").write_text("a file")
    for path in runtime.iterdir():
        make_old(path)
    assert find_orphan_sockets(str(state)) == []


def test_the_room_on_the_disk_is_that_of_all_that_is_in_a_folder(state: Path) -> None:
    folder = state / "some"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (folder / name).write_bytes(b"x" * 100_000)
    (folder / "link").symlink_to("/")
    assert 200_000 <= disk_bytes(str(folder)) < 300_000
    assert disk_bytes(str(folder / "gone")) == 0


def test_a_folder_that_is_nested_very_deep_has_a_size(state: Path) -> None:
    with nest_folders(state / "some", file="last") as folder:
        (folder / "a").write_bytes(b"x" * 100_000)
        assert disk_bytes(str(folder)) >= 100_000
