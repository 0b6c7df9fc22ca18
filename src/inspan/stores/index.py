"""The index of ended runs in SQLite: a convenience that can be deleted and rebuilt from the logs."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from inspan.errors import StateUnusable

from .folder import forget
from .paths import private_folder

if TYPE_CHECKING:
    import sqlite3

_VERSION = 2
_TABLE = """
CREATE TABLE IF NOT EXISTS run (
    run_id TEXT PRIMARY KEY, project TEXT NOT NULL, task TEXT NOT NULL, agent TEXT NOT NULL,
    started_at REAL NOT NULL, duration_s REAL NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    prompt TEXT NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL, session_id TEXT NOT NULL
) WITHOUT ROWID
"""


class Row(NamedTuple):
    """One ended run, as `ps` shows it."""

    run_id: str
    project: str
    task: str
    agent: str
    started_at: float
    duration_s: float
    outcome: str
    reason: str
    prompt: str
    tokens: int
    cost_usd: float | None
    session_id: str


def put(state: str, rows: Sequence[Row]) -> None:
    """Enters ended runs; a run that is there already is replaced."""
    with _open(state) as database, database:
        database.executemany(f"INSERT OR REPLACE INTO run VALUES ({','.join('?' * len(Row._fields))})", rows)


def remove(state: str, run: str) -> None:
    """Forgets a run."""
    with _open(state) as database, database:
        database.execute("DELETE FROM run WHERE run_id = ?", (run,))


def replace_all(state: str, rows: Sequence[Row]) -> None:
    """Throws the index away, whatever state it is in, and builds it anew."""
    for suffix in ("", "-wal", "-shm"):
        forget(os.path.join(state, "index.db" + suffix))  # Another process may be doing the same just now.
    put(state, rows)


def newest(state: str, *, limit: int = -1) -> list[Row]:
    """Ended runs, newest first."""
    return _select(state, "ORDER BY run_id DESC LIMIT ?", (limit,))


def starting_with(state: str, prefix: str) -> list[Row]:
    """Ended runs whose id begins so; two at most, enough to tell that a prefix is not unique."""
    return _select(state, "WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 2", (prefix, prefix + "\x7f"))


def _select(state: str, clause: str, values: tuple[Any, ...]) -> list[Row]:
    if not os.path.exists(os.path.join(state, "index.db")):
        return []
    with _open(state) as database:
        return [Row(*row) for row in database.execute(f"SELECT * FROM run {clause}", values)]


@contextmanager
def _open(state: str) -> "Generator[sqlite3.Connection]":
    import sqlite3  # Start-up time: a run that only follows its own log needs no index.

    path = os.path.join(private_folder(state), "index.db")
    try:
        database = sqlite3.connect(path, timeout=10.0)
    except sqlite3.Error as error:
        raise _broken(path, error) from error
    try:
        if _version(database) != _VERSION:
            _create(database)
        database.execute("PRAGMA synchronous = NORMAL")
        yield database
    except sqlite3.Error as error:
        raise _broken(path, error) from error
    finally:
        database.close()


def _create(database: "sqlite3.Connection") -> None:
    with suppress(database.OperationalError):  # Locked, without waiting, by another process that makes it just now.
        database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    with database:
        if _version(database) == _VERSION:
            return  # Another process was quicker, and may have entered runs already.
        database.execute("DROP TABLE IF EXISTS run")
        database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {_VERSION}")


def _version(database: "sqlite3.Connection") -> int:
    return database.execute("PRAGMA user_version").fetchone()[0]


def _broken(path: str, error: "sqlite3.Error") -> StateUnusable:
    return StateUnusable(
        f"The index {path} cannot be used: {error}.",
        next_step="`inspan reindex` rebuilds it from the runs' logs.",
    )
