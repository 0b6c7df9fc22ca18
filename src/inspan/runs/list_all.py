"""All runs at once: listing them, and rebuilding the index from their logs."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from inspan.errors import StateUnusable
from inspan.folds.summary import Summary
from inspan.running.rows import build_entry, build_running_entry, build_unreadable_entry
from inspan.stores import index
from inspan.stores.index import Entry, Row
from inspan.stores.run_folder import RunFolder, active_runs, all_runs, is_locked, unmark_active

from .find import refresh_run, refresh_summary
from .names import build_index_scope
from .projects import Scope

if TYPE_CHECKING:
    from inspan.folds.live_state import LiveState

T = TypeVar("T")


class ActiveRun(NamedTuple):
    """A run of the active list; one that lives has a state."""

    entry: Entry
    state: "LiveState | None" = None


def list_runs(state: str) -> list[Row]:
    """Living runs, newest first, and after them the ended ones; those of every project."""
    living = [entry.row for entry in active_entries(state, ended=True)]
    shown = {row.run_id for row in living}
    return living + [row for row in list_ended(state) if row.run_id not in shown]


def list_ended(state: str, *, scope: Scope | None = None, limit: int | None = None) -> list[Row]:
    """The ended runs of a project, or of all, newest first."""
    meant = build_index_scope(scope) if scope else None
    return read_index(state, lambda: index.list_newest(state, limit=limit or -1, in_scope=meant))


def active_entries(state: str, *, ended: bool) -> list[Entry]:
    """What is on the active list: living runs, and where asked for those that ended and could not be closed."""
    return [run.entry for run in list_active(state, ended=ended)]


def list_active(state: str, *, ended: bool) -> list[ActiveRun]:
    """The same, each living run with what it is doing now."""
    living: list[ActiveRun] = []
    folders = [folder for folder in reversed(active_runs(state)) if os.path.exists(folder.file("run.json"))]
    dead = {folder.run_id for folder in folders if not is_locked(folder)}
    working = _look_for_processes() if len(dead) > 1 else None
    for folder in folders:
        try:
            summary, live = refresh_run(state, folder, living=working if folder.run_id in dead else None)
            if summary.ended is None:
                living.append(ActiveRun(build_running_entry(folder, summary), live))
            elif not _finalize_unowned(state, folder, summary) and ended:
                living.append(ActiveRun(build_entry(folder, summary, summary.ended)))
        except StateUnusable as error:
            living.append(ActiveRun(build_unreadable_entry(folder, error)))
    return living


def read_index(state: str, read: Callable[[], list[T]]) -> list[T]:
    """What the index says; one that another version of inspan wrote is rebuilt first, once."""
    try:
        return read()
    except StateUnusable:
        if not index.is_outdated(state):
            raise
    reindex(state)
    return read()


def ignore_progress(done: int) -> None:
    """For callers that show none."""


def reindex(state: str, *, report: Callable[[int], None] = ignore_progress) -> tuple[int, list[str]]:
    """Rebuilds the index from the logs; gives how many runs it has now and a sentence for each it could not read.

    `report` is told before each run how many were read.
    """
    entries: list[Entry] = []
    problems: list[str] = []
    folders = all_runs(state, on_error=lambda refusal: problems.append(str(refusal)))
    for number, folder in enumerate(folders):
        report(number)
        try:
            summary = refresh_summary(state, folder)
            if summary.ended:
                entries.append(build_entry(folder, summary, summary.ended))
        except StateUnusable as error:
            problems.append(f"{folder.run_id}: {error}")
    index.replace_all(state, entries)
    # Only now: a run that is neither listed as active nor in the index would be found by nobody.
    for entry in entries:
        unmark_active(state, entry.row.run_id)
    return len(entries), problems


def _look_for_processes() -> frozenset[str]:
    from inspan.containment.sweep import list_runs_with_processes  # Start-up time: few die, and seldom many at once.

    return list_runs_with_processes()


def _finalize_unowned(state: str, folder: RunFolder, summary: Summary) -> bool:
    """Closes a run whose owner could not; says whether it is in the index now."""
    if is_locked(folder):
        return False
    from inspan.running.finalize import finalize_run  # Start-up time: an owner nearly always closes its run itself.

    return finalize_run(state, folder, summary)
