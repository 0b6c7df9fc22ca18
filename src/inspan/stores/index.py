"""The index of ended runs in SQLite: a convenience that can be deleted and rebuilt from the logs.

An index that another version of inspan wrote is neither read nor changed: whoever meets it says so, and `runs`
rebuilds it.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from inspan.errors import StateUnusable
from inspan.protocol.cost import Cost, CostKind
from inspan.protocol.usage import Usage

from .paths import FREE_SPACE_HINT, make_private_folder, state_error
from .run_folder import remove_file

if TYPE_CHECKING:
    import sqlite3

_VERSION = 6
# What SQLite answers when the system does not let it: permission, read-only, input and output, full, cannot open.
_DENIED = frozenset({3, 8, 10, 13, 14})
_TABLE = """
CREATE TABLE IF NOT EXISTS run (
    run_id TEXT PRIMARY KEY, project TEXT NOT NULL, task TEXT NOT NULL, agent TEXT NOT NULL,
    started_at REAL NOT NULL, duration_s REAL NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    prompt TEXT NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL, session_id TEXT NOT NULL, cwd TEXT NOT NULL,
    cost_kind TEXT NOT NULL, not_paid_usd REAL, name TEXT NOT NULL, short TEXT NOT NULL,
    work TEXT NOT NULL, continues TEXT NOT NULL, model TEXT NOT NULL, scripted INTEGER NOT NULL,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER
) WITHOUT ROWID
"""
_NAMES = (
    "CREATE INDEX IF NOT EXISTS run_name ON run (name) WHERE name != ''",
    "CREATE INDEX IF NOT EXISTS run_short ON run (short)",
)


class Row(NamedTuple):
    """One ended run, as `ps` shows it; `name` is the one that a person gave it, `short` follows from its id. With
    `work` it is a loop, whose runs stand in rows of their own and have the same tokens and dollars."""

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
    cwd: str = ""
    cost_kind: CostKind = "unknown"
    not_paid_usd: float | None = None
    name: str = ""
    short: str = ""
    work: str = ""
    continues: str = ""

    @property
    def cost(self) -> Cost:
        """The cost as one value."""
        return Cost(kind=self.cost_kind, usd=self.cost_usd, not_paid_usd=self.not_paid_usd)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of an ended run: its row, and for `cost` what it used. `scripted`: no real model answered."""

    row: Row
    model: str = ""
    scripted: bool = False
    usage: Usage | None = None


class IndexScope(NamedTuple):
    """Which runs are meant: those of a project, and of those that worked below one of `tops` the ones that `is_meant`
    accepts by their project and their working folder."""

    project: str
    tops: tuple[str, ...]
    is_meant: Callable[[str, str], bool]


# Whether a run is meant, by its project and its working folder.
IsInScope = Callable[[str, str], bool]
_ROW = ", ".join(Row._fields)
_USAGE = Usage.__struct_fields__
_COLUMNS = (*Row._fields, "model", "scripted", *_USAGE)


def put(state: str, entries: Sequence[Entry]) -> None:
    """Enters ended runs; a run that is there already is replaced."""
    with _open(state) as database, database:
        _insert(database, entries)


def remove(state: str, run: str) -> None:
    """Forgets a run."""
    with remove_with(state, run):
        pass


@contextmanager
def remove_with(state: str, run: str) -> Generator[None]:
    """Forgets a run together with what the block does: where either fails, the run is still listed."""
    with _open(state) as database, database:
        database.execute("DELETE FROM run WHERE run_id = ?", (run,))
        yield


def replace_all(state: str, entries: Sequence[Entry]) -> None:
    """Fills the index anew, whatever state it is in; where that cannot be done, the old one stays as it was."""
    path = _path(make_private_folder(state))
    with _connect(path) as database:
        if _is_sound(database):
            _fill(database, entries)
            return
    # It is no database, or not any more: another takes its place, whole.
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with _connect(draft) as database:
            _fill(database, entries)
        for suffix in ("-journal", "-wal", "-shm"):
            remove_file(path + suffix)  # It would be taken for the new one's.
        os.replace(draft, path)
    except OSError as error:
        raise state_error(path, error) from error
    finally:
        for suffix in ("", "-journal"):
            remove_file(draft + suffix)


def list_newest(
    state: str,
    *,
    limit: int = -1,
    prefix: str = "",
    in_scope: IsInScope | IndexScope | None = None,
    with_session: bool = False,
) -> list[Row]:
    """Ended runs, newest first; with a prefix, those of which id, name or short name begin so; with `in_scope`, those
    that it accepts; with `with_session`, those whose agent named a session."""
    clause, values = "1", ()
    if prefix:
        clause = f"({' OR '.join(f'({column} >= ? AND {column} < ?)' for column in ('run_id', 'name', 'short'))})"
        values = (prefix, prefix + "\x7f") * 3
    clause += " AND session_id != ''" if with_session else ""
    if isinstance(in_scope, IndexScope):
        # Most rows are told by their text alone: calling back for each of ten thousand would take as long as the rest.
        below = [f"{top.rstrip('/')}/" for top in in_scope.tops]
        there = " OR ".join("substr(cwd || '/', 1, ?) = ?" for _ in below) or "0"
        clause += f" AND (project = ? OR (({there}) AND is_meant(project, cwd)))"
        values = (*values, in_scope.project, *(value for each in below for value in (len(each), each)))
    elif in_scope:
        clause += " AND is_meant(project, cwd)"
    is_meant = in_scope.is_meant if isinstance(in_scope, IndexScope) else in_scope
    return _select(state, f"WHERE {clause} ORDER BY run_id DESC LIMIT ?", (*values, limit), is_meant=is_meant)


