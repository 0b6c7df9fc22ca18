"""The folder of one run: how it is claimed, locked, described and found again."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from inspan.errors import RunBusy, RunNotFound, StateUnusable
from inspan.protocol.ids import RunId, make_run_id
from inspan.protocol.wire import DECODE_ERRORS
from inspan.system import file_locks
from inspan.system.atomic_file import replace_file

from .paths import make_private_folder, open_nonblocking, socket_path, state_error

SOCKET_LINK = "socket"
"""The link in a run's folder that leads to its control socket."""

_MAX_BUMPS = 1000
_MAX_TAKEN = 4000
_taken: dict[str, object] = {}


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
    def agent_folder(self) -> str:
        """What the agent may see of its own run."""
        return self.file("agent")

    @property
    def socket(self) -> str:
        """Where its owner takes commands: another user session's folder for sockets may not be ours."""
        try:
            return os.readlink(self.file(SOCKET_LINK))
        except OSError:
            return self.own_socket

    @property
    def own_socket(self) -> str:
        """Where this process would take commands for it."""
        return socket_path(self.path, self.run_id)


def task_path(state: str, *, project: str, task: str) -> str:
    """Where a task's folder lies, with its runs."""
    return os.path.join(state, "projects", project, task)


def run_path(state: str, *, project: str, task: str, run_id: str) -> str:
    """Where a run's folder lies."""
    return os.path.join(task_path(state, project=project, task=task), "runs", run_id)


def project_and_task_of(folder: RunFolder) -> tuple[str, str]:
    """The project and the task that a run's folder lies below: whatever else is lost, this is where it is found."""
    *_, project, task, _runs, _run_id = folder.path.split(os.sep)
    return project, task


def find_task_files(folder: RunFolder) -> str:
    """The folder that all runs of a run's task share, and their agents know as TASK_FOLDER."""
    return os.path.join(os.path.dirname(os.path.dirname(folder.path)), "files")


