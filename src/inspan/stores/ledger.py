"""The ledger: what runs have spent and what they may still spend. It survives every kill, `rm` and `reindex`.

A call is reserved before it is made and settled after it, both in one transaction over the whole path project → task →
run, so that any number of processes together cannot spend more than a limit allows. What a run that died had reserved
is spent (`ledger_calls.py`), and is entered so by whoever it is in the way of; until then, readers count it so.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from inspan.protocol.amounts import Amounts, Denial, check_limits, find_exhausted
from inspan.protocol.budget import NODES, Budget, Node
from inspan.protocol.spending import Spending

from .ledger_calls import (
    close_account,
    close_dead_accounts,
    delete_reservation,
    insert_reservation,
    list_dead_calls,
    record_spending,
    revert_presumed,
    update_reservation,
)
from .ledger_file import LedgerFile, has_ledger
from .ledger_rows import select_rows_of_run, select_rows_since
from .ledger_sums import (
    Budgets,
    NodeKey,
    Spender,
    add,
    build_node_keys,
    decode_budgets,
    find_run,
    list_open_runs,
    sum_reserved,
    sum_running_time,
    sum_spent,
)

if TYPE_CHECKING:
    import sqlite3


class TimeLeft(NamedTuple):
    """How much run time is left, under the limit that ends first, and by how many runs at once it is used."""

    seconds: float
    living: int
    denial: Denial | None


class _Account(NamedTuple):
    path: dict[Node, NodeKey]
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
        path = build_node_keys(spender.project, spender.task, spender.run_id, scripted=spender.scripted)
        with self.file.write_transaction() as database:
            close_dead_accounts(database)
            if self._load_account(database, spender.run_id):
                return None
            restarts = int(_has_runs(database, path["task"]))
            denial = self._check_open(database, path, budgets, restarts=restarts)
            if not denial:
                _insert_run(database, spender, budgets)
                add(database, (path["project"], path["task"]), Amounts(restarts=restarts), at=self.clock())
        return denial

    def reserve(
        self, run_id: str, call: int, *, nano: int | None, tokens: int, model: str = "", charged_nano: int | None = None
    ) -> Denial | None:
        """Sets aside what a call may take from every node above it, or says which has no room. The run is open.

        `nano` may be None only where no budget is in dollars; `charged_nano` is then what the call is taken to have
        cost should its run die, where that is known all the same.
        """
        asked = Amounts(nano=nano or 0, tokens=tokens, calls=1)
        with self.file.write_transaction() as database:
            account = self._account(database, run_id)
            denial = self._check_reserve(database, account, asked)
            if denial and denial.reserved and close_dead_accounts(database):
                denial = self._check_reserve(database, account, asked)
            if not denial:
                now, node_key = self.clock(), account.path["run"]
                charged = asked if charged_nano is None else asked._replace(nano=charged_nano)
                insert_reservation(database, node_key, call, asked=asked, charged=charged, at=now, model=model)
                _update_seen(database, run_id, now)
        return denial

    def begin(self, run_id: str, call: int, *, charged: Amounts, model: str) -> None:
        """Notes a call of a run without limits: nothing is kept for it, and it is not lost should the run die."""
        with self.file.write_transaction() as database:
            now, node_key = self.clock(), self._account(database, run_id).path["run"]
            insert_reservation(database, node_key, call, asked=Amounts(), charged=charged, at=now, model=model)
            _update_seen(database, run_id, now)

    def note(self, spending: Spending, *, charged: Amounts) -> None:
        """What came so far of a call under way, and what budgets count for it should its run die here."""
        with self.file.write_transaction() as database:
            update_reservation(database, spending, charged)
            _update_seen(database, spending.run_id, spending.at)

    def note_price(self, run_id: str, call: int, nano: int) -> None:
        """What a call under way would cost at most, where nothing came of it yet."""
        with self.file.write_transaction() as database:
            database.execute(
                "UPDATE reservation SET charged_nano = ? WHERE run_id = ? AND call = ? AND input IS NULL",
                (nano, run_id, call),
            )

    def settle(self, run_id: str, call: int, spending: Spending, *, charged: Amounts | None = None) -> None:
        """Puts what was really used in the place of the reservation, be it more or less; the second time is ignored.

        `charged` is what budgets count in place of a usage that nobody stated: they must stay safe, while the row
        keeps saying that it is not known.
        """
        with self.file.write_transaction() as database:
            delete_reservation(database, run_id, call)
            if record_spending(database, spending, charged=charged):
                _update_seen(database, run_id, spending.at)

    def release(self, run_id: str, call: int) -> None:
        """Gives back what was set aside for a call that was not made."""
        with self.file.write_transaction() as database:
            delete_reservation(database, run_id, call)
            revert_presumed(database, run_id, call)

    def end_run(self, run_id: str, seconds: float) -> None:
        """Closes a run's account. Its time replaces what was put down when it was taken for dead."""
        with self.file.write_transaction() as database:
            found = find_run(database, run_id)
            if found:
                close_account(database, found[0], seconds=seconds)

    def end_lost_run(self, run_id: str, known: Iterable[Spending] = ()) -> list[Spending]:
        """Closes the account of a run whose owner is certainly gone, and gives all its rows.

        `known` are calls of which its log tells the end: it stands above what is presumed of them.
        """
        with self.file.write_transaction() as database:
            found = find_run(database, run_id)
            if found:
                run, before_s = found
                close_account(database, run, seconds=run.seconds_seen if before_s is None else before_s)
            for spending in known:
                record_spending(database, spending)
            return select_rows_of_run(database, run_id)

    def time_left(self, run_id: str) -> TimeLeft | None:
        """How long a run may go on, summed over ended and living runs of every node; None without such a limit."""
        with self.file.read_transaction() as database:
            account = self._account(database, run_id)
            left = [
                self._time_left(database, node, account)
                for node in _nodes_with_budget(account.budgets)
                if account.budgets[node].seconds is not None
            ]
        return min(left, key=lambda each: each.seconds / max(1, each.living), default=None)

    def touch(self, run_id: str, *, ahead_s: float = 0.0) -> None:
        """The run lives: should it die without a word, its time counts up to now, and as far ahead as it says."""
        with self.file.write_transaction() as database:
            _update_seen(database, run_id, self.clock() + ahead_s)

    def _time_left(self, database: "sqlite3.Connection", node: Node, account: _Account) -> TimeLeft:
        budget, node_key, now = account.budgets[node], account.path[node], self.clock()
        living_s, living = sum_running_time(list_open_runs(database, node_key), per=budget.per, now=now)
        used = sum_spent(database, node_key, per=budget.per, now=now).seconds + living_s
        limit = Budget(seconds=budget.seconds, per=budget.per)
        denial = find_exhausted(node, node_key.name, limit, spent=Amounts(seconds=used))
        return TimeLeft((budget.seconds or 0.0) - used, living, denial)

    def _check_open(
        self, database: "sqlite3.Connection", path: dict[Node, NodeKey], budgets: Budgets, *, restarts: int
    ) -> Denial | None:
        """The first node that has nothing left, or no restart."""
        now = self.clock()
        for node in _nodes_with_budget(budgets):
            budget, node_key = budgets[node], path[node]
            used = sum_spent(database, node_key, per=budget.per, now=now)
            if budget.seconds is not None:
                living_s, _ = sum_running_time(list_open_runs(database, node_key), per=budget.per, now=now)
                used = used.add(Amounts(seconds=living_s))
            # A run has no restarts of its own.
            asked = Amounts(restarts=restarts if node != "run" else 0)
            denial = find_exhausted(node, node_key.name, budget, spent=used) or check_limits(
                node, node_key.name, budget, spent=used, asked=asked
            )
            if denial:
                return denial
        return None

    def _check_reserve(self, database: "sqlite3.Connection", account: _Account, asked: Amounts) -> Denial | None:
        now = self.clock()
        for node in _nodes_with_budget(account.budgets):
            budget, node_key = account.budgets[node], account.path[node]
            used = sum_spent(database, node_key, per=budget.per, now=now)
            denial = check_limits(
                node, node_key.name, budget, spent=used, reserved=sum_reserved(database, node_key), asked=asked
            )
            if denial:
                return denial
        return None

    def _account(self, database: "sqlite3.Connection", run_id: str) -> _Account:
        if run_id not in self._accounts and not self._load_account(database, run_id):
            raise LookupError(f"run {run_id} is not open in the ledger")
        return self._accounts[run_id]

    def _load_account(self, database: "sqlite3.Connection", run_id: str) -> bool:
        found = find_run(database, run_id)
        if found:
            self._accounts[run_id] = _Account(path=found[0].path, budgets=decode_budgets(found[0].budgets))
        return found is not None


