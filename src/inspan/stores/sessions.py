"""What inspan keeps of an agent's sessions: who may resume which, where its config lies, what it had told before.

A session has a folder of its own, named after its first run; the lock in it is held by the run that is using it.
"""

import fcntl
import os
from collections.abc import Iterator

import msgspec

from inspan.errors import SessionBusy, StateUnusable
from inspan.protocol.task import Profile
from inspan.protocol.usage import Told
from inspan.protocol.wire import UNREADABLE

from .folder import RunFolder, read_json, write_json
from .paths import private_folder, unusable


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `home` is the key of the session whose folder holds the agent's config: a fork shares it.

    `told` is what the agent had told when the run `told_by` ended.
    """

    key: str
    home: str
    agent: str
    profile: Profile
    cwd: str
    session_id: str = ""
    told: Told = Told()
    told_by: str = ""
    runs: tuple[str, ...] = ()


def session_folder(state: str, key: str) -> str:
    """Where a session's record, lock and, in the profile `clean`, the agent's config lie."""
    return os.path.join(state, "sessions", key)


def lock_session(state: str, key: str) -> int:
    """Takes a session for one run and gives the lock's descriptor; raises `SessionBusy` while another run has it."""
    path = os.path.join(private_folder(session_folder(state, key)), "lock")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise SessionBusy(
            f"The session of run {key} is in use by another run.",
            next_step="Wait for that run (`inspan ps` shows it), or go on in a copy with --fork.",
        ) from error
    return fd


def write_session(state: str, record: SessionRecord) -> None:
    """Stores a record; the caller holds the session's lock."""
    write_json(os.path.join(session_folder(state, record.key), "session.json"), msgspec.to_builtins(record), sync=False)


def read_session(state: str, key: str) -> SessionRecord | None:
    """The record of a session, or nothing where there is none."""
    path = os.path.join(session_folder(state, key), "session.json")
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=SessionRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unusable(path, error) from error
    except UNREADABLE as error:
        raise StateUnusable(
            f"{path} cannot be read: {error}.", next_step="Start a new session; `inspan prune` removes this one."
        ) from error


def session_of(folder: RunFolder) -> str:
    """The key of the session that a run belongs to."""
    return str(read_json(folder.file("run.json")).get("session") or folder.run_id)


def sessions(state: str) -> Iterator[SessionRecord]:
    """Every session that can be read, newest first."""
    try:
        keys = sorted(os.listdir(os.path.join(state, "sessions")), reverse=True)
    except FileNotFoundError:
        return
    for key in keys:
        try:
            record = read_session(state, key)
        except StateUnusable:
            continue  # A damaged record must not hide the others.
        if record:
            yield record


def forget_run(state: str, key: str, run_id: str) -> None:
    """Takes a deleted run off its session, which goes with its last run unless a fork still lives on its config."""
    record = read_session(state, key)
    if record is None:
        _delete(state, key)
        return
    left = tuple(run for run in record.runs if run != run_id)
    if left:
        write_session(state, msgspec.structs.replace(record, runs=left))
        return
    others = [other for other in sessions(state) if other.key != key]
    if any(other.home == key for other in others):
        write_session(state, msgspec.structs.replace(record, runs=()))
        return
    _delete(state, key)
    home = read_session(state, record.home) if record.home != key else None
    if home and not home.runs and not any(other.home == home.key for other in others if other.key != home.key):
        _delete(state, home.key)


def _delete(state: str, key: str) -> None:
    import shutil  # Start-up time: only deleting needs it.

    shutil.rmtree(session_folder(state, key), ignore_errors=True)
