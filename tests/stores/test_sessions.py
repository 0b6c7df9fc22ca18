"""Records of sessions: one user at a time, no change lost, and nothing left of a session whose last run has gone."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inspan.errors import SessionBusy, StateUnusable
from inspan.protocol.usage import Told, Usage
from inspan.stores.folder import RunFolder, claim, write_json
from inspan.stores.sessions import (
    SessionRecord,
    editing,
    forget_run,
    lock_session,
    read_session,
    session_folder,
    session_of,
    sessions,
    write_session,
)
from tests.house import until


class Shelf:
    """A state folder with sessions in it."""

    def __init__(self, state: Path) -> None:
        self.state = str(state)

    def put(self, key: str, *, home: str = "", runs: tuple[str, ...] = ()) -> SessionRecord:
        """Enters a session; its config holds a transcript."""
        record = SessionRecord(
            key=key, home=home or key, agent="some", profile="clean", cwd="/", session_id=f"id-{key}", runs=runs
        )
        os.close(lock_session(self.state, key))
        with editing(self.state):
            write_session(self.state, record)
        if not home:
            self.file(key, "config/transcript").parent.mkdir()
            self.file(key, "config/transcript").write_text("words")
        return record

    def file(self, key: str, name: str) -> Path:
        return Path(session_folder(self.state, key)) / name

    def run_of(self, key: str | None) -> RunFolder:
        """A run that says of itself which session it belongs to."""
        folder = claim(os.path.join(self.state, "projects", "project", "task", "runs"), pid=1)
        write_json(folder.file("run.json"), {"session": key})
        return folder

    @property
    def keys(self) -> list[str]:
        return sorted(os.listdir(os.path.join(self.state, "sessions")))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "state")


def test_a_record_is_read_as_it_was_written(shelf: Shelf) -> None:
    told = Told(usage=Usage(input=1, output=2), cost_usd=0.5)
    record = msgspec.structs.replace(shelf.put("one", runs=("a", "b")), told=told, told_by=("a",), model="large")
    with editing(shelf.state):
        write_session(shelf.state, record)
    assert read_session(shelf.state, "one") == record


def test_there_is_no_record_of_an_unknown_session(shelf: Shelf) -> None:
    assert read_session(shelf.state, "one") is None
    assert list(sessions(shelf.state)) == []
    assert not os.path.exists(shelf.state)


def test_sessions_are_listed_newest_first(shelf: Shelf) -> None:
    records = [shelf.put(key) for key in ("20260101", "20260103", "20260102")]
    assert list(sessions(shelf.state)) == [records[1], records[2], records[0]]


def test_a_session_is_private(shelf: Shelf) -> None:
    shelf.put("one")
    assert os.stat(session_folder(shelf.state, "one")).st_mode & 0o077 == 0
    assert shelf.file("one", "session.json").stat().st_mode & 0o077 == 0


def test_a_session_is_used_by_one_at_a_time(shelf: Shelf) -> None:
    lock = lock_session(shelf.state, "one")
    with pytest.raises(SessionBusy, match="one is in use") as refusal:
        lock_session(shelf.state, "one")
    assert "--fork" in refusal.value.next_step
    assert refusal.value.retry_helps
    os.close(lock_session(shelf.state, "two"))
    os.close(lock)
    os.close(lock_session(shelf.state, "one"))


def test_a_lock_is_not_inherited_by_what_is_started(shelf: Shelf) -> None:
    lock = lock_session(shelf.state, "one")
    assert not os.get_inheritable(lock)
    os.close(lock)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../../elsewhere", "/etc"])
def test_a_name_that_leads_elsewhere_is_no_session(shelf: Shelf, key: str) -> None:
    for look in (read_session, session_folder, lock_session):
        with pytest.raises(StateUnusable, match="no name of a session"):
            look(shelf.state, key)


def test_a_record_that_points_elsewhere_deletes_nothing_there(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("one", home="../../precious", runs=("a",))
    (tmp_path / "precious").mkdir()
    forget_run(shelf.state, "one", "a")
    assert shelf.keys == []
    assert (tmp_path / "precious").is_dir()


def test_a_change_waits_for_the_one_before_it(shelf: Shelf) -> None:
    record = shelf.put("one", runs=("a", "b"))
    other = threading.Thread(target=forget_run, args=(shelf.state, "one", "a"))
    with editing(shelf.state):
        other.start()
        until(_waits_for_a_lock, "second change that waits", seconds=10)
        write_session(shelf.state, msgspec.structs.replace(record, session_id="new"))
    other.join()
    assert read_session(shelf.state, "one") == msgspec.structs.replace(record, session_id="new", runs=("b",))


def _waits_for_a_lock() -> bool:
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f" {os.getpid()} " in line for line in lines)


# Damage


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def no_record(path: Path) -> None:
    path.write_text('{"key": 5}')


def of_another(path: Path) -> None:
    path.write_text(path.read_text().replace('"key": "one"', '"key": "other"'))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


each_damage = pytest.mark.parametrize(
    "damage", [truncated, emptied, no_record, of_another, a_folder], ids=lambda damage: damage.__name__
)


@each_damage
def test_a_damaged_record_is_named(shelf: Shelf, damage: Callable[[Path], None]) -> None:
    shelf.put("one")
    path = shelf.file("one", "session.json")
    damage(path)
    with pytest.raises(StateUnusable) as refusal:
        read_session(shelf.state, "one")
    assert str(path) in refusal.value.message
    assert refusal.value.next_step


@each_damage
def test_a_damaged_record_hides_no_other(shelf: Shelf, damage: Callable[[Path], None]) -> None:
    shelf.put("one")
    other = shelf.put("two")
    damage(shelf.file("one", "session.json"))
    assert list(sessions(shelf.state)) == [other]


@each_damage
def test_a_damaged_session_goes_with_the_last_run_that_names_it(shelf: Shelf, damage: Callable[[Path], None]) -> None:
    runs = [shelf.run_of("one"), shelf.run_of("one")]
    shelf.put("one", runs=tuple(run.run_id for run in runs))
    damage(shelf.file("one", "session.json"))
    forget_run(shelf.state, "one", runs[0].run_id)
    assert shelf.keys == ["one"]
    for file in ("run.json", "agent", ""):
        path = Path(runs[0].path) / file
        path.rmdir() if path.is_dir() else path.unlink()
    forget_run(shelf.state, "one", runs[1].run_id)
    assert shelf.keys == []


def test_a_damaged_session_stays_for_its_fork(shelf: Shelf) -> None:
    shelf.put("one", runs=("a",))
    shelf.put("fork", home="one", runs=("b",))
    truncated(shelf.file("one", "session.json"))
    forget_run(shelf.state, "one", "a")
    assert shelf.file("one", "config/transcript").exists()


def test_a_place_of_sessions_that_is_no_folder_is_named(shelf: Shelf) -> None:
    Path(shelf.state).mkdir()
    place = Path(shelf.state) / "sessions"
    place.write_text("mine")
    for look in (lambda: list(sessions(shelf.state)), lambda: lock_session(shelf.state, "one")):
        with pytest.raises(StateUnusable, match="sessions"):
            look()
    assert place.read_text() == "mine"


# Forgetting


def test_a_session_stays_while_a_run_of_it_is_left(shelf: Shelf) -> None:
    record = msgspec.structs.replace(shelf.put("one", runs=("a", "b")), told_by=("a", "b"))
    with editing(shelf.state):
        write_session(shelf.state, record)
    forget_run(shelf.state, "one", "a")
    assert read_session(shelf.state, "one") == msgspec.structs.replace(record, runs=("b",), told_by=("b",))
    forget_run(shelf.state, "one", "b")
    assert shelf.keys == []


def test_forgetting_a_run_of_no_session_is_no_error(shelf: Shelf) -> None:
    forget_run(shelf.state, "one", "a")
    assert shelf.keys == []


def test_a_deleted_session_keeps_its_config_for_its_forks_and_goes_with_the_last(shelf: Shelf) -> None:
    shelf.put("one", runs=("a",))
    shelf.put("fork", home="one", runs=("b",))
    shelf.put("inner", home="one", runs=("c",))
    forget_run(shelf.state, "one", "a")
    kept = read_session(shelf.state, "one")
    assert kept and kept.runs == ()
    forget_run(shelf.state, "fork", "b")
    assert shelf.keys == ["inner", "one"]
    assert shelf.file("one", "config/transcript").exists()
    forget_run(shelf.state, "inner", "c")
    assert shelf.keys == []


def test_a_fork_goes_without_its_original(shelf: Shelf) -> None:
    shelf.put("one", runs=("a",))
    shelf.put("fork", home="one", runs=("b",))
    forget_run(shelf.state, "fork", "b")
    assert shelf.keys == ["one"]


def test_a_link_in_a_deleted_session_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    outside.chmod(0o500)
    shelf.put("one", runs=("a",))
    shelf.file("one", "config/link").symlink_to(outside)
    forget_run(shelf.state, "one", "a")
    assert (shelf.keys, outside.stat().st_mode & 0o777) == ([], 0o500)
    assert (outside / "file").read_text() == "mine"


def test_a_damaged_original_goes_with_its_last_fork(shelf: Shelf) -> None:
    shelf.put("one", runs=())
    shelf.put("fork", home="one", runs=("b",))
    truncated(shelf.file("one", "session.json"))
    forget_run(shelf.state, "fork", "b")
    assert shelf.keys == []


@pytest.mark.parametrize("named", [None, "", "..", "../elsewhere"])
def test_a_run_that_names_no_session_is_its_own(shelf: Shelf, named: str | None) -> None:
    folder = shelf.run_of(named)
    assert session_of(folder) == folder.run_id
    assert session_of(shelf.run_of("one")) == "one"
