"""Finding runs again: by id, prefix or `@last`; telling the living from the lost; removing; rebuilding the index."""

import os
import shutil
import time
from collections.abc import Iterator

import msgspec

from inspan.errors import RunBusy, RunNotFound, StateUnusable
from inspan.folds.summary import Summary, summarize
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.protocol.ids import RunId
from inspan.protocol.outcome import outcome_of
from inspan.protocol.wire import Record, encode
from inspan.stores import index
from inspan.stores.folder import RunFolder, active_runs, all_runs, is_locked, open_folder, take_lock
from inspan.stores.log import LogReader, read_log, reopen
from inspan.stores.paths import unusable
from inspan.stores.watch import FolderWatch

from .closing import close_run, forget, row_of
from .orders import send_command
from .sweep import sweep
from .verdict import next_step

_LOOK_S = 0.5
_CLOSE_S = 5.0
_CLOSE_LOOK_S = 0.002
_START_S = 10.0
_START_LOOK_S = 0.02


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A run as `ps` shows it: a row of the index, or a living one."""

    row: index.Row
    alive: bool


def find(state: str, name: str) -> RunFolder:
    """The run of this id, unique prefix of an id, or `@last`; raises `RunNotFound`."""
    if name == "@last":
        return _last(state)
    found = {folder.run_id: folder for folder in active_runs(state) if folder.run_id.startswith(name)} if name else {}
    # A living run must be found even when the index is broken; and no id holds more than ASCII.
    if name not in found and name and name.isascii():
        found |= {RunId(row.run_id): _folder(row) for row in index.starting_with(state, name)}
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
        return _declare_lost(state, folder)
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


def list_runs(state: str, *, ended: bool, limit: int | None = None) -> list[Listed]:
    """Living runs, newest first, and after them the ended ones where asked for."""
    living: list[Listed] = []
    for folder in reversed(active_runs(state)):
        if not os.path.exists(folder.file("run.json")):
            continue
        try:
            summary = settle(state, folder)
            if summary.ended is None:
                living.append(Listed(row=_living_row(folder, summary), alive=True))
            elif not _closed(state, folder, summary) and ended:
                living.append(Listed(row=row_of(folder, summary, summary.ended), alive=False))
        except StateUnusable as error:
            living.append(Listed(row=_unreadable_row(folder, error), alive=is_locked(folder)))
    shown = {each.row.run_id for each in living}
    rows = index.newest(state, limit=limit or -1) if ended else []
    return living + [Listed(row=row, alive=False) for row in rows if row.run_id not in shown]


def stop(folder: RunFolder, *, command: Cancel) -> bool:
    """Asks a living run to end, waiting for one that is still starting; says whether it heard."""
    deadline = time.monotonic() + _START_S
    while not send_command(folder.socket, command):
        if not is_locked(folder) or time.monotonic() >= deadline:
            return False
        time.sleep(_START_LOOK_S)
    return True


def remove(state: str, folder: RunFolder) -> None:
    """Deletes an ended run; raises `RunBusy` while it lives."""
    if is_locked(folder):
        raise RunBusy(f"Run {folder.run_id} is still running.", next_step=f"`inspan stop {folder.run_id}` first.")
    forget(os.path.join(state, "active", folder.run_id))
    index.remove(state, folder.run_id)
    try:
        shutil.rmtree(folder.path)
        shutil.rmtree(os.path.join(state, "sessions", folder.run_id), ignore_errors=True)
    except OSError as error:
        raise unusable(folder.path, error) from error


def reindex(state: str) -> tuple[int, list[str]]:
    """Rebuilds the index from the logs; gives how many runs it has now and a sentence for each it could not read."""
    rows: list[index.Row] = []
    problems: list[str] = []
    for folder in all_runs(state):
        try:
            summary = settle(state, folder)
            if summary.ended:
                rows.append(row_of(folder, summary, summary.ended))
                forget(os.path.join(state, "active", folder.run_id))
        except StateUnusable as error:
            problems.append(f"{folder.run_id}: {error}")
    index.replace_all(state, rows)
    return len(rows), problems


def _declare_lost(state: str, folder: RunFolder) -> Summary:
    """Appends the honest last record. The caller holds the lock, so nobody else can be writing."""
    summary = summarize(record.event for record in read_log(folder.log))
    if summary.ended:
        return summary
    sweep(folder.run_id)
    log, records = reopen(folder.log)
    duration_s = records[-1].at - records[0].at if records else 0.0
    ended = RunEnded(
        outcome=outcome_of("supervisor_lost"),
        reason="supervisor_lost",
        message="the run's supervisor ended without a word; nothing after the last record is known",
        next=next_step("supervisor_lost"),
        duration_s=round(duration_s, 3),
        session_id=summary.session_id,
        usage=summary.spent,
        cost_usd=summary.cost_usd,
        model_calls=summary.calls,
        files_changed=summary.files_changed,
        denied=summary.denied,
    )
    log.append(encode(ended))
    log.sync()
    log.close()
    summary.add(ended)
    forget(folder.socket)
    close_run(state, folder, summary)
    return summary


def _closed(state: str, folder: RunFolder, summary: Summary) -> bool:
    """Closes a run whose owner could not; says whether it is in the index now."""
    if is_locked(folder):
        return False
    try:
        close_run(state, folder, summary)
    except StateUnusable:
        return False
    return True


def _wait_for_owner(folder: RunFolder) -> None:
    """The owner has written its last record and still has a few files to close: after this, it is done."""
    deadline = time.monotonic() + _CLOSE_S
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(_CLOSE_LOOK_S)


def _living_row(folder: RunFolder, summary: Summary) -> index.Row:
    so_far = RunEnded(outcome="lost", reason="supervisor_lost", usage=summary.spent, cost_usd=summary.cost_usd)
    row = row_of(folder, summary, so_far)
    return row._replace(outcome="running", reason="", duration_s=time.time() - row.started_at)


def _unreadable_row(folder: RunFolder, error: StateUnusable) -> index.Row:
    """One damaged run must not hide the others; `inspan show` says what is wrong with it."""
    return index.Row(
        run_id=folder.run_id,
        path=folder.path,
        project="",
        task="",
        agent="-",
        started_at=os.path.getmtime(folder.path),
        duration_s=0.0,
        outcome="unreadable",
        reason=error.code,
        prompt="",
        tokens=0,
        cost_usd=None,
        session_id="",
    )


def _last(state: str) -> RunFolder:
    active = [folder for folder in active_runs(state) if os.path.exists(folder.file("run.json"))]
    ended = index.newest(state, limit=1)
    candidates = [*active[-1:], *(_folder(row) for row in ended)]
    if not candidates:
        raise RunNotFound("There is no run yet.", next_step='Start one: inspan run "say hello".')
    return max(candidates, key=lambda folder: folder.run_id)


def _folder(row: index.Row) -> RunFolder:
    return open_folder(row.path)
