"""Taking a run's changes back in its work tree, and bringing them in again.

Only files are written: the repository's index, HEAD and stash are not touched.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from inspan.errors import RunBusy, StateUnusable, UndoRefused
from inspan.protocol.events import Change, CommandExecuted, FileChanged, ToolStarted
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.stores import file_versions
from inspan.stores.deletion import discard_tree
from inspan.stores.event_log import iter_log
from inspan.stores.file_swap import FileSwap, SwapError, recover_swap, swap_files
from inspan.stores.git import SnapshotError, run_steps
from inspan.stores.paths import state_error
from inspan.stores.repository import read_work_tree
from inspan.stores.run_folder import RunFolder, read_json, write_json
from inspan.stores.snapshot import Snapshot, build_git, count_lines, load_snapshot
from inspan.stores.snapshot_steps import is_other_repository_steps
from inspan.system import file_locks

from .find import refresh_summary, refuse_running
from .reported_files import explain_unseen
from .same_tree import find_living_runs, find_runs_at_once
from .undo_checks import LIMIT_S, Direction, FileState, check_files, describe_refusal

_ACTS = (ToolStarted, CommandExecuted, FileChanged)
_TICK_S = 0.001  # The log tells its times in milliseconds.
_WORK, _LOCK, _RECORDS = "undo", "undo.lock", "undo.json"


class FileStep(msgspec.Struct, frozen=True, kw_only=True):
    """One file, its path relative to the top of the work tree, and what happens to it. Lines are unknown if binary."""

    path: str
    change: Change
    lines_added: int | None = None
    lines_removed: int | None = None


class UndoResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a work tree, or would be: `files` change, `unchanged` are as they should be already."""

    run_id: str
    direction: Direction
    top: str
    files: list[FileStep]
    unchanged: list[str]
    notes: list[str]


class UndoRecord(msgspec.Struct, frozen=True, kw_only=True):
    """That changes were taken back or brought in again, and when."""

    at: float
    direction: Direction
    files: int


def plan_undo(state: str, folder: RunFolder, *, direction: Direction, paths: Sequence[str] = ()) -> UndoResult:
    """What it would do now, to the files that `paths`, git's patterns, select. Nothing is changed, except that what a
    killed process left half done is put back.

    Raises `UndoRefused` where a file is not as the run left it (or found it, to bring its changes in again), where
    something is in the way, and for a run without two snapshots; `RunBusy` for one that lives.
    """
    snapshot = _load_snapshots(state, folder)
    _recover(folder)
    work = folder.file(f"{_WORK}-{os.urandom(6).hex()}")
    try:
        files = check_files(state, folder, snapshot, direction=direction, paths=paths, work=work)
        counts = count_lines(folder.path, paths=paths)
    except SnapshotError as error:
        raise _unusable_error(folder, str(error)) from error
    finally:
        discard_tree(work)
    return UndoResult(
        run_id=folder.run_id,
        direction=direction,
        top=snapshot.top,
        files=[_describe(each, counts.get(each.path), direction) for each in files if not each.is_done],
        unchanged=[each.path for each in files if each.is_done],
        notes=[
            *_warn_if_late(folder, snapshot),
            *_warn_of_others(state, folder, snapshot),
            *([] if paths else _explain_unseen(folder, snapshot, files)),
        ],
    )


def carry_out(state: str, folder: RunFolder, plan: UndoResult, *, paths: Sequence[str] = ()) -> None:
    """Does what was planned, all of it or nothing, and keeps a record of it in the run folder.

    Raises `UndoRefused`, also where the files changed since the plan was made.
    """
    snapshot = _load_snapshots(state, folder)
    lock = _take_lock(folder)
    work = folder.file(_WORK)
    try:
        _clear_work(work)
        files = check_files(state, folder, snapshot, direction=plan.direction, paths=paths, work=work)
        todo = [each for each in files if not each.is_done]
        if [each.path for each in todo] != [each.path for each in plan.files]:
            message = f"{describe_refusal(plan.direction)}: the files changed meanwhile."
            raise UndoRefused(message, next_step="Look at them, and try again.")
        _swap(folder, snapshot, todo, direction=plan.direction, work=work)
        with suppress(StateUnusable):  # The files tell it, too; a disk that takes nothing makes nothing undone.
            _keep_record(folder, UndoRecord(at=time.time(), direction=plan.direction, files=len(todo)))
        discard_tree(work)
    except SnapshotError as error:
        raise _unusable_error(folder, str(error)) from error
    finally:
        file_locks.release(lock)


def read_undo_records(folder: RunFolder) -> list[UndoRecord]:
    """What was done with this run's changes, the oldest first; what cannot be read is none."""
    try:
        with open(folder.file(_RECORDS), "rb") as file:
            return msgspec.json.decode(file.read(), type=know_type(dict[str, list[UndoRecord]])).get("done", [])
    except (OSError, *DECODE_ERRORS):
        return []


def _load_snapshots(state: str, folder: RunFolder) -> Snapshot:
    refresh_summary(state, folder)
    refuse_running(folder)
    snapshot = load_snapshot(folder.path)
    if not snapshot.before:
        raise _unusable_error(folder, snapshot.problem)
    if not snapshot.after:
        why = snapshot.problem or "The run was lost before its second snapshot."
        raise _unusable_error(folder, f"{why} So nobody knows which of the changes since its start are its own.")
    # What a run did in a worktree of its own is brought into the user's work tree, and taken back there.
    top = snapshot.checkout or snapshot.top
    if not os.path.isdir(top):
        raise _unusable_error(folder, f"The work tree {top} is gone.")
    if _is_other_repository(folder, snapshot, top):
        raise _unusable_error(folder, f"The repository in {top} is not the one in which it worked.")
    return msgspec.structs.replace(snapshot, top=top)


