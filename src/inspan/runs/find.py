"""One run, found again: by id, prefix, name, or as the last; stopped, told living from lost, removed."""

import errno
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from inspan.errors import InspanError, RunBusy, RunNotFound, StateUnusable
from inspan.folds.summary import Summary, summarize
from inspan.protocol.commands import Cancel
from inspan.protocol.events import Event
from inspan.protocol.ids import RunId, begins_run_id, make_short_name
from inspan.protocol.wire import Record
from inspan.stores import index
from inspan.stores.comparison_folder import list_unfinished
from inspan.stores.event_log import LogReader, iter_log
from inspan.stores.run_folder import (
    RunFolder,
    all_runs,
    is_locked,
    lock_run,
    open_folder,
    read_json,
    unmark_active,
)
from inspan.system import file_locks

from .control_client import send_command
from .names import build_row_path, find_by_place, find_named, list_active_folders, read_own_name
from .names import is_in_scope as is_in_scope
from .projects import Scope
from .relations import read_continuing, read_relation, read_work

if TYPE_CHECKING:
    from inspan.folds.blueprint import BlueprintLiveFold
    from inspan.folds.live_state import LiveState, LiveStateFold
    from inspan.folds.loop import LoopLiveFold

_START_S = 10.0
_END_S = 10.0
_START_POLL_S = 0.02
# `sqlite3.SQLITE_FULL`, without the time that importing sqlite3 takes.
_SQLITE_FULL = 13
_MOST_CONTINUED = 1000


def find_run_folder(state: str, name: str, *, scope: Scope | None = None) -> RunFolder:
    """The run of this name; raises `RunNotFound`.

    A name is an id or the unique beginning of one, in any project; a run's own name or its short name, in `scope`
    first, which is the current folder's project by default, and then in any; its own leads to what goes on with it, for
    as long as that lives. `@last` and `@1` are the last run of
    `scope`, `@2` is the one before it; `@last-anywhere` is the last of all.
    """
    if placed := find_by_place(state, name, scope):
        return placed
    if name.isascii() and not begins_run_id(name) and (named := find_named(state, name, scope)):
        return (read_own_name(named) == name and _find_living_continuation(state, named)) or named
    found = {folder.run_id: folder for folder in list_active_folders(state) if _begins(folder, name)}
    # A living run must be found even when the index is broken; and no id holds more than ASCII.
    if name not in found and name and name.isascii():
        rows = index.find_by_prefix(state, name)
        found |= {RunId(row.run_id): open_folder(build_row_path(state, row)) for row in rows}
    if not found and name:
        # One whose log cannot be read stands in no list, and must be found to be removed.
        strays = (each for each in all_runs(state) if _begins(each, name) or make_short_name(each.run_id) == name)
        found = {folder.run_id: folder for folder in strays}
    if name in found:
        return found[RunId(name)]
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise RunNotFound(
            f"{name!r} begins more than one run id.", next_step=f"Add characters: {', '.join(sorted(found))}."
        )
    raise no_run_error(name)


def _find_living_continuation(state: str, folder: RunFolder) -> RunFolder | None:
    """What goes on with a run, a loop or a blueprint now, where that has no name of its own."""
    seen: set[str] = set()
    while folder.run_id not in seen and not is_locked(folder) and (known := read_continuing(folder)):
        seen.add(folder.run_id)
        try:
            folder = find_run_folder(state, known)
        except RunNotFound:
            return None
    return folder if is_locked(folder) else None


def no_run_error(name: str) -> RunNotFound:
    """What is said of a name that no run answers to."""
    step = "`inspan ps -a` lists them; `inspan reindex` finds strays."
    return RunNotFound(f"There is no run {name!r}.", next_step=step)


def refresh_summary(
    state: str,
    folder: RunFolder,
    *,
    watch: Callable[[Record], None] | None = None,
    living: Container[str] | None = None,
) -> Summary:
    """What is known of a run. A run without an owner and without an end is declared lost, by whoever looks first.

    `watch` sees every record on the way, so that a log is read once for all that is asked of it. `living` are the runs
    with processes, as they were found after the owner of this one was gone.
    """
    summary = summarize(_events_of(iter_log(folder.log), watch))
    if summary.ended or is_locked(folder):
        return summary
    try:
        lock = lock_run(folder)
    except RunBusy:
        return summary
    try:
        from .lost import declare_lost  # Start-up time: this is rare.

        return declare_lost(state, folder, living=living)
    finally:
        file_locks.release(lock)


def refresh_run(
    state: str, folder: RunFolder, *, living: Container[str] | None = None
) -> "tuple[Summary, LiveState | None]":
    """The same, with what a living run is doing now."""
    fold = _make_live_fold(state, read_json(folder.file("run.json")))
    summary = refresh_summary(state, folder, watch=fold.add, living=living)
    return summary, None if summary.ended else fold.state


