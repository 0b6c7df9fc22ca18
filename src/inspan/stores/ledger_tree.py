"""How each node of the tree of budgets stands: a look at the ledger that changes nothing in it."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from inspan.protocol.amounts import Amounts, begin_of
from inspan.protocol.budget import Budget, Node

from .ledger_file import LedgerFile, exists
from .ledger_sums import EVER, OpenRun, Place, decoded_budgets, living_seconds, open_runs, reserved, summed

if TYPE_CHECKING:
    import sqlite3

_BUDGET = msgspec.json.Decoder(Budget)


class Standing(NamedTuple):
    """How a node of the tree stands, in the period of its budget, which began at `since` (0 is for ever).

    `budget` is that of the newest run. `unpriced` calls cost nobody knows what, and `estimated` ones were counted by
    an estimate, because the provider stated no usage; neither can be told from the sums.
    """

    node: Node
    project: str
    task: str
    run_id: str
    scripted: bool
    budget: Budget
    spent: Amounts
    reserved: Amounts
    since: float
    unpriced: int
    estimated: int


def tree(state: str, *, now: float | None = None) -> list[Standing]:
    """Projects, their tasks, and of these the runs that live, each below its parent. Raises `StateUnusable`."""
    if not exists(state):
        return []
    file = LedgerFile(state)
    try:
        with file.reading() as database:
            return list(_standings(database, time.time() if now is None else now))
    finally:
        file.close()


def _standings(database: "sqlite3.Connection", now: float) -> Iterator[Standing]:
    runs = {run.run_id: run for run in open_runs(database) if run.lives}
    found = database.execute(
        "SELECT project, task, '', scripted FROM sum WHERE run_id = '' AND day = ? UNION "
        "SELECT project, task, '', scripted FROM node",
        (EVER,),
    )
    nodes = [Place(project, task, run_id, bool(scripted)) for project, task, run_id, scripted in found]
    nodes += [run.path["run"] for run in runs.values()]
    for place in sorted(nodes, key=lambda each: (each.scripted, *each[:3])):
        yield _standing(database, place, runs.get(place.run_id), now)


def _standing(database: "sqlite3.Connection", place: Place, run: OpenRun | None, now: float) -> Standing:
    node: Node = "run" if place.run_id else "task" if place.task else "project"
    budget = decoded_budgets(run.budgets).get("run", Budget()) if run else _budget(database, place)
    below = open_runs(database, place)
    living_s, _ = living_seconds(below, per=budget.per, now=now)
    *amounts, unpriced, estimated = summed(database, place, per=budget.per, now=now)
    return Standing(
        node=node,
        project=place.project,
        task=place.task,
        run_id=place.run_id,
        scripted=place.scripted,
        budget=budget,
        spent=Amounts(*amounts).plus(Amounts(seconds=living_s)),
        reserved=_reserved_by_living(database, place, below),
        since=begin_of(budget.per, now),
        unpriced=unpriced,
        estimated=estimated,
    )


def _reserved_by_living(database: "sqlite3.Connection", place: Place, runs: Sequence[OpenRun]) -> Amounts:
    """What nobody will use any more is not shown, although nobody has released it yet."""
    found = reserved(database, place)
    for run in runs:
        if not run.lives:
            lost = reserved(database, run.path["run"])
            found = Amounts(found.nano - lost.nano, found.tokens - lost.tokens, found.calls - lost.calls)
    return found


def _budget(database: "sqlite3.Connection", place: Place) -> Budget:
    values = (place.project, place.task, place.scripted)
    found = database.execute(
        "SELECT budget FROM node WHERE project = ? AND task = ? AND scripted = ?", values
    ).fetchone()
    return _BUDGET.decode(found[0]) if found else Budget()
