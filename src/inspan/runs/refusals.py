"""The newest runs that a budget has ended, in the words of their last events."""

from contextlib import suppress
from typing import NamedTuple

from inspan.errors import RunNotFound, StateUnusable
from inspan.stores import index
from inspan.stores.run_folder import open_folder, run_path

from .find import refresh_summary
from .list_all import read_index

_RUNS_LOOKED_AT = 50


class BudgetRefusal(NamedTuple):
    """What a run that a budget ended was told, and what to do."""

    run_id: str
    project: str
    task: str
    message: str
    next_step: str


def list_refusals(state: str, *, limit: int = 3) -> list[BudgetRefusal]:
    """Those among the last fifty runs, newest first; what cannot be read is left out."""
    found: list[BudgetRefusal] = []
    with suppress(StateUnusable):
        rows = read_index(state, lambda: index.list_newest(state, limit=_RUNS_LOOKED_AT))
        for row in [row for row in rows if row.reason == "budget"][:limit]:
            with suppress(RunNotFound, StateUnusable):
                path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
                ended = refresh_summary(state, open_folder(path)).ended
                if ended:
                    found.append(BudgetRefusal(row.run_id, row.project, row.task, ended.message, ended.next))
    return found
