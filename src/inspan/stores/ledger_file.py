"""The ledger as a file: how `ledger.db` is opened, made and locked, and what is said when it cannot be used.

It is the one durable thing beside the logs: nothing rebuilds it, so nothing here ever replaces a file that it finds.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inspan.errors import StateUnusable

from .paths import private_folder, unusable

if TYPE_CHECKING:
    import sqlite3

VERSION = 1
_WAIT_S = 10.0
_LOOK_S = 0.02
_SCHEMA = """
CREATE TABLE run (
    run_id TEXT PRIMARY KEY, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    started_at REAL NOT NULL, seen_at REAL NOT NULL, seconds REAL, lock TEXT NOT NULL, budgets BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX run_of_task ON run (project, task, scripted);
CREATE INDEX run_open ON run (project) WHERE seconds IS NULL;
CREATE TABLE reservation (
    run_id TEXT, call INTEGER, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (run_id, call)
) WITHOUT ROWID;
CREATE TABLE spending (
    run_id TEXT, call INTEGER, at REAL NOT NULL, project TEXT NOT NULL, task TEXT NOT NULL, session TEXT NOT NULL,
    agent TEXT NOT NULL, model TEXT NOT NULL, role TEXT NOT NULL,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER,
    nano INTEGER, source TEXT, scripted INTEGER NOT NULL, PRIMARY KEY (run_id, call, source)
) WITHOUT ROWID;
CREATE INDEX spending_at ON spending (at);
CREATE TABLE sum (
    project TEXT, task TEXT, run_id TEXT, scripted INTEGER, day INTEGER,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, calls INTEGER NOT NULL, seconds REAL NOT NULL,
    restarts INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL,
    PRIMARY KEY (project, task, run_id, scripted, day)
) WITHOUT ROWID;
CREATE TABLE node (
    project TEXT, task TEXT, scripted INTEGER, budget BLOB NOT NULL, PRIMARY KEY (project, task, scripted)
) WITHOUT ROWID;
CREATE TABLE salt (bytes BLOB NOT NULL);
CREATE TABLE hold (
    provider TEXT, key TEXT, until REAL NOT NULL, told INTEGER NOT NULL, repeats INTEGER NOT NULL,
    PRIMARY KEY (provider, key)
) WITHOUT ROWID;
CREATE TABLE bucket (
    provider TEXT, kind TEXT, level REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (provider, kind)
) WITHOUT ROWID;
CREATE TABLE slot (provider TEXT, run_id TEXT, call INTEGER, PRIMARY KEY (provider, run_id, call)) WITHOUT ROWID;
"""
_NEXT_STEPS = {
    "locked": "Try again in a moment; `inspan ps` lists the runs that may be holding it.",
    "full": "Free some space on its disk, then try again.",
    "readonly": "Check the owner of the file and of its folder, or set XDG_STATE_HOME to another folder.",
    "unable to open": "Check the owner of the file and of its folder, or set XDG_STATE_HOME to another folder.",
}


class LedgerFile:
    """One connection, kept until `close`; for one thread at a time. Every failure of it is a `StateUnusable`."""

    def __init__(self, state: str, *, wait_s: float = _WAIT_S) -> None:
        self.path = path_of(private_folder(state))
        self._wait_s = wait_s
        with self._told():
            self._database = self._connected()

    def close(self) -> None:
        """Idempotent."""
        self._database.close()

    @contextmanager
    def writing(self) -> "Generator[sqlite3.Connection]":
        """One transaction, alone with the file: all of it or nothing. Waits for another writer, but not for ever."""
        with self._told():
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                yield self._database

    @contextmanager
    def reading(self) -> "Generator[sqlite3.Connection]":
        """One look at the file as it was at one moment; never waits for a writer."""
        with self._told(), _at_one_moment(self._database):
            yield self._database

    def _connected(self) -> "sqlite3.Connection":
        import sqlite3  # Start-up time: most commands need no ledger.

        # The engine gives the ledger a thread of its own, which is not the one that closes it.
        database = sqlite3.connect(self.path, timeout=self._wait_s, isolation_level=None, check_same_thread=False)
        try:
            self._check(database)
            # Against a killed process the log alone is enough; it is synced before it is written back.
            database.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: "sqlite3.Connection") -> None:
        with _at_one_moment(database):
            version, is_empty = _version(database), _is_empty(database)
        if version == 0 and is_empty:
            self._make(database)
        elif version != VERSION:
            raise StateUnusable(
                f"The ledger {self.path} is of another version of inspan ({version}, not {VERSION}).",
                next_step="Use the inspan that wrote it, or move the file away: budgets then begin at zero.",
            )

    def _make(self, database: "sqlite3.Connection") -> None:
        self._log_ahead(database)
        database.execute("BEGIN IMMEDIATE")
        with database:
            if _version(database) == VERSION:
                return  # Another process was quicker.
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO salt VALUES (?)", (os.urandom(16),))
            database.execute(f"PRAGMA user_version = {VERSION}")

    def _log_ahead(self, database: "sqlite3.Connection") -> None:
        """Asked again while another process does the same: SQLite itself does not wait here."""
        import sqlite3

        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)

    @contextmanager
    def _told(self) -> Generator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            raise StateUnusable(
                f"The ledger {self.path} cannot be used: {error}.", next_step=_next_step(str(error))
            ) from error


def path_of(state: str) -> str:
    """Where the ledger of a state folder lies."""
    return os.path.join(state, "ledger.db")


@contextmanager
def _at_one_moment(database: "sqlite3.Connection") -> Generator[None]:
    """Between two looks another process may make the ledger."""
    database.execute("BEGIN")
    with database:
        yield


def _version(database: "sqlite3.Connection") -> int:
    return database.execute("PRAGMA user_version").fetchone()[0]


def _is_empty(database: "sqlite3.Connection") -> bool:
    return database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def exists(state: str) -> bool:
    """Whether there is a ledger; looking makes none. Raises `StateUnusable` where that cannot be told."""
    try:
        os.stat(path_of(state))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(path_of(state), error) from error
    return True


def _next_step(problem: str) -> str:
    known = (step for sign, step in _NEXT_STEPS.items() if sign in problem)
    return next(known, "Restore it from a copy, or move the file away: budgets then begin at zero.")
