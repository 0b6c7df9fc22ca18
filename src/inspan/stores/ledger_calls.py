"""The ledger's calls under way: what is set aside for each, what came of it so far, and what it is without its owner.

A call counts as made from the moment at which it is set aside, since nobody can tell afterwards how far it came:

| its owner | the call |
|---|---|
| settles it | is what its provider stated |
| releases it, as it was not made | is nothing |
| is dead, and had written what came of the answer | is that |
| is dead, and had written nothing | is all that was set aside for it |

The last two are presumed: an owner that was only taken for dead, or its log, may still say better.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from inspan.protocol.amounts import Amounts
from inspan.protocol.spending import Spending

from .ledger_rows import USAGE, insert_row, usage_from_columns
from .ledger_sums import NodeKey, OpenRun, add, add_seconds, build_node_keys, list_open_runs

if TYPE_CHECKING:
    import sqlite3

_INSERT_RESERVATION = (
    "INSERT OR REPLACE INTO reservation (run_id, call, project, task, scripted, nano, tokens, counted, at, model, "
    "role, charged_nano, charged_tokens) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_UPDATE_RESERVATION = (
    f"UPDATE reservation SET at = ?, role = ?, {', '.join(f'{name} = ?' for name in USAGE)}, stated_nano = ?, "
    "charged_nano = ?, charged_tokens = ? WHERE run_id = ? AND call = ?"
)
_SELECT_RESERVATIONS = (
    f"SELECT call, at, model, role, {', '.join(USAGE)}, stated_nano, "
    "coalesce(charged_nano, nano), coalesce(charged_tokens, tokens) FROM reservation WHERE run_id = ? ORDER BY call"
)
_SELECT_PRESUMED = (
    "SELECT at, project, task, scripted, nano, coalesce(charged_nano, nano, 0), "
    "coalesce(charged_tokens, input + output + cache_read + cache_write, 0), charged_tokens IS NOT NULL "
    "FROM spending WHERE run_id = ? AND call = ? AND presumed"
)


def insert_reservation(
    database: "sqlite3.Connection",
    node_key: NodeKey,
    call: int,
    *,
    asked: Amounts,
    charged: Amounts,
    at: float,
    model: str = "",
) -> None:
    """Keeps so much of a run for a call; without `calls` in what is asked, it is only noted to be under way."""
    key = (node_key.run_id, call, node_key.project, node_key.task, node_key.scripted)
    values = (asked.nano, asked.tokens, asked.calls, at, model, "main", charged.nano, charged.tokens)
    database.execute(_INSERT_RESERVATION, (*key, *values))


def update_reservation(database: "sqlite3.Connection", spending: Spending, charged: Amounts) -> None:
    """What came of a call so far, and what it would be charged if it ended here; nothing where it is not under way."""
    usage = [getattr(spending.usage, name) if spending.usage else None for name in USAGE]
    values = (spending.at, spending.role, *usage, spending.nano, charged.nano, charged.tokens)
    database.execute(_UPDATE_RESERVATION, (*values, spending.run_id, spending.call))


def delete_reservation(database: "sqlite3.Connection", run_id: str, call: int) -> None:
    """The call is not under way any more."""
    database.execute("DELETE FROM reservation WHERE run_id = ? AND call = ?", (run_id, call))


def record_spending(
    database: "sqlite3.Connection", spending: Spending, *, charged: Amounts | None = None, presumed: bool = False
) -> bool:
    """Enters what was spent into its row and into all sums; False where it is there already.

    What was only presumed of the same call is taken back first.
    """
    if not presumed:
        revert_presumed(database, spending.run_id, spending.call)
    if charged is not None:
        spending = with_charge(spending, charged)
    if not insert_row(database, spending, presumed=presumed):
        return False
    stated = Amounts(nano=spending.nano or 0, tokens=spending.usage.total if spending.usage else 0)
    amounts = (charged or stated)._replace(calls=int(spending.source == "gateway"))
    path = build_node_keys(spending.project, spending.task, spending.run_id, scripted=spending.scripted)
    unpriced, estimated = int(spending.nano is None), int(charged is not None)
    add(database, path.values(), amounts, at=spending.at, unpriced=unpriced, estimated=estimated)
    return True


def with_charge(spending: Spending, charged: Amounts) -> Spending:
    """The row of a call for which budgets count something else than what was stated."""
    return spending._replace(charged_nano=charged.nano, charged_tokens=charged.tokens)


def revert_presumed(database: "sqlite3.Connection", run_id: str, call: int) -> None:
    """Forgets what was presumed of a call, if it was."""
    found = database.execute(_SELECT_PRESUMED, (run_id, call)).fetchone()
    if found is None:
        return
    at, project, task, scripted, nano, charged_nano, charged_tokens, is_estimated = found
    path = build_node_keys(project, task, run_id, scripted=bool(scripted))
    amounts = Amounts(nano=-charged_nano, tokens=-charged_tokens, calls=-1)
    add(database, path.values(), amounts, at=at, unpriced=-int(nano is None), estimated=-int(is_estimated))
    database.execute("DELETE FROM spending WHERE run_id = ? AND call = ? AND presumed", (run_id, call))


def list_pending_calls(database: "sqlite3.Connection", run: OpenRun) -> Iterator[tuple[Spending, Amounts | None]]:
    """The calls of a dead run that it had under way, as what they are charged."""
    for call, at, model, role, *counts, stated_nano, nano, tokens in database.execute(
        _SELECT_RESERVATIONS, (run.run_id,)
    ):
        usage = usage_from_columns(counts)
        spending = Spending(
            run_id=run.run_id,
            call=call,
            at=run.seen_at if at is None else at,
            project=run.project,
            task=run.task,
            session=run.session,
            agent=run.agent,
            model=model,
            role=role,
            usage=usage,
            nano=stated_nano,
            source="gateway",
            scripted=run.scripted,
        )
        is_stated = usage is not None and (usage.total, stated_nano or 0) == (tokens, nano)
        charged = None if is_stated else Amounts(nano=nano, tokens=tokens)
        yield (with_charge(spending, charged) if charged else spending), charged


def list_dead_calls(database: "sqlite3.Connection") -> Iterator[tuple[Spending, Amounts | None]]:
    """The same for all runs that are dead and that nobody has ended yet."""
    for run in _find_dead_runs(database):
        yield from list_pending_calls(database, run)


def close_account(database: "sqlite3.Connection", run: OpenRun, *, seconds: float) -> None:
    """Closes the account of a run: its time is counted, and what it had under way is spent."""
    for spending, charged in list(list_pending_calls(database, run)):
        record_spending(database, spending, charged=charged, presumed=True)
    _revert_time(database, run)
    add_seconds(database, run.path.values(), start=run.started_at, seconds=seconds)
    database.execute("UPDATE run SET seconds = ? WHERE run_id = ?", (seconds, run.run_id))
    for table in ("reservation", "slot"):
        database.execute(f"DELETE FROM {table} WHERE run_id = ?", (run.run_id,))


def close_dead_accounts(database: "sqlite3.Connection") -> int:
    """Does so for every run whose process is gone, with the time up to when it was last seen; says how many."""
    dead = _find_dead_runs(database)
    for run in dead:
        close_account(database, run, seconds=run.seconds_seen)
    return len(dead)


def _revert_time(database: "sqlite3.Connection", run: OpenRun) -> None:
    """A run that was taken for dead has had its time put down already."""
    before_s: float | None = database.execute("SELECT seconds FROM run WHERE run_id = ?", (run.run_id,)).fetchone()[0]
    if before_s is not None:
        add_seconds(database, run.path.values(), start=run.started_at, seconds=before_s, sign=-1)


def _find_dead_runs(database: "sqlite3.Connection") -> list[OpenRun]:
    """A run that was taken for dead may have gone on, and died with calls under way again."""
    return [run for run in list_open_runs(database, reserving=True) if not run.is_alive]
