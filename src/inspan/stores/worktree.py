"""What is known of the git worktrees that were made for runs: a record beside each, which outlives the worktree.

`worktrees/PROJECT/RUN` in the state folder is the worktree; `RUN.json` beside it is its record, `RUN.patch` what was
saved of it, `RUN.aside` what has to give way to tests for as long as they are run. Whoever makes, takes up, tests or
removes one holds `RUN.lock` for that moment.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from inspan.errors import RunBusy, StateUnusable
from inspan.protocol.ids import RUN_ID
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.system import file_locks
from inspan.system.paths import is_within

from .paths import make_private_folder, open_nonblocking, state_error
from .run_folder import RunFolder, active_runs, is_locked, read_json, remove_file, write_json

_RECORD, _LOCK, _PATCH, _TRASH, _ASIDE = ".json", ".lock", ".patch", ".removed", ".aside"
SCRATCH = ".git"
"""How the name of a folder ends that is needed while a worktree is saved or removed."""


class Worktree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worktree that was made for a run, and is named after it; `name` is what a person called that run.

    It is of the repository whose git data is in `common`, and began as the commit `base`; without a `branch` its HEAD
    is detached. `checkout` is the work tree, and `folder` the folder in it, from which the run was started. `status`:
    `making` until it is complete, `saved` once nothing in it would be lost, `removed` when it is gone. `salvage` is the
    commit that has what was not committed in it, on top of `head`, and `patch_sha256` is of the patch that has it, too;
    `as_is` are files in there that no conversion of git's may touch, `modes` are permissions that git does not keep.
    `on` is the branch that was checked out then, empty where HEAD was detached. Names of files are their bytes as
    Latin-1: JSON has no other way to write all of them.
    """

    id: str
    project: str
    path: str
    common: str
    name: str = ""
    checkout: str = ""
    folder: str = ""
    base: str = ""
    branch: str = ""
    status: Literal["making", "ready", "saved", "removed"] = "ready"
    head: str = ""
    salvage: str = ""
    patch_sha256: str = ""
    as_is: tuple[str, ...] = ()
    modes: dict[str, int] = {}
    on: str | None = None
    created_at: float = 0.0

    @property
    def patch(self) -> str:
        """Where what was saved of it lies as a patch, if there is one."""
        return self.path + _PATCH

    @property
    def scratch(self) -> str:
        """A folder for what is needed while it is saved or removed."""
        return self.path + SCRATCH

    @property
    def trash(self) -> str:
        """Where it lies while it is deleted: only what was saved comes there."""
        return self.path + _TRASH

    @property
    def aside(self) -> str:
        """Where lies what has to give way to tests for as long as they are run."""
        return build_aside_path(self.path)

    @property
    def unlinked(self) -> str:
        """Where its git directory lies in the repository while that is deleted."""
        return os.path.join(self.common, f"inspan-removed-{self.id}")

    @property
    def salvage_ref(self) -> str:
        return f"refs/inspan/salvage/{self.id}"


def build_worktree_path(state: str, *, project: str, run_id: str) -> str:
    """Where the worktree of a run lies; by its real path, as git itself names it."""
    return os.path.join(os.path.realpath(state), "worktrees", project, run_id)


def build_aside_path(path: str) -> str:
    """Where lies what has to give way to tests in the worktree with this path."""
    return path + _ASIDE


def find_worktree(state: str, folder: str) -> Worktree | None:
    """The worktree that a folder lies in, or lay; nothing for any other folder. Raises `StateUnusable`."""
    home = os.path.join(os.path.realpath(state), "worktrees") + os.sep
    real = folder if folder.startswith(home) else os.path.realpath(folder)
    project, _, below = real.removeprefix(home).partition(os.sep)
    run_id = below.partition(os.sep)[0]
    if not real.startswith(home) or not RUN_ID.fullmatch(run_id):
        return None
    return load_worktree(os.path.join(home, project, run_id))


