"""What inspan keeps of an agent's sessions: who may resume which, where its config lies, what it had told before.

A session has a folder of its own, named after its first run, or after its id where the agent began it without inspan.
The lock in it is held by the run that is using it; `lock_records` is held for the moment in which records are changed.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import msgspec

from inspan.errors import SessionBusy, StateUnusable
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Profile
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS
from inspan.system import file_locks

from .deletion import delete_tree
from .paths import make_private_folder, open_nonblocking, state_error
from .run_folder import RunFolder, all_runs, read_json, write_json


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `model` is the one that was asked for last; `told` is what the agent has told so far, `told_by` the
    runs that are counted in it.
    """

    key: str
    agent: str
    profile: Profile
    cwd: str
    session_id: str = ""
    channel: str = ""
    model: str = ""
    told: SessionTotals = SessionTotals()
    told_by: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def session_folder(state: str, key: str) -> str:
    """Where a session's record, lock and, in the profile `clean`, the agent's config lie."""
    if not _is_name(key):
        raise StateUnusable(
            f"{key!r} is not the name of a session.", next_step="Remove the run that names it: `inspan rm`."
        )
    return os.path.join(state, "sessions", key)


def _is_name(key: str) -> bool:
    return key not in ("", ".", "..") and "/" not in key


@contextmanager
def lock_records(state: str) -> Generator[None, None, None]:
    """Keeps every record from being changed by others, who wait: for whoever reads one to write it again."""
    path = make_private_folder(os.path.join(state, "sessions"))
    try:
        lock = file_locks.take(path, folder=True, wait=True)
    except OSError as error:
        raise state_error(path, error) from error
    try:
        yield
    finally:
        file_locks.release(lock)


def lock_session(state: str, key: str) -> int:
    """Takes a session for one run and gives the lock's descriptor; raises `SessionBusy` while another run has it."""
    path = os.path.join(make_private_folder(session_folder(state, key)), "lock")
    try:
        return file_locks.take(path)
    except BlockingIOError as error:
        raise SessionBusy(
            f"The session of run {key} is in use by another run.",
            next_step="Wait for that run (`inspan ps` shows it), or continue in a copy with --fork.",
        ) from error
    except OSError as error:
        raise state_error(path, error) from error


def write_session(state: str, record: SessionRecord) -> None:
    """Stores a record; the caller holds `lock_records`."""
    write_json(os.path.join(session_folder(state, record.key), "session.json"), msgspec.to_builtins(record), sync=False)


def read_session(state: str, key: str) -> SessionRecord | None:
    """The record of a session, or nothing where there is none; raises `StateUnusable` for one that is damaged."""
    path = os.path.join(session_folder(state, key), "session.json")
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            record = msgspec.json.decode(file.read(), type=know_type(SessionRecord))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise state_error(path, error) from error
    except DECODE_ERRORS as error:
        raise _damage_error(path, str(error)) from error
    if record.key != key:
        raise _damage_error(path, f"it is the record of {record.key!r}")
    return record


def session_key_of(folder: RunFolder) -> str:
    """The key of the session that a run belongs to: its own, where it names none."""
    key = read_json(folder.file("run.json")).get("session")
    return key if isinstance(key, str) and _is_name(key) else folder.run_id


def list_sessions(state: str) -> Iterator[SessionRecord]:
    """Every session that can be read, newest first."""
    path = os.path.join(state, "sessions")
    try:
        keys = sorted(os.listdir(path), reverse=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise state_error(path, error) from error
    for key in keys:
        try:
            record = read_session(state, key)
        except StateUnusable:
            continue  # A damaged record must not hide the others.
        if record:
            yield record


def forget_run(state: str, key: str, run_id: str) -> None:
    """Takes a deleted run off its session, which goes with its last run."""
    with lock_records(state):
        try:
            record = read_session(state, key)
        except StateUnusable:
            if not _is_referenced(state, key, besides=run_id):
                _delete_session(state, key)
            return
        left = tuple(run for run in record.runs if run != run_id) if record else ()
        if record and left:
            told_by = tuple(run for run in record.told_by if run != run_id)
            write_session(state, msgspec.structs.replace(record, runs=left, told_by=told_by))
            return
        _delete_session(state, key)


def _is_referenced(state: str, key: str, *, besides: str) -> bool:
    """Whether another run belongs to a session whose own record cannot say so any more."""
    for folder in all_runs(state):
        try:
            if folder.run_id != besides and session_key_of(folder) == key:
                return True
        except StateUnusable:
            continue
    return False


def _delete_session(state: str, key: str) -> None:
    delete_tree(session_folder(state, key))


def _damage_error(path: str, problem: str) -> StateUnusable:
    return StateUnusable(
        f"{path} cannot be used: {problem}.",
        next_step="Start a new session without --resume; `inspan rm` of its runs deletes this one.",
    )
