"""The ledger: what runs have spent and what they may still spend. It survives every kill, `rm` and `reindex`.

A call is reserved before it is made and settled after it, both in one transaction over the whole path project → task →
run, so that any number of processes together cannot spend more than a limit allows. What a run that died had reserved
is released by whoever it is in the way of; what was settled stays.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from inspan.protocol.amounts import Amounts, Denial, judge, used_up
from inspan.protocol.budget import NODES, Budget, Node
from inspan.protocol.spending import Spending

from .ledger_file import LedgerFile
from .ledger_rows import put
from .ledger_rows import spendings as spendings
from .ledger_sums import (
    Budgets,
    Place,
    Spender,
    add,
    add_seconds,
    decoded_budgets,
    end,
    end_dead,
    find_run,
    living_seconds,
    open_runs,
    places,
    reserved,
    spent,
)

if TYPE_CHECKING:
    import sqlite3


class TimeLeft(NamedTuple):
    """How much run time is left, under the limit that ends first, and by how many runs at once it is used."""

    seconds: float
    living: int
    denial: Denial | None


class _Account(NamedTuple):
    path: dict[Node, Place]
    budgets: dict[Node, Budget]


class Ledger:
    """The ledger of a state folder, open until `close`; for one thread at a time. Raises `StateUnusable`.

    The limits of a node are those of the run that asks: each run brings its own.
    """

    def __init__(self, state: str, *, clock: Callable[[], float] = time.time, wait_s: float = 10.0) -> None:
        self.file = LedgerFile(state, wait_s=wait_s)
        self.clock = clock
        self._accounts: dict[str, _Account] = {}

    def close(self) -> None:
        """Idempotent."""
        self.file.close()

    def open_run(self, spender: Spender, budgets: Budgets) -> Denial | None:
        """Enters a run, unless a budget has nothing left for it; doing it twice is no error."""
        path = places(spender.project, spender.task, spender.run_id, scripted=spender.scripted)
        with self.file.writing() as database:
            end_dead(database)
            if self._known(database, spender.run_id):
                return None
            restarts = int(_has_runs(database, path["task"]))
            denial = self._refused(database, path, budgets, restarts=restarts)
            if not denial:
                _enter(database, spender, budgets)
                add(database, (path["project"], path["task"]), Amounts(restarts=restarts), at=self.clock())
        return denial

    def reserve(self, run_id: str, call: int, *, nano: int | None, tokens: int) -> Denial | None:
        """Sets aside what a call may take from every node above it, or says which has no room. The run is open.

        `nano` may be None only where no budget is in dollars.
        """
        asked = Amounts(nano=nano or 0, tokens=tokens, calls=1)
        with self.file.writing() as database:
            account = self._account(database, run_id)
            denial = self._judged(database, account, asked)
            if denial and denial.reserved and end_dead(database):
                denial = self._judged(database, account, asked)
            if not denial:
                project, task, _, scripted = account.path["run"]
                row = (run_id, call, project, task, scripted, asked.nano, asked.tokens)
                database.execute("INSERT OR REPLACE INTO reservation VALUES (?,?,?,?,?,?,?)", row)
                _seen(database, run_id, self.clock())
        return denial

    def settle(self, run_id: str, call: int, spending: Spending, *, charged: Amounts | None = None) -> None:
        """Puts what was really used in the place of the reservation, be it more or less; the second time is ignored.

        `charged` is what budgets count in place of a usage that nobody stated: they must stay safe, while the row
        keeps saying that it is not known.
        """
        told = Amounts(nano=spending.nano or 0, tokens=spending.usage.total if spending.usage else 0)
        amounts = (charged or told)._replace(calls=int(spending.source == "gateway"))
        path = places(spending.project, spending.task, run_id, scripted=spending.scripted)
        with self.file.writing() as database:
            _release(database, run_id, call)
            if put(database, spending):
                unpriced = int(spending.nano is None)
                add(
                    database,
                    path.values(),
                    amounts,
                    at=spending.at,
                    unpriced=unpriced,
                    estimated=int(charged is not None),
                )
                _seen(database, run_id, spending.at)

    def release(self, run_id: str, call: int) -> None:
        """Gives back what was set aside for a call that was not made."""
        with self.file.writing() as database:
            _release(database, run_id, call)

    def end_run(self, run_id: str, seconds: float) -> None:
        """Closes a run's account. Its time replaces what was put down when it was taken for dead."""
        with self.file.writing() as database:
            found = find_run(database, run_id)
            if found is None:
                return
            run, before_s = found
            if before_s is not None:
                add_seconds(database, run.path.values(), start=run.started_at, seconds=before_s, sign=-1)
            end(database, run, seconds=seconds)

    def time_left(self, run_id: str) -> TimeLeft | None:
        """How long a run may go on, summed over ended and living runs of every node; None without such a limit."""
        with self.file.reading() as database:
            account = self._account(database, run_id)
            left = [
                self._time_left(database, node, account)
                for node in _limited(account.budgets)
                if account.budgets[node].seconds is not None
            ]
        return min(left, key=lambda each: each.seconds / max(1, each.living), default=None)

    def touch(self, run_id: str) -> None:
        """The run lives: should it die without a word, its time counts up to now."""
        with self.file.writing() as database:
            _seen(database, run_id, self.clock())

    def _time_left(self, database: "sqlite3.Connection", node: Node, account: _Account) -> TimeLeft:
        budget, place, now = account.budgets[node], account.path[node], self.clock()
        living_s, living = living_seconds(open_runs(database, place), per=budget.per, now=now)
        used = spent(database, place, per=budget.per, now=now).seconds + living_s
        limit = Budget(seconds=budget.seconds, per=budget.per)
        denial = used_up(node, place.name, limit, spent=Amounts(seconds=used))
        return TimeLeft((budget.seconds or 0.0) - used, living, denial)

    def _refused(
        self, database: "sqlite3.Connection", path: dict[Node, Place], budgets: Budgets, *, restarts: int
    ) -> Denial | None:
        """The first node that has nothing left, or no restart."""
        now = self.clock()
        for node in _limited(budgets):
            budget, place = budgets[node], path[node]
            used = spent(database, place, per=budget.per, now=now)
            if budget.seconds is not None:
                living_s, _ = living_seconds(open_runs(database, place), per=budget.per, now=now)
                used = used.plus(Amounts(seconds=living_s))
            # A run has no restarts of its own.
            asked = Amounts(restarts=restarts if node != "run" else 0)
            denial = used_up(node, place.name, budget, spent=used) or judge(
                node, place.name, budget, spent=used, asked=asked
            )
            if denial:
                return denial
        return None

    def _judged(self, database: "sqlite3.Connection", account: _Account, asked: Amounts) -> Denial | None:
        now = self.clock()
        for node in _limited(account.budgets):
            budget, place = account.budgets[node], account.path[node]
            used = spent(database, place, per=budget.per, now=now)
            denial = judge(node, place.name, budget, spent=used, reserved=reserved(database, place), asked=asked)
            if denial:
                return denial
        return None

    def _account(self, database: "sqlite3.Connection", run_id: str) -> _Account:
        if run_id not in self._accounts and not self._known(database, run_id):
            raise LookupError(f"run {run_id} is not open in the ledger")
        return self._accounts[run_id]

    def _known(self, database: "sqlite3.Connection", run_id: str) -> bool:
        found = find_run(database, run_id)
        if found:
            self._accounts[run_id] = _Account(path=found[0].path, budgets=decoded_budgets(found[0].budgets))
        return found is not None


