"""How each node of the tree of budgets stands: a look at the ledger that changes nothing in it."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from inspan.protocol.amounts import Amounts, period_start
from inspan.protocol.budget import Budget, Node
from inspan.protocol.cost import Cost, build_cost
from inspan.protocol.known_types import know_type

from .ledger_calls import list_pending_calls
from .ledger_file import LedgerFile, has_ledger
from .ledger_sums import (
    ALL_TIME,
    NodeKey,
    OpenRun,
    decode_budgets,
    list_open_runs,
    sum_amounts,
    sum_reserved,
    sum_running_time,
)

if TYPE_CHECKING:
    import sqlite3

_BUDGET = msgspec.json.Decoder(know_type(Budget))


class BudgetStatus(NamedTuple):
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

    @property
    def cost(self) -> Cost:
        """What the node's calls cost; an agent without a gateway tells it once for a run, and has no calls here."""
        nano, unpriced = self.spent.nano, self.unpriced
        is_unknown = not self.scripted and unpriced > 0 and not nano and unpriced >= self.spent.calls
        is_unpriced = self.scripted and not nano
        return build_cost(None if is_unknown or is_unpriced else nano, paid=not self.scripted, unknown_calls=unpriced)


def read_tree(state: str, *, now: float | None = None) -> list[BudgetStatus]:
    """Projects, their tasks, and of these the runs that live, each below its parent. Raises `StateUnusable`."""
    if not has_ledger(state):
        return []
    file = LedgerFile(state)
    try:
        with file.read_transaction() as database:
            return list(_build_statuses(database, time.time() if now is None else now))
    finally:
        file.close()


def _build_statuses(database: "sqlite3.Connection", now: float) -> Iterator[BudgetStatus]:
    runs = {run.run_id: run for run in list_open_runs(database) if run.is_alive}
    found = database.execute(
        "SELECT project, task, '', scripted FROM sum WHERE run_id = '' AND day = ? UNION "
        "SELECT project, task, '', scripted FROM node",
        (ALL_TIME,),
    )
    nodes = [NodeKey(project, task, run_id, bool(scripted)) for project, task, run_id, scripted in found]
    nodes += [run.path["run"] for run in runs.values()]
    for node_key in sorted(nodes, key=lambda each: (each.scripted, *each[:3])):
        yield _build_status(database, node_key, runs.get(node_key.run_id), now)


def _build_status(database: "sqlite3.Connection", node_key: NodeKey, run: OpenRun | None, now: float) -> BudgetStatus:
    node: Node = "run" if node_key.run_id else "task" if node_key.task else "project"
    budget = decode_budgets(run.budgets).get("run", Budget()) if run else _read_budget(database, node_key)
    below = list_open_runs(database, node_key)
    living_s, _ = sum_running_time(below, per=budget.per, now=now)
    *amounts, unpriced, estimated = sum_amounts(database, node_key, per=budget.per, now=now)
    left = _sum_dead_runs(database, node_key, since=period_start(budget.per, now))
    return BudgetStatus(
        node=node,
        project=node_key.project,
        task=node_key.task,
        run_id=node_key.run_id,
        scripted=node_key.scripted,
        budget=budget,
        spent=Amounts(*amounts).add(Amounts(seconds=living_s)).add(left.spent),
        reserved=_subtract(sum_reserved(database, node_key), left.reserved),
        since=period_start(budget.per, now),
        unpriced=unpriced + left.unpriced,
        estimated=estimated + left.estimated,
    )


class _DeadSpending(NamedTuple):
    spent: Amounts
    reserved: Amounts
    unpriced: int
    estimated: int


def _sum_dead_runs(database: "sqlite3.Connection", node_key: NodeKey, *, since: float) -> _DeadSpending:
    """What dead runs had set aside is shown as what it is, spent, although nobody has entered it so yet."""
    spent, kept, unpriced, estimated = Amounts(), Amounts(), 0, 0
    for run in list_open_runs(database, node_key, reserving=True):
        if run.is_alive:
            continue
        kept = kept.add(sum_reserved(database, run.path["run"]))
        for row, charged in list_pending_calls(database, run):
            if row.at < since:
                continue
            amounts = charged or Amounts(nano=row.nano or 0, tokens=row.usage.total if row.usage else 0)
            spent = spent.add(amounts._replace(calls=1))
            unpriced, estimated = unpriced + (row.nano is None), estimated + (charged is not None)
    return _DeadSpending(spent, kept, unpriced, estimated)


def _subtract(all_of_it: Amounts, part: Amounts) -> Amounts:
    return Amounts(all_of_it.nano - part.nano, all_of_it.tokens - part.tokens, all_of_it.calls - part.calls)


def _read_budget(database: "sqlite3.Connection", node_key: NodeKey) -> Budget:
    values = (node_key.project, node_key.task, node_key.scripted)
    found = database.execute(
        "SELECT budget FROM node WHERE project = ? AND task = ? AND scripted = ?", values
    ).fetchone()
    return _BUDGET.decode(found[0]) if found else Budget()
