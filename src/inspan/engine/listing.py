"""All runs at once: listing them, and rebuilding the index from their logs."""

import os
from collections.abc import Callable
from typing import TypeVar

from inspan.errors import StateUnusable
from inspan.folds.summary import Summary
from inspan.stores import index
from inspan.stores.folder import RunFolder, active_runs, all_runs, is_locked, unmark_active
from inspan.stores.index import Entry, Row

from .rows import living_row, row_of, unreadable_row
from .runs import settle

T = TypeVar("T")


def list_runs(state: str, *, ended: bool, limit: int | None = None) -> list[Row]:
    """Living runs, newest first, and after them the ended ones where asked for."""
    living = [entry.row for entry in active_entries(state, ended=ended)]
    if not ended:
        return living
    rows = indexed(state, lambda: index.newest(state, limit=limit or -1))
    shown = {row.run_id for row in living}
    return living + [row for row in rows if row.run_id not in shown] if shown else rows


def active_entries(state: str, *, ended: bool) -> list[Entry]:
    """What is on the active list: living runs, and where asked for those that ended and could not be closed."""
    living: list[Entry] = []
    for folder in reversed(active_runs(state)):
        if not os.path.exists(folder.file("run.json")):
            continue
        try:
            summary = settle(state, folder)
            if summary.ended is None:
                living.append(living_row(folder, summary))
            elif not _closed(state, folder, summary) and ended:
                living.append(row_of(folder, summary, summary.ended))
        except StateUnusable as error:
            living.append(unreadable_row(folder, error))
    return living


def indexed(state: str, read: Callable[[], list[T]]) -> list[T]:
    """What the index says; one that another version of inspan wrote is rebuilt first, once."""
    try:
        return read()
    except StateUnusable:
        if not index.is_outdated(state):
            raise
    reindex(state)
    return read()


def reindex(state: str) -> tuple[int, list[str]]:
    """Rebuilds the index from the logs; gives how many runs it has now and a sentence for each it could not read."""
    entries: list[Entry] = []
    problems: list[str] = []
    for folder in all_runs(state):
        try:
            summary = settle(state, folder)
            if summary.ended:
                entries.append(row_of(folder, summary, summary.ended))
                unmark_active(state, folder.run_id)
        except StateUnusable as error:
            problems.append(f"{folder.run_id}: {error}")
    index.replace_all(state, entries)
    return len(entries), problems


def _closed(state: str, folder: RunFolder, summary: Summary) -> bool:
    """Closes a run whose owner could not; says whether it is in the index now."""
    if is_locked(folder):
        return False
    from .closing import close_run  # Start-up time: an owner nearly always closes its run itself.

    return close_run(state, folder, summary)