def _is_other_repository(folder: RunFolder, snapshot: Snapshot, top: str) -> bool:
    """Whether another one stands at its path by now: there, the same lines may be somebody else's."""
    found = read_work_tree(top)
    try:
        return found is not None and run_steps(is_other_repository_steps(folder.path, snapshot, found), limit_s=LIMIT_S)
    except SnapshotError as error:
        raise _unusable_error(folder, str(error)) from error


def _unusable_error(folder: RunFolder, problem: str) -> UndoRefused:
    return UndoRefused(
        f"The changes of run {folder.run_id} cannot be taken back or brought in: {problem}",
        next_step=f"`inspan diff {folder.run_id}` shows what is known of them.",
    )


def _take_lock(folder: RunFolder) -> int:
    try:
        return file_locks.take(folder.file(_LOCK))
    except BlockingIOError as error:
        message = f"The changes of run {folder.run_id} are being taken back or brought in by another process."
        raise RunBusy(message, next_step="Try again once it is done.") from error
    except OSError as error:
        raise state_error(folder.file(_LOCK), error) from error


def _recover(folder: RunFolder) -> None:
    if os.path.exists(folder.file(_WORK)):
        lock = _take_lock(folder)
        try:
            _clear_work(folder.file(_WORK))
        finally:
            file_locks.release(lock)


def _clear_work(work: str) -> None:
    """Takes back what a process that was killed has left half done."""
    try:
        recover_swap(work)
        discard_tree(work)
    except OSError as error:
        raise state_error(work, error) from error


def _swap(folder: RunFolder, snapshot: Snapshot, todo: Sequence[FileState], *, direction: Direction, work: str) -> None:
    stage = os.path.join(work, "files")
    git = build_git(folder.path, top=stage, scratch=os.path.join(work, "scratch"))
    run_steps(file_versions.checkout_steps(git, {each.path: each.wanted for each in todo}), limit_s=LIMIT_S)
    swaps = [
        FileSwap(
            target=os.path.join(snapshot.top, each.path),
            source="" if each.wanted.is_absent else os.path.join(stage, each.path),
            place=None if each.found.version.is_absent else each.found.place,
        )
        for each in todo
    ]
    try:
        swap_files(snapshot.top, swaps, folder=work, kept=_list_kept_folders(folder))
    except SwapError as error:
        raise _swap_error(error, direction) from error
    except OSError as error:
        raise state_error(work, error) from error


def _swap_error(error: SwapError, direction: Direction) -> UndoRefused:
    where = f"{error.filename}: " if error.filename else ""
    if not error.problems:
        message = f"{describe_refusal(direction)}: {where}{error.strerror}. All files are as they were."
        return UndoRefused(message, next_step="Check permissions and free space, and try again.")
    # Not all files are as they were: say which, and where the rest is.
    message = f"{where}{error.strerror}. Not everything could be put back: {'; '.join(error.problems)}."
    return UndoRefused(message, next_step="Try again: what is left is put back first.")


def _list_kept_folders(folder: RunFolder) -> list[str]:
    """Folders in which somebody works, and which therefore stay though they become empty."""
    task: Any = read_json(folder.file("run.json")).get("task") or {}
    with suppress(FileNotFoundError):  # A folder that is gone needs not be kept.
        return [str(task.get("cwd", "")), os.getcwd()]
    return [str(task.get("cwd", ""))]


def _keep_record(folder: RunFolder, record: UndoRecord) -> None:
    write_json(folder.file(_RECORDS), {"done": [*read_undo_records(folder), record]})


def _describe(file: FileState, counts: tuple[int, int] | None, direction: Direction) -> FileStep:
    change: Change = "added" if file.left.is_absent else "deleted" if file.wanted.is_absent else "modified"
    gained, lost = counts or (None, None)
    if direction == "undo":
        gained, lost = lost, gained
    return FileStep(path=file.path, change=change, lines_added=gained, lines_removed=lost)


def _warn_if_late(folder: RunFolder, snapshot: Snapshot) -> Iterator[str]:
    first = next((record.at for record in iter_log(folder.log) if isinstance(record.event, _ACTS)), snapshot.before_at)
    late_s = snapshot.before_at - first
    if late_s > _TICK_S:
        yield f"The first snapshot came {late_s:.2f} s after the first tool call: what changed before is left as it is."


def _explain_unseen(folder: RunFolder, snapshot: Snapshot, files: Sequence[FileState]) -> Iterator[str]:
    events = (record.event for record in iter_log(folder.log))
    changed = [each.path for each in files]
    # In a worktree of its own the agent reported files there, whose changes go elsewhere.
    top = load_snapshot(folder.path).top if snapshot.checkout else snapshot.top
    return explain_unseen(events, top=top, changed=changed, what="that stay as they are")


def _warn_of_others(state: str, folder: RunFolder, snapshot: Snapshot) -> Iterator[str]:
    for run_id in find_runs_at_once(state, folder, snapshot):
        yield f"Run {run_id} worked there at the same time: what it changed meanwhile is among these changes."
    for run_id in find_living_runs(state, snapshot):
        yield f"Run {run_id} works there now: it will see the files change."
