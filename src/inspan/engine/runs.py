"""One run, found again: by id, prefix or `@last`; followed, stopped, told living from lost, removed."""

import os
import time
from collections.abc import Iterator

from inspan.errors import RunBusy, RunNotFound, StateUnusable
from inspan.folds.summary import Summary, summarize
from inspan.protocol.commands import Cancel
from inspan.protocol.ids import RunId
from inspan.protocol.wire import Record
from inspan.stores import index
from inspan.stores.folder import RunFolder, active_runs, is_locked, open_folder, run_path, take_lock, unmark_active
from inspan.stores.log import LogReader, read_log
from inspan.stores.paths import unusable
from inspan.stores.watch import FolderWatch

from .orders import send_command

_LOOK_S = 0.5
_CLOSE_S = 5.0
_CLOSE_LOOK_S = 0.002
_START_S = 10.0
_START_LOOK_S = 0.02


def find(state: str, name: str) -> RunFolder:
    """The run of this id, unique prefix of an id, or `@last`; raises `RunNotFound`."""
    if name == "@last":
        return _last(state)
    found = {folder.run_id: folder for folder in active_runs(state) if folder.run_id.startswith(name)} if name else {}
    # A living run must be found even when the index is broken; and no id holds more than ASCII.
    if name not in found and name and name.isascii():
        found |= {RunId(row.run_id): _folder(state, row) for row in index.starting_with(state, name)}
    if name in found:
        return found[RunId(name)]
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise RunNotFound(
            f"{name!r} begins more than one run id.", next_step=f"Add characters: {', '.join(sorted(found))}."
        )
    raise RunNotFound(
        f"There is no run {name!r}.", next_step="`inspan ps -a` lists them; `inspan reindex` finds strays."
    )


def settle(state: str, folder: RunFolder) -> Summary:
    """What is known of a run. A run without an owner and without an end is declared lost, by whoever looks first."""
    summary = summarize(record.event for record in read_log(folder.log))
    if summary.ended or is_locked(folder):
        return summary
    try:
        lock = take_lock(folder)
    except RunBusy:
        return summary
    try:
        from .lost import declare_lost  # Start-up time: this is rare.

        return declare_lost(state, folder)
    finally:
        os.close(lock)


def follow(state: str, folder: RunFolder) -> Iterator[Record | None]:
    """Records as they come, until the run's last; `None` when nothing was new for a while."""
    reader = LogReader(folder.log)
    with FolderWatch(folder.path) as watch:
        while True:
            idle = True
            for record in reader.read():
                idle = False
                yield record
            if reader.ended:
                _wait_for_owner(folder)
                return
            if idle:
                yield None
                if not is_locked(folder):
                    settle(state, folder)
                    continue
            watch.wait(_LOOK_S)


def stop(folder: RunFolder, *, command: Cancel) -> bool:
    """Asks a living run to end, waiting for one that is still starting; says whether it heard."""
    deadline = time.monotonic() + _START_S
    while not send_command(folder.socket, command):
        if not is_locked(folder) or time.monotonic() >= deadline:
            return False
        time.sleep(_START_LOOK_S)
    return True


def refuse_living(folder: RunFolder) -> None:
    """Raises `RunBusy` for a run that has not ended."""
    if is_locked(folder):
        raise RunBusy(f"Run {folder.run_id} is still running.", next_step=f"`inspan stop {folder.run_id}` first.")


def remove(state: str, folder: RunFolder) -> None:
    """Deletes an ended run, and its session with the last run of it; raises `RunBusy` while it lives."""
    refuse_living(folder)
    # Start-up time: only this deletes.
    import shutil

    from inspan.stores.sessions import forget_run, session_of

    try:
        session = session_of(folder)
    except StateUnusable:
        session = folder.run_id  # What cannot be read can still be deleted.
    # Before the run itself: if this fails, the run is still there to be removed again.
    forget_run(state, session, folder.run_id)
    unmark_active(state, folder.run_id)
    index.remove(state, folder.run_id)
    try:
        shutil.rmtree(folder.path)
    except OSError as error:
        raise unusable(folder.path, error) from error


def _wait_for_owner(folder: RunFolder) -> None:
    """The owner has written its last record and still has a few files to close: after this, it is done."""
    deadline = time.monotonic() + _CLOSE_S
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(_CLOSE_LOOK_S)


def _last(state: str) -> RunFolder:
    active = [folder for folder in active_runs(state) if os.path.exists(folder.file("run.json"))]
    ended = index.newest(state, limit=1)
    candidates = [*active[-1:], *(_folder(state, row) for row in ended)]
    if not candidates:
        raise RunNotFound("There is no run yet.", next_step='Start one: inspan run "say hello".')
    return max(candidates, key=lambda folder: folder.run_id)


def _folder(state: str, row: index.Row) -> RunFolder:
    return open_folder(run_path(state, project=row.project, task=row.task, run_id=row.run_id))
