"""The ledger as a file: how `ledger.db` is opened, made and locked, and what is said when it cannot be used.

It is the one durable thing beside the logs: nothing rebuilds it, so nothing here ever replaces a file that it finds.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inspan.errors import StateUnusable

from .paths import make_private_folder, state_error

if TYPE_CHECKING:
    import sqlite3

VERSION = 3
_WAIT_S = 10.0
_POLL_S = 0.02
# Without a model, it is a hold of the whole account.
_HOLD_TABLE = """
CREATE TABLE hold (
    host TEXT, key TEXT, model TEXT, until REAL NOT NULL, told INTEGER NOT NULL, repeats INTEGER NOT NULL,
    PRIMARY KEY (host, key, model)
) WITHOUT ROWID
"""
_APPROVAL_TABLE = """
CREATE TABLE approval (
    project TEXT, tool TEXT, subject TEXT, at REAL NOT NULL, PRIMARY KEY (project, tool, subject)
) WITHOUT ROWID
"""
_SCHEMA = f"""
CREATE TABLE run (
    run_id TEXT PRIMARY KEY, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    started_at REAL NOT NULL, seen_at REAL NOT NULL, seconds REAL, lock TEXT NOT NULL, budgets BLOB NOT NULL,
    agent TEXT NOT NULL DEFAULT '', session TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX run_of_task ON run (project, task, scripted);
CREATE INDEX run_open ON run (project) WHERE seconds IS NULL;
CREATE TABLE reservation (
    run_id TEXT, call INTEGER, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL,
    counted INTEGER NOT NULL DEFAULT 1, at REAL, model TEXT NOT NULL DEFAULT '', role TEXT NOT NULL DEFAULT 'main',
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER, stated_nano INTEGER,
    charged_nano INTEGER, charged_tokens INTEGER, PRIMARY KEY (run_id, call)
) WITHOUT ROWID;
CREATE TABLE spending (
    run_id TEXT, call INTEGER, at REAL NOT NULL, project TEXT NOT NULL, task TEXT NOT NULL, session TEXT NOT NULL,
    agent TEXT NOT NULL, model TEXT NOT NULL, role TEXT NOT NULL,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER,
    nano INTEGER, source TEXT, scripted INTEGER NOT NULL, charged_nano INTEGER, charged_tokens INTEGER,
    presumed INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run_id, call, source)
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
{_HOLD_TABLE};
{_APPROVAL_TABLE};
CREATE TABLE bucket (
    provider TEXT, kind TEXT, level REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (provider, kind)
) WITHOUT ROWID;
CREATE TABLE slot (provider TEXT, run_id TEXT, call INTEGER, PRIMARY KEY (provider, run_id, call)) WITHOUT ROWID;
"""
# How a ledger of an earlier version becomes one of the next. What was set aside there is charged as it stands; a hold
# did not say for which model and host it was, so it is asked for again.
_UPGRADES: dict[int, str] = {
    1: f"""
ALTER TABLE run ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN session TEXT NOT NULL DEFAULT '';
ALTER TABLE reservation ADD COLUMN counted INTEGER NOT NULL DEFAULT 1;
ALTER TABLE reservation ADD COLUMN at REAL;
ALTER TABLE reservation ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE reservation ADD COLUMN role TEXT NOT NULL DEFAULT 'main';
ALTER TABLE reservation ADD COLUMN input INTEGER;
ALTER TABLE reservation ADD COLUMN output INTEGER;
ALTER TABLE reservation ADD COLUMN cache_read INTEGER;
ALTER TABLE reservation ADD COLUMN cache_write INTEGER;
ALTER TABLE reservation ADD COLUMN reasoning INTEGER;
ALTER TABLE reservation ADD COLUMN stated_nano INTEGER;
ALTER TABLE reservation ADD COLUMN charged_nano INTEGER;
ALTER TABLE reservation ADD COLUMN charged_tokens INTEGER;
ALTER TABLE spending ADD COLUMN charged_nano INTEGER;
ALTER TABLE spending ADD COLUMN charged_tokens INTEGER;
ALTER TABLE spending ADD COLUMN presumed INTEGER NOT NULL DEFAULT 0;
DROP TABLE hold;
{_HOLD_TABLE}
""",
    2: _APPROVAL_TABLE,
}
_NEXT_STEPS = {
    "locked": "Try again in a moment; `inspan ps` lists the runs that may be holding it.",
    "full": "Free some space on its disk, then try again.",
    # On a full disk there is no room for the file that its readers share; nothing is wrong with the ledger itself.
    "disk I/O error": "Free some space on its disk, or check that disk, then try again.",
    "readonly": "Check the owner of the file and of its folder, or set XDG_STATE_HOME to another folder.",
    "unable to open": "Check the owner of the file and of its folder, or set XDG_STATE_HOME to another folder.",
}


class LedgerFile:
    """One connection, kept until `close`; for one thread at a time. Every failure of it is a `StateUnusable`."""

    def __init__(self, state: str, *, wait_s: float = _WAIT_S) -> None:
        self.path = ledger_path(make_private_folder(state))
        self._wait_s = wait_s
        with self._translate_errors():
            self._database = self._connect()

    def close(self) -> None:
        """Idempotent."""
        self._database.close()

    @contextmanager
    def write_transaction(self) -> "Generator[sqlite3.Connection]":
        """One transaction, alone with the file: all of it or nothing. Waits for another writer, but not for ever."""
        with self._translate_errors():
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                yield self._database

    @contextmanager
    def read_transaction(self) -> "Generator[sqlite3.Connection]":
        """One look at the file as it was at one moment; never waits for a writer."""
        with self._translate_errors(), _begin_read(self._database):
            yield self._database

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3  # Start-up time: most commands need no ledger.

        # `spending` gives the ledger a thread of its own, which is not the one that closes it.
        database = sqlite3.connect(self.path, timeout=self._wait_s, isolation_level=None, check_same_thread=False)
        try:
            self._check_version(database)
            # Against a killed process the log alone is enough; it is synced before it is written back.
            database.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            database.close()
            raise
        return database

    def _check_version(self, database: "sqlite3.Connection") -> None:
        with _begin_read(database):
            version, is_empty = _version(database), _is_empty(database)
        if version == 0 and is_empty:
            self._create_schema(database)
        elif version in _UPGRADES:
            self._upgrade(database)
        elif version != VERSION:
            raise StateUnusable(
                f"The ledger {self.path} is of another version of inspan ({version}, not {VERSION}).",
                next_step="Use the inspan that wrote it, or move the file away: budgets then begin at zero.",
            )

    def _create_schema(self, database: "sqlite3.Connection") -> None:
        self._enable_wal(database)
        database.execute("BEGIN IMMEDIATE")
        with database:
            if _version(database) == VERSION:
                return  # Another process was quicker.
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO salt VALUES (?)", (os.urandom(16),))
            database.execute(f"PRAGMA user_version = {VERSION}")

    def _upgrade(self, database: "sqlite3.Connection") -> None:
        """Whole or not at all, and once, whoever else opens it meanwhile."""
        database.execute("BEGIN IMMEDIATE")
        with database:
            while (version := _version(database)) in _UPGRADES:
                for statement in _UPGRADES[version].split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {version + 1}")

    def _enable_wal(self, database: "sqlite3.Connection") -> None:
        """Asked again while another process does the same: SQLite itself does not wait here."""
        import sqlite3  # Start-up time: supervisors need it only at their end.

        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        import sqlite3  # Start-up time: supervisors need it only at their end.

        try:
            yield
        except sqlite3.Error as error:
            raise StateUnusable(
                f"The ledger {self.path} cannot be used: {error}.", next_step=_next_step(str(error))
            ) from error


def ledger_path(state: str) -> str:
    """Where the ledger of a state folder lies."""
    return os.path.join(state, "ledger.db")


@contextmanager
def _begin_read(database: "sqlite3.Connection") -> Generator[None]:
    """Between two looks another process may make the ledger."""
    database.execute("BEGIN")
    with database:
        yield


def _version(database: "sqlite3.Connection") -> int:
    return database.execute("PRAGMA user_version").fetchone()[0]


def _is_empty(database: "sqlite3.Connection") -> bool:
    return database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def has_ledger(state: str) -> bool:
    """Whether there is a ledger; looking makes none. Raises `StateUnusable` where that cannot be told."""
    try:
        os.stat(ledger_path(state))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise state_error(ledger_path(state), error) from error
    return True


def _next_step(problem: str) -> str:
    known = (step for sign, step in _NEXT_STEPS.items() if sign in problem)
    return next(known, "Restore it from a copy, or move the file away: budgets then begin at zero.")
