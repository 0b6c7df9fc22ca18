"""The ledger's table of spendings: one row for each model call, or for a run whose calls nobody counted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage

if TYPE_CHECKING:
    import sqlite3

USAGE = Usage.__struct_fields__
_PLAIN_COLUMNS = tuple(name for name in Spending._fields if name != "usage")
_COLUMNS = ", ".join((*_PLAIN_COLUMNS, *USAGE))
_MARKS = ", ".join("?" * (len(_PLAIN_COLUMNS) + len(USAGE) + 1))
_INSERT = f"INSERT OR IGNORE INTO spending ({_COLUMNS}, presumed) VALUES ({_MARKS})"


def insert_row(database: "sqlite3.Connection", spending: Spending, *, presumed: bool = False) -> bool:
    """Enters a row, unless that call of that run is there already; says whether it was new."""
    others = [getattr(spending, name) for name in _PLAIN_COLUMNS]
    usage = [getattr(spending.usage, name) if spending.usage else None for name in USAGE]
    return database.execute(_INSERT, (*others, *usage, presumed)).rowcount == 1


def select_rows_since(database: "sqlite3.Connection", since: float) -> list[Spending]:
    """Every row since a moment, oldest first."""
    found = database.execute(f"SELECT {_COLUMNS} FROM spending WHERE at >= ? ORDER BY at, run_id, call", (since,))
    return [_to_spending(values) for values in found]


def select_rows_of_run(database: "sqlite3.Connection", run_id: str) -> list[Spending]:
    """Every row of a run, in the order of its calls."""
    found = database.execute(f"SELECT {_COLUMNS} FROM spending WHERE run_id = ? ORDER BY call", (run_id,))
    return [_to_spending(values) for values in found]


def usage_from_columns(counts: Sequence[int | None]) -> Usage | None:
    """The usage in the columns of a row; None where nobody has stated one."""
    return None if counts[0] is None else Usage(**{name: count or 0 for name, count in zip(USAGE, counts, strict=True)})


def _to_spending(values: Sequence[Any]) -> Spending:
    found: dict[str, Any] = dict(zip(_PLAIN_COLUMNS, values, strict=False))
    found["usage"] = usage_from_columns(values[len(_PLAIN_COLUMNS) :])
    found["scripted"] = bool(found["scripted"])
    return Spending(**found)