def list_continued(state: str, continued: str) -> list[RunFolder]:
    """The folders of what is continued, and of what that continues, the oldest first."""
    folders: list[RunFolder] = []
    while continued and len(folders) < _MOST_CONTINUED:
        try:
            folder = find_run_folder(state, continued)
            continued = str(read_json(folder.file("run.json"))["task"].get("continues", ""))
        except (InspanError, KeyError):
            break  # What was deleted since cannot be counted any more.
        folders.append(folder)
    return folders[::-1]


def _make_live_fold(state: str, described: dict[str, Any]) -> "LiveStateFold | LoopLiveFold | BlueprintLiveFold":
    # Start-up time: few of the runs that are listed live.
    from inspan.folds.blueprint import BlueprintLiveFold
    from inspan.folds.live_state import LiveStateFold
    from inspan.folds.loop import LoopLiveFold

    task: Any = described.get("task") or {}
    if work := described.get("work"):
        fold = BlueprintLiveFold() if work == "blueprint" else LoopLiveFold()
        # What goes on where another stood may not have told yet what it is at.
        for folder in list_continued(state, str(task.get("continues", ""))):
            for record in iter_log(folder.log):
                fold.add(record)
        return fold
    return LiveStateFold(stays_open=bool(task.get("session")), prompted=bool(task.get("prompt")))


def stop(folder: RunFolder, *, command: Cancel) -> bool:
    """Asks a living run to end, waiting for one that is still starting; says whether it heard."""
    deadline = time.monotonic() + _START_S
    while not send_command(folder.socket, command):
        if not is_locked(folder) or time.monotonic() >= deadline:
            return False
        time.sleep(_START_POLL_S)
    return True


def refuse_running(folder: RunFolder) -> None:
    """Raises `RunBusy` for a run that has not ended. One whose last record is there lets go of its folder a moment
    later, which is waited for."""
    deadline = time.monotonic() + (_END_S if is_locked(folder) and _has_last_record(folder) else 0)
    while is_locked(folder):
        if time.monotonic() < deadline:
            time.sleep(_START_POLL_S)
            continue
        raise RunBusy(f"Run {folder.run_id} is still running.", next_step=f"`inspan stop {folder.run_id}` first.")


def refuse_needed(state: str, folder: RunFolder) -> None:
    """Raises `RunBusy` for a run that belongs to a loop, a blueprint or a comparison that has not ended."""
    name, seen = read_relation(folder, "parent"), set[str]()
    while name and name not in seen:
        seen.add(name)
        try:
            owner = find_run_folder(state, name)
        except RunNotFound:
            if any(each.lives and each.id == name for each in list_unfinished(state)):
                message = f"Run {folder.run_id} belongs to the comparison {name}, which is still running."
                raise RunBusy(message, next_step="Wait for it, or end it.") from None
            return
        owner = _find_living_continuation(state, owner) or owner
        if is_locked(owner):
            whose = f"the {read_work(owner) or 'run'} {owner.run_id}"
            message = f"Run {folder.run_id} belongs to {whose}, which is still running."
            raise RunBusy(message, next_step=f"`inspan stop {owner.run_id}` first.")
        name = read_relation(owner, "parent")


def remove(state: str, folder: RunFolder) -> None:
    """Deletes an ended run, and with the last run of each its session and its worktree; raises `RunBusy` while it, or
    what it belongs to, lives, and `WorktreeUnusable` where something in its worktree cannot be saved."""
    refuse_running(folder)
    refuse_needed(state, folder)
    # Start-up time: only this deletes.
    from inspan.stores.sessions import session_key_of

    from .worktree_runs import remove_worktree_of_run  # Start-up time: only this deletes.

    remove_worktree_of_run(state, folder)

    try:
        session = session_key_of(folder)
    except StateUnusable:
        session = folder.run_id  # What cannot be read can still be deleted.
    try:
        # Before the run itself: if this fails, the run is still there to be removed again.
        _forget(state, folder, session=session)
    except StateUnusable as error:
        if not _is_full(error):
            raise
        # The disk has no room for a note that the run is gone. Its own folder makes that room.
        _delete_folder(folder)
        _forget(state, folder, session=session)
    else:
        _delete_folder(folder)


def _has_last_record(folder: RunFolder) -> bool:
    reader = LogReader(folder.log)
    with suppress(StateUnusable):
        for _ in reader.read():
            pass
    return reader.ended


def _forget(state: str, folder: RunFolder, *, session: str) -> None:
    from inspan.stores.sessions import forget_run  # Start-up time: only this deletes.

    with index.remove_with(state, folder.run_id):
        forget_run(state, session, folder.run_id)
        unmark_active(state, folder.run_id)


def _delete_folder(folder: RunFolder) -> None:
    from inspan.stores.deletion import delete_tree  # Start-up time: only this deletes.

    delete_tree(folder.path)


def _is_full(error: StateUnusable) -> bool:
    """Whether the disk, or its owner's share of it, has no room left."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(cause, "sqlite_errorcode", 0) == _SQLITE_FULL


def _begins(folder: RunFolder, name: str) -> bool:
    return bool(name) and folder.run_id.startswith(name)


def _events_of(records: Iterable[Record], watch: Callable[[Record], None] | None) -> Iterator[Event]:
    for record in records:
        if watch:
            watch(record)
        yield record.event