def read_spendings(state: str, *, since: float = 0.0) -> list[Spending]:
    """Every row since a moment, oldest first; none without a ledger. Raises `StateUnusable`.

    What dead runs had under way is among them, whether or not somebody has entered it yet.
    """
    if not has_ledger(state):
        return []
    file = LedgerFile(state)
    try:
        with file.read_transaction() as database:
            found = select_rows_since(database, since)
            left = [row for row, _ in list_dead_calls(database) if row.at >= since]
    finally:
        file.close()
    return sorted([*found, *left], key=lambda row: (row.at, row.run_id, row.call)) if left else found


def _nodes_with_budget(budgets: Budgets) -> list[Node]:
    """From the project down: who is told of a limit should hear of the largest first."""
    return [node for node in NODES if node in budgets]


def _has_runs(database: "sqlite3.Connection", node_key: NodeKey) -> bool:
    values = (node_key.project, node_key.task, node_key.scripted)
    return bool(
        database.execute("SELECT 1 FROM run WHERE project = ? AND task = ? AND scripted = ? LIMIT 1", values).fetchone()
    )


def _insert_run(database: "sqlite3.Connection", spender: Spender, budgets: Budgets) -> None:
    now = spender.started_at
    key = (spender.run_id, spender.project, spender.task, spender.scripted)
    encoded = msgspec.json.encode(budgets)
    columns = "run_id, project, task, scripted, started_at, seen_at, lock, budgets, agent, session"
    values = (*key, now, now, spender.lock, encoded, spender.agent, spender.session)
    database.execute(f"INSERT INTO run ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?)", values)
    nodes: list[tuple[Node, str]] = [("project", ""), ("task", spender.task)]
    database.executemany(
        "INSERT OR REPLACE INTO node VALUES (?,?,?,?)",
        [
            (spender.project, task, spender.scripted, msgspec.json.encode(budgets.get(node, Budget())))
            for node, task in nodes
        ],
    )


def _update_seen(database: "sqlite3.Connection", run_id: str, at: float) -> None:
    database.execute("UPDATE run SET seen_at = max(seen_at, ?) WHERE run_id = ?", (at, run_id))