def list_continuing(state: str) -> list[Row]:
    """Every run and loop that continues one that was lost."""
    return _select(state, "WHERE continues != ''", ())


def find_by_name(state: str, name: str) -> list[Row]:
    """Ended runs that a person gave this name, one in each project at the most, newest first."""
    return _select(state, "WHERE name = ? AND name != '' ORDER BY run_id DESC", (name,))


def list_named(state: str) -> list[Row]:
    """Ended runs that a person gave a name, newest first."""
    return _select(state, "WHERE name != '' ORDER BY run_id DESC", ())


def find_by_short_name(state: str, short: str) -> list[Row]:
    """Ended runs whose id has this short name, newest first."""
    return _select(state, "WHERE short = ? ORDER BY run_id DESC", (short,))


def find_by_prefix(state: str, prefix: str) -> list[Row]:
    """Ended runs whose id begins so; two at most, enough to tell that a prefix is not unique."""
    return _select(state, "WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 2", (prefix, prefix + "\x7f"))


def list_entries(state: str, *, since: float = 0.0) -> list[Entry]:
    """All that is kept of the runs that were started since a moment, newest first."""
    if not _exists(state):
        return []
    with _open(state) as database:
        found = database.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM run WHERE started_at >= ? ORDER BY run_id DESC", (since,)
        )
        return [_to_entry(values) for values in found]


def is_outdated(state: str) -> bool:
    """Whether there is an index that another version of inspan wrote."""
    if not _exists(state):
        return False
    with _connect(_path(state)) as database:
        return _version(database) not in (0, _VERSION)


def _select(state: str, clause: str, values: tuple[Any, ...], *, is_meant: IsInScope | None = None) -> list[Row]:
    if not _exists(state):
        return []
    with _open(state) as database:
        if is_meant:
            database.create_function("is_meant", 2, is_meant)
        # Not all columns: of ten thousand runs, those that nobody shows would cost 8 ms.
        return list(map(Row._make, database.execute(f"SELECT {_ROW} FROM run {clause}", values)))


def _to_values(entry: Entry) -> tuple[Any, ...]:
    usage = [getattr(entry.usage, name) if entry.usage else None for name in _USAGE]
    return (*entry.row, entry.model, entry.scripted, *usage)


def _to_entry(values: Sequence[Any]) -> Entry:
    count = len(Row._fields)
    model, scripted, *tokens = values[count:]
    usage = None if tokens[0] is None else Usage(**dict(zip(_USAGE, tokens, strict=True)))
    return Entry(row=Row._make(values[:count]), model=model, scripted=bool(scripted), usage=usage)


def _exists(state: str) -> bool:
    """Whether there is anything to read; a file without content was begun where the disk had no room for more."""
    try:
        return os.path.getsize(_path(state)) > 0
    except OSError:
        return False


def _path(state: str) -> str:
    return os.path.join(state, "index.db")


@contextmanager
def _open(state: str) -> "Generator[sqlite3.Connection]":
    with _connect(_path(make_private_folder(state))) as database:
        version = _version(database)
        if version not in (0, _VERSION):
            raise StateUnusable(
                f"The index {_path(state)} is of another version of inspan ({version}, not {_VERSION}).",
                next_step="`inspan reindex` rebuilds it from the runs' logs.",
            )
        if version == 0:
            _create(database)
        # Nothing waits for the disk: after a power cut the logs can tell it all again. A journal that is rolled back is
        # enough against a killed process, at a third of the CPU that write-ahead logging costs one writer.
        database.execute("PRAGMA synchronous = OFF")
        yield database


@contextmanager
def _connect(path: str) -> "Generator[sqlite3.Connection]":
    import sqlite3  # Start-up time: a run that only follows its own log needs no index.

    try:
        database = sqlite3.connect(path, timeout=10.0)
    except sqlite3.Error as error:
        raise _index_error(path, error) from error
    try:
        yield database
    except sqlite3.Error as error:
        raise _index_error(path, error) from error
    finally:
        database.close()


def _create(database: "sqlite3.Connection") -> None:
    database.execute("BEGIN IMMEDIATE")
    with database:
        if _version(database) == _VERSION:
            return  # Another process was quicker, and may have entered runs already.
        _create_table(database)
        database.execute(f"PRAGMA user_version = {_VERSION}")


def _create_table(database: "sqlite3.Connection") -> None:
    for statement in (_TABLE, *_NAMES):
        database.execute(statement)


def _insert(database: "sqlite3.Connection", entries: Sequence[Entry]) -> None:
    database.executemany(
        f"INSERT OR REPLACE INTO run ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})",
        [_to_values(entry) for entry in entries],
    )


def _is_sound(database: "sqlite3.Connection") -> bool:
    import sqlite3  # Start-up time: supervisors need it only at their end.

    try:
        return database.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return False
        raise


def _fill(database: "sqlite3.Connection", entries: Sequence[Entry]) -> None:
    """Replaces all that is in it in one step: whoever reads or enters a run meanwhile waits, and loses nothing."""
    for setting in ("synchronous = OFF", "journal_mode = DELETE"):
        database.execute(f"PRAGMA {setting}")
    database.execute("BEGIN IMMEDIATE")
    with database:
        database.execute("DROP TABLE IF EXISTS run")
        _create_table(database)
        _insert(database, entries)
        database.execute(f"PRAGMA user_version = {_VERSION}")


def _version(database: "sqlite3.Connection") -> int:
    return database.execute("PRAGMA user_version").fetchone()[0]


def _index_error(path: str, error: "sqlite3.Error") -> StateUnusable:
    # The first byte of a code is its family.
    denied = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DENIED
    return StateUnusable(
        f"The index {path} cannot be used: {error}.",
        next_step=FREE_SPACE_HINT if denied else "`inspan reindex` rebuilds it from the runs' logs.",
    )