def load_worktree(path: str) -> Worktree | None:
    """The record of the worktree with this path; nothing where there is none. Raises `StateUnusable`."""
    try:
        with open(path + _RECORD, "rb", opener=open_nonblocking) as file:
            found = msgspec.json.decode(file.read(), type=know_type(Worktree))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise state_error(path + _RECORD, error) from error
    except DECODE_ERRORS as error:
        step = "Remove that file: then the worktree is adopted anew by `inspan worktrees`."
        raise StateUnusable(f"{path + _RECORD} cannot be read: {error}.", next_step=step) from error
    # The state folder may have been moved: where the record lies is where the worktree is.
    project, run_id = path.split(os.sep)[-2:]
    return msgspec.structs.replace(found, path=path, project=project, id=run_id)


def save_worktree(worktree: Worktree) -> None:
    """Writes the record, to the disk; raises `StateUnusable`."""
    make_private_folder(os.path.dirname(worktree.path))
    write_json(worktree.path + _RECORD, msgspec.to_builtins(worktree))


def forget_worktree(worktree: Worktree) -> None:
    """Removes the record and the patch; doing it twice is no error. Raises `StateUnusable`."""
    for path in (worktree.patch, worktree.path + _RECORD, worktree.path + _LOCK):
        try:
            remove_file(path)
        except OSError as error:
            raise state_error(path, error) from error


def list_worktree_paths(state: str) -> Iterator[str]:
    """The path of every worktree that is there or was, or of which anything is left, oldest first in each project."""
    home = os.path.join(os.path.realpath(state), "worktrees")
    for project in _list_names(home):
        names = {name.partition(".")[0] for name in _list_names(os.path.join(home, project))}
        yield from (os.path.join(home, project, name) for name in sorted(names) if RUN_ID.fullmatch(name))


@contextmanager
def lock_worktree(path: str, *, wait: bool = False) -> Generator[None]:
    """Keeps others from making, taking up, testing or removing the worktree; raises `RunBusy` while another one does,
    unless `wait` is set."""
    for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path)):
        make_private_folder(folder)
    lock = _take_lock(path + _LOCK, wait=wait)
    while not _is_at(lock, path + _LOCK):  # It was removed with its worktree before we had it: that one is nobody's.
        file_locks.release(lock)
        lock = _take_lock(path + _LOCK, wait=wait)
    try:
        yield
    finally:
        file_locks.release(lock)


def forget_nothing(path: str) -> None:
    """Removes the lock of a worktree that has neither a record nor a folder; the caller holds it."""
    if not any(os.path.lexists(each) for each in (path, path + _RECORD, path + _TRASH, path + _PATCH)):
        remove_file(path + _LOCK)


def is_worktree_locked(path: str) -> bool:
    """Whether it is being made, tested or removed just now."""
    return file_locks.is_held(path + _LOCK)


def find_worktree_users(state: str, path: str, *, besides: str = "", agents: bool = False) -> list[str]:
    """The ids of the living runs that work in a worktree, and of what has such runs; of `agents` alone, these write
    there themselves."""
    living = [folder for folder in active_runs(state) if folder.run_id != besides and is_locked(folder)]
    inside = [folder for folder in living if is_within(read_run_cwd(folder), path)]
    return [folder.run_id for folder in inside if not (agents and read_json(folder.file("run.json")).get("work"))]


def read_run_cwd(folder: RunFolder) -> str:
    """The working folder of a run; empty where its description cannot be read: it is starting, or ends just now."""
    try:
        task: Any = read_json(folder.file("run.json")).get("task") or {}
    except StateUnusable:
        return ""
    return str(task.get("cwd", ""))


def _take_lock(path: str, *, wait: bool) -> int:
    try:
        return file_locks.take(path, wait=wait)
    except BlockingIOError as error:
        message = f"The worktree {path.removesuffix(_LOCK)} is being made, tested or removed just now."
        raise RunBusy(message, next_step="Try again once that is done.") from error
    except OSError as error:
        raise state_error(path, error) from error


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise state_error(folder, error) from error
