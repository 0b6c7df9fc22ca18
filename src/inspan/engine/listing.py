"""All runs at once: listing them, and rebuilding the index from their logs."""

import os

from inspan.errors import StateUnusable
from inspan.folds.summary import Summary
from inspan.stores import index
from inspan.stores.folder import RunFolder, active_runs, all_runs, is_locked, unmark_active
from inspan.stores.index import Row

from .rows import living_row, row_of, unreadable_row
from .runs import settle


def list_runs(state: str, *, ended: bool, limit: int | None = None) -> list[Row]:
    """Living runs, newest first, and after them the ended ones where asked for."""
    living: list[Row] = []
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
    if not ended:
        return living
    rows = index.newest(state, limit=limit or -1)
    shown = {row.run_id for row in living}
    return living + [row for row in rows if row.run_id not in shown] if shown else rows


def reindex(state: str) -> tuple[int, list[str]]:
    """Rebuilds the index from the logs; gives how many runs it has now and a sentence for each it could not read."""
    rows: list[Row] = []
    problems: list[str] = []
    for folder in all_runs(state):
        try:
            summary = settle(state, folder)
            if summary.ended:
                rows.append(row_of(folder, summary, summary.ended))
                unmark_active(state, folder.run_id)
        except StateUnusable as error:
            problems.append(f"{folder.run_id}: {error}")
    index.replace_all(state, rows)
    return len(rows), problems


def _closed(state: str, folder: RunFolder, summary: Summary) -> bool:
    """Closes a run whose owner could not; says whether it is in the index now."""
    if is_locked(folder):
        return False
    from .closing import close_run  # Start-up time: an owner nearly always closes its run itself.

    return close_run(state, folder, summary)