def claim_folder(runs: str, *, pid: int, now: datetime | None = None) -> RunFolder:
    """Makes a new run folder by exclusive mkdir, moving the millisecond on until the name is free.

    No process gives one name twice, whatever the project: marks and sessions know a run by its name alone.
    """
    make_private_folder(runs)
    for name in list_free_ids(pid=pid, now=now):
        path = os.path.join(runs, name)
        try:
            os.mkdir(path, mode=0o700)
            os.mkdir(os.path.join(path, "agent"), mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise state_error(path, error) from error
        return RunFolder(run_id=name, path=path)
    raise StateUnusable(f"No free run id below {runs}.", next_step="Try again in a moment.")


def list_free_ids(*, pid: int, now: "datetime | None" = None) -> Iterator[RunId]:
    """Ids that no process has given to anything so far."""
    at = now or datetime.now(UTC)
    ids = (make_run_id(at=at, pid=pid, bump_ms=bump_ms) for bump_ms in range(_MAX_BUMPS))
    return (name for name in ids if _take_name(name))


def _take_name(name: str) -> bool:
    """One step, so that no thread comes between; the names of long ago cannot come again."""
    marker = object()
    if _taken.setdefault(name, marker) is not marker:
        return False
    if len(_taken) > _MAX_TAKEN:
        for old in list(_taken)[: _MAX_TAKEN // 2]:
            _taken.pop(old, None)
    return True


def lock_run(folder: RunFolder) -> int:
    """Takes the run's lock and gives its descriptor; raises `RunBusy` while another process holds it."""
    try:
        return file_locks.take(folder.file("lock"))
    except BlockingIOError as error:
        raise RunBusy(
            f"Run {folder.run_id} has a writer already.",
            next_step=f"Follow it with `inspan logs -f {folder.run_id}`.",
        ) from error
    except FileNotFoundError as error:
        message = f"Run {folder.run_id} is gone: its folder was removed."
        raise RunNotFound(message, next_step="`inspan ps -a` lists those that are there.") from error
    except OSError as error:
        raise state_error(folder.file("lock"), error) from error


def is_locked(folder: RunFolder) -> bool:
    """Whether a process owns the run now; looking never takes the lock away from an owner to be."""
    return file_locks.is_held(folder.file("lock"))


def write_json(path: str, value: Mapping[str, Any], *, sync: bool = True) -> None:
    """Writes a JSON file whole or not at all; `sync` waits for the disk, for what nothing else could tell again."""
    try:
        replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n", sync=sync)
    except OSError as error:
        raise state_error(path, error) from error


def read_json(path: str) -> dict[str, Any]:
    """A JSON file of a run folder; raises `StateUnusable` when it cannot be read."""
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            return msgspec.json.decode(file.read(), type=dict[str, Any])
    except OSError as error:
        raise state_error(path, error) from error
    except DECODE_ERRORS as error:
        raise StateUnusable(
            f"{path} is not readable as JSON: {error}.", next_step="Restore the file, or remove the run: `inspan rm`."
        ) from error


def write_text(path: str, text: str) -> None:
    """Writes a small file of a run folder, private to its owner."""
    write_bytes(path, text.encode(errors="surrogateescape"))


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file of a run folder, private to its owner."""
    try:
        with open(path, "wb", opener=_open_private) as file:
            file.write(data)
    except OSError as error:
        raise state_error(path, error) from error


def mark_active(state: str, folder: RunFolder) -> None:
    """Lists the run among those that have not ended: a link that outlives any crash."""
    active = make_private_folder(os.path.join(state, "active"))
    try:
        os.symlink(folder.path, os.path.join(active, folder.run_id))
    except OSError as error:
        raise state_error(active, error) from error


def unmark_active(state: str, run: str) -> None:
    """Takes the run off that list; doing it twice is no error. Raises `StateUnusable`."""
    path = os.path.join(state, "active", run)
    try:
        remove_file(path)
    except OSError as error:
        raise state_error(path, error) from error


def active_runs(state: str) -> list[RunFolder]:
    """The runs that were started and not yet seen to end, oldest first; what is none of our links is passed over."""
    active = os.path.join(state, "active")
    try:
        names = sorted(os.listdir(active))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise state_error(active, error) from error
    linked = [RunFolder(run_id=RunId(name), path=_read_link(os.path.join(active, name))) for name in names]
    return [folder for folder in linked if folder.path.endswith(f"{os.sep}runs{os.sep}{folder.run_id}")]


def all_runs(state: str, *, on_error: Callable[[StateUnusable], object] | None = None) -> Iterator[RunFolder]:
    """Every run folder on disk; slow, for `reindex` and for finding what the index has lost.

    A folder that cannot be read raises `StateUnusable`, or is passed to `on_error` and passed over.
    """
    projects = os.path.join(state, "projects")
    # Where not even this can be read nothing is known of any run, and nobody may go on as if there were none.
    for project in _list_names(projects, None):
        for task in _list_names(os.path.join(projects, project), on_error):
            runs = os.path.join(projects, project, task, "runs")
            for name in _list_names(runs, on_error):
                folder = RunFolder(run_id=RunId(name), path=os.path.join(runs, name))
                try:
                    is_run = _is_described(folder)
                except StateUnusable as refusal:
                    if on_error is None:
                        raise
                    on_error(refusal)
                    continue
                if is_run:
                    yield folder


def open_folder(path: str) -> RunFolder:
    """A run folder by its path; raises `RunNotFound` when there is none."""
    folder = RunFolder(run_id=RunId(os.path.basename(path)), path=path)
    if not _is_described(folder):
        raise RunNotFound(f"There is no run in {path}: run.json is missing.", next_step="`inspan reindex` forgets it.")
    return folder


def _is_described(folder: RunFolder) -> bool:
    """Whether a run has claimed this folder; raises `StateUnusable` where that cannot be told."""
    path = folder.file("run.json")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:  # A link to itself was put there: no run of ours.
            return False
        raise state_error(path, error) from error
    return True


def _read_link(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # No link, or taken off the list since it was read.


def _is_behind_link(path: str) -> bool:
    """Whether a link below the folder of projects leads there; inspan makes none."""
    above, _, below = path.rpartition(f"{os.sep}projects{os.sep}")
    parts = below.split(os.sep) if above else []
    return any(os.path.islink(os.path.join(above, "projects", *parts[: end + 1])) for end in range(len(parts)))


def _list_names(path: str, on_refusal: Callable[[StateUnusable], object] | None) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno == errno.ELOOP or _is_behind_link(path):
            return []  # Neither a link that leads back to itself nor what others keep behind one is ours.
        refusal = state_error(path, error)
        if on_refusal is None:
            raise refusal from error
        on_refusal(refusal)
        return []


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def remove_file(path: str) -> None:
    """Removes a file; doing it twice is no error."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
