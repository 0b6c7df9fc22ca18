"""Records of sessions: one user at a time, no change lost, and nothing left of a session whose last run has gone."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inspan.errors import SessionBusy, StateUnusable
from inspan.protocol.usage import SessionTotals, Usage
from inspan.stores.run_folder import RunFolder, claim_folder, write_json
from inspan.stores.sessions import (
    SessionRecord,
    forget_run,
    list_sessions,
    lock_records,
    lock_session,
    read_session,
    session_folder,
    session_key_of,
    write_session,
)
from tests.cli_env import wait_until
from tests.deep_tree import nest_folders


class SessionStore:
    """A state folder with sessions in it."""

    def __init__(self, state: Path) -> None:
        self.state = str(state)

    def put(self, key: str, *, runs: tuple[str, ...] = ()) -> SessionRecord:
        """Enters a session; its config holds a transcript."""
        record = SessionRecord(key=key, agent="some", profile="clean", cwd="/", session_id=f"id-{key}", runs=runs)
        os.close(lock_session(self.state, key))
        with lock_records(self.state):
            write_session(self.state, record)
        self.file(key, "config/transcript").parent.mkdir()
        self.file(key, "config/transcript").write_text("words")
        return record

    def file(self, key: str, name: str) -> Path:
        return Path(session_folder(self.state, key)) / name

    def run_of(self, key: str | None) -> RunFolder:
        """A run that says of itself which session it belongs to."""
        folder = claim_folder(os.path.join(self.state, "projects", "project", "task", "runs"), pid=1)
        write_json(folder.file("run.json"), {"session": key})
        return folder

    @property
    def keys(self) -> list[str]:
        return sorted(os.listdir(os.path.join(self.state, "sessions")))


@pytest.fixture
def npm_registry(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state")


def test_a_record_is_read_as_it_was_written(npm_registry: SessionStore) -> None:
    told = SessionTotals(usage=Usage(input=1, output=2), cost_usd=0.5)
    record = msgspec.structs.replace(npm_registry.put("one", runs=("a", "b")), told=told, told_by=("a",), model="large")
    with lock_records(npm_registry.state):
        write_session(npm_registry.state, record)
    assert read_session(npm_registry.state, "one") == record


def test_there_is_no_record_of_an_unknown_session(npm_registry: SessionStore) -> None:
    assert read_session(npm_registry.state, "one") is None
    assert list(list_sessions(npm_registry.state)) == []
    assert not os.path.exists(npm_registry.state)


def test_sessions_are_listed_newest_first(npm_registry: SessionStore) -> None:
    records = [npm_registry.put(key) for key in ("20260101", "20260103", "20260102")]
    assert list(list_sessions(npm_registry.state)) == [records[1], records[2], records[0]]


def test_a_session_is_private(npm_registry: SessionStore) -> None:
    npm_registry.put("one")
    assert os.stat(session_folder(npm_registry.state, "one")).st_mode & 0o077 == 0
    assert npm_registry.file("one", "session.json").stat().st_mode & 0o077 == 0


def test_a_session_is_used_by_one_at_a_time(npm_registry: SessionStore) -> None:
    lock = lock_session(npm_registry.state, "one")
    with pytest.raises(SessionBusy, match="one is in use") as refusal:
        lock_session(npm_registry.state, "one")
    assert "--fork" in refusal.value.next_step
    assert refusal.value.retry_helps
    os.close(lock_session(npm_registry.state, "two"))
    os.close(lock)
    os.close(lock_session(npm_registry.state, "one"))


def test_a_lock_is_not_inherited_by_what_is_started(npm_registry: SessionStore) -> None:
    lock = lock_session(npm_registry.state, "one")
    assert not os.get_inheritable(lock)
    os.close(lock)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../../elsewhere", "/etc"])
def test_a_name_that_leads_elsewhere_is_no_session(npm_registry: SessionStore, key: str) -> None:
    for look in (read_session, session_folder, lock_session):
        with pytest.raises(StateUnusable, match="not the name of a session"):
            look(npm_registry.state, key)


def test_a_change_waits_for_the_one_before_it(npm_registry: SessionStore) -> None:
    record = npm_registry.put("one", runs=("a", "b"))
    other = threading.Thread(target=forget_run, args=(npm_registry.state, "one", "a"))
    with lock_records(npm_registry.state):
        other.start()
        wait_until(_waits_for_a_lock, "second change that waits")
        write_session(npm_registry.state, msgspec.structs.replace(record, session_id="new"))
    other.join()
    assert read_session(npm_registry.state, "one") == msgspec.structs.replace(record, session_id="new", runs=("b",))


def _waits_for_a_lock() -> bool:
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f" {os.getpid()} " in line for line in lines)


# Damage


def truncate_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def no_record(path: Path) -> None:
    path.write_text('{"key": 5}')


def change_key(path: Path) -> None:
    path.write_text(path.read_text().replace('"key": "one"', '"key": "other"'))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


each_damage = pytest.mark.parametrize(
    "damage", [truncate_file, empty_file, no_record, change_key, a_folder], ids=lambda damage: damage.__name__
)


@each_damage
def test_a_damaged_record_is_named(npm_registry: SessionStore, damage: Callable[[Path], None]) -> None:
    npm_registry.put("one")
    path = npm_registry.file("one", "session.json")
    damage(path)
    with pytest.raises(StateUnusable) as refusal:
        read_session(npm_registry.state, "one")
    assert str(path) in refusal.value.message
    assert refusal.value.next_step


@each_damage
def test_a_damaged_record_hides_no_other(npm_registry: SessionStore, damage: Callable[[Path], None]) -> None:
    npm_registry.put("one")
    other = npm_registry.put("two")
    damage(npm_registry.file("one", "session.json"))
    assert list(list_sessions(npm_registry.state)) == [other]


@each_damage
def test_a_damaged_session_goes_with_the_last_run_that_names_it(
    npm_registry: SessionStore, damage: Callable[[Path], None]
) -> None:
    runs = [npm_registry.run_of("one"), npm_registry.run_of("one")]
    npm_registry.put("one", runs=tuple(run.run_id for run in runs))
    damage(npm_registry.file("one", "session.json"))
    forget_run(npm_registry.state, "one", runs[0].run_id)
    assert npm_registry.keys == ["one"]
    for file in ("run.json", "agent", ""):
        path = Path(runs[0].path) / file
        path.rmdir() if path.is_dir() else path.unlink()
    forget_run(npm_registry.state, "one", runs[1].run_id)
    assert npm_registry.keys == []


def test_a_place_of_sessions_that_is_no_folder_is_named(npm_registry: SessionStore) -> None:
    Path(npm_registry.state).mkdir()
    place = Path(npm_registry.state) / "sessions"
    place.write_text("mine")
    for look in (lambda: list(list_sessions(npm_registry.state)), lambda: lock_session(npm_registry.state, "one")):
        with pytest.raises(StateUnusable, match="sessions"):
            look()
    assert place.read_text() == "mine"


# Forgetting


def test_a_session_stays_while_a_run_of_it_is_left(npm_registry: SessionStore) -> None:
    record = msgspec.structs.replace(npm_registry.put("one", runs=("a", "b")), told_by=("a", "b"))
    with lock_records(npm_registry.state):
        write_session(npm_registry.state, record)
    forget_run(npm_registry.state, "one", "a")
    assert read_session(npm_registry.state, "one") == msgspec.structs.replace(record, runs=("b",), told_by=("b",))
    forget_run(npm_registry.state, "one", "b")
    assert npm_registry.keys == []


def test_forgetting_a_run_of_no_session_is_no_error(npm_registry: SessionStore) -> None:
    forget_run(npm_registry.state, "one", "a")
    assert npm_registry.keys == []


def test_a_link_in_a_deleted_session_is_not_followed(npm_registry: SessionStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    outside.chmod(0o500)
    npm_registry.put("one", runs=("a",))
    npm_registry.file("one", "config/link").symlink_to(outside)
    forget_run(npm_registry.state, "one", "a")
    assert (npm_registry.keys, outside.stat().st_mode & 0o777) == ([], 0o500)
    assert (outside / "file").read_text() == "mine"


@pytest.mark.parametrize("named", [None, "", "..", "../elsewhere"])
def test_a_run_that_names_no_session_is_its_own(npm_registry: SessionStore, named: str | None) -> None:
    folder = npm_registry.run_of(named)
    assert session_key_of(folder) == folder.run_id
    assert session_key_of(npm_registry.run_of("one")) == "one"


def test_a_session_in_which_folders_are_nested_very_deep_is_deleted(npm_registry: SessionStore) -> None:
    npm_registry.put("one", runs=("a",))
    folder = Path(session_folder(npm_registry.state, "one"))
    with nest_folders(folder / "config", file="last"):
        forget_run(npm_registry.state, "one", "a")
        assert not folder.exists()
