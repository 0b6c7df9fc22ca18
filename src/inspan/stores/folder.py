"""The folder of one run: how it is claimed, locked, described and found again."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from inspan.errors import RunBusy, RunNotFound, StateUnusable
from inspan.protocol.ids import RunId, run_id
from inspan.protocol.wire import UNREADABLE

from .paths import private_folder, socket_path, unusable

_BUMPS = 1000


class RunFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of a run. A folder is a run once it has a `run.json`, and from then on its lock tells whether it lives."""

    run_id: RunId
    path: str

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    @property
    def log(self) -> str:
        return self.file("events.jsonl")

    @property
    def agent(self) -> str:
        """What the agent may see of its own run."""
        return self.file("agent")

    @property
    def socket(self) -> str:
        return socket_path(self.path, self.run_id)


def run_path(state: str, *, project: str, task: str, run_id: str) -> str:
    """Where a run's folder lies."""
    return os.path.join(state, "projects", project, task, "runs", run_id)


def claim(runs: str, *, pid: int, now: datetime | None = None) -> RunFolder:
    """Makes a new run folder by exclusive mkdir, moving the millisecond on until the name is free."""
    at = now or datetime.now(UTC)
    private_folder(runs)
    for bump_ms in range(_BUMPS):
        name = run_id(at=at, pid=pid, bump_ms=bump_ms)
        path = os.path.join(runs, name)
        try:
            os.mkdir(path, mode=0o700)
            os.mkdir(os.path.join(path, "agent"), mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise unusable(path, error) from error
        return RunFolder(run_id=name, path=path)
    raise StateUnusable(f"No free run id below {runs}.", next_step="Try again in a moment.")


def take_lock(folder: RunFolder) -> int:
    """Takes the run's lock and gives its descriptor; raises `RunBusy` while another process holds it."""
    try:
        fd = os.open(folder.file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(folder.file("lock"), error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise RunBusy(
            f"Run {folder.run_id} has a writer already.",
            next_step=f"Follow it with `inspan logs -f {folder.run_id}`.",
        ) from error
    return fd


def is_locked(folder: RunFolder) -> bool:
    """Whether a process owns the run now; looking never takes the lock away from an owner to be."""
    return is_held(folder.file("lock"))


def is_held(path: str) -> bool:
    """Whether a process holds this lock file."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def write_json(path: str, value: Mapping[str, Any], *, sync: bool = True) -> None:
    """Writes a JSON file whole or not at all; `sync` waits for the disk, for what nothing else could tell again."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb", opener=_private) as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(draft, path)
    except OSError as error:
        try:
            os.unlink(draft)
        except OSError:
            pass  # It was never made, or cannot be removed either; the first error says why.
        raise unusable(path, error) from error


def read_json(path: str) -> dict[str, Any]:
    """A JSON file of a run folder; raises `StateUnusable` when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except OSError as error:
        raise unusable(path, error) from error
    except UNREADABLE as error:
        raise StateUnusable(
            f"{path} is not readable as JSON: {error}.", next_step="Restore the file, or remove the run: `inspan rm`."
        ) from error


def write_text(path: str, text: str) -> None:
    """Writes a small file of a run folder, private to its owner."""
    write_bytes(path, text.encode(errors="surrogateescape"))


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file of a run folder, private to its owner."""
    try:
        with open(path, "wb", opener=_private) as file:
            file.write(data)
    except OSError as error:
        raise unusable(path, error) from error


def mark_active(state: str, folder: RunFolder) -> None:
    """Lists the run among those that have not ended: a link that outlives any crash."""
    active = private_folder(os.path.join(state, "active"))
    try:
        os.symlink(folder.path, os.path.join(active, folder.run_id))
    except OSError as error:
        raise unusable(active, error) from error


def unmark_active(state: str, run: str) -> None:
    """Takes the run off that list; doing it twice is no error."""
    forget(os.path.join(state, "active", run))


def active_runs(state: str) -> list[RunFolder]:
    """The runs that were started and not yet seen to end, oldest first."""
    active = os.path.join(state, "active")
    try:
        names = sorted(os.listdir(active))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unusable(active, error) from error
    return [RunFolder(run_id=RunId(name), path=os.readlink(os.path.join(active, name))) for name in names]


def all_runs(state: str) -> Iterator[RunFolder]:
    """Every run folder on disk; slow, for `reindex` and for finding what the index has lost."""
    projects = os.path.join(state, "projects")
    for project in _names(projects):
        for task in _names(os.path.join(projects, project)):
            runs = os.path.join(projects, project, task, "runs")
            for name in _names(runs):
                folder = RunFolder(run_id=RunId(name), path=os.path.join(runs, name))
                if os.path.exists(folder.file("run.json")):
                    yield folder


def open_folder(path: str) -> RunFolder:
    """A run folder by its path; raises `RunNotFound` when there is none."""
    folder = RunFolder(run_id=RunId(os.path.basename(path)), path=path)
    if not os.path.exists(folder.file("run.json")):
        raise RunNotFound(f"There is no run in {path}: run.json is missing.", next_step="`inspan reindex` forgets it.")
    return folder


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unusable(path, error) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def forget(path: str) -> None:
    """Removes a file; doing it twice is no error."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