def _limited(budgets: Budgets) -> list[Node]:
    """From the project down: who is told of a limit should hear of the largest first."""
    return [node for node in NODES if node in budgets]


def _has_runs(database: "sqlite3.Connection", place: Place) -> bool:
    values = (place.project, place.task, place.scripted)
    return bool(
        database.execute("SELECT 1 FROM run WHERE project = ? AND task = ? AND scripted = ? LIMIT 1", values).fetchone()
    )


def _enter(database: "sqlite3.Connection", spender: Spender, budgets: Budgets) -> None:
    now = spender.started_at
    key = (spender.run_id, spender.project, spender.task, spender.scripted)
    encoded = msgspec.json.encode(budgets)
    database.execute("INSERT INTO run VALUES (?,?,?,?,?,?,NULL,?,?)", (*key, now, now, spender.lock, encoded))
    nodes: list[tuple[Node, str]] = [("project", ""), ("task", spender.task)]
    database.executemany(
        "INSERT OR REPLACE INTO node VALUES (?,?,?,?)",
        [
            (spender.project, task, spender.scripted, msgspec.json.encode(budgets.get(node, Budget())))
            for node, task in nodes
        ],
    )


def _release(database: "sqlite3.Connection", run_id: str, call: int) -> None:
    database.execute("DELETE FROM reservation WHERE run_id = ? AND call = ?", (run_id, call))


def _seen(database: "sqlite3.Connection", run_id: str, at: float) -> None:
    database.execute("UPDATE run SET seen_at = max(seen_at, ?) WHERE run_id = ?", (at, run_id))
