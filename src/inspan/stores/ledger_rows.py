"""The ledger's table of spendings: one row for each model call, or for a run whose calls nobody counted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage

from .ledger_file import LedgerFile, exists

if TYPE_CHECKING:
    import sqlite3

_USAGE = Usage.__struct_fields__
_OTHERS = tuple(name for name in Spending._fields if name != "usage")
_COLUMNS = ", ".join((*_OTHERS, *_USAGE))
_PUT = f"INSERT OR IGNORE INTO spending ({_COLUMNS}) VALUES ({', '.join('?' * (len(_OTHERS) + len(_USAGE)))})"


def put(database: "sqlite3.Connection", spending: Spending) -> bool:
    """Enters a row, unless that call of that run is there already; says whether it was new."""
    others = [getattr(spending, name) for name in _OTHERS]
    usage = [getattr(spending.usage, name) if spending.usage else None for name in _USAGE]
    return database.execute(_PUT, (*others, *usage)).rowcount == 1


def spendings(state: str, *, since: float = 0.0) -> list[Spending]:
    """Every row since a moment, oldest first; none without a ledger. Raises `StateUnusable`."""
    if not exists(state):
        return []
    file = LedgerFile(state)
    try:
        with file.reading() as database:
            found = database.execute(
                f"SELECT {_COLUMNS} FROM spending WHERE at >= ? ORDER BY at, run_id, call", (since,)
            )
            return [_spending(values) for values in found]
    finally:
        file.close()


def _spending(values: Sequence[Any]) -> Spending:
    found: dict[str, Any] = dict(zip(_OTHERS, values, strict=False))
    tokens = values[len(_OTHERS) :]
    found["usage"] = None if tokens[0] is None else Usage(**dict(zip(_USAGE, tokens, strict=True)))
    found["scripted"] = bool(found["scripted"])
    return Spending(**found)
