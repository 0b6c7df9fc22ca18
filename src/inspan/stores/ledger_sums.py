"""What the ledger knows of each node of the tree: sums per day, what is reserved, and the time of runs that live.

A node is a project, a task of it, or a run of that. Each has a row for every UTC day on which something was spent and
one for ever, so that a period is summed from few rows. Runs on a scripted model have sums of their own: a rehearsal
is held to the same limits, and takes nothing from the money that is real.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from inspan.protocol.amounts import DAY_S, Amounts, period_start
from inspan.protocol.budget import NODES, Budget, Node, Period
from inspan.protocol.known_types import know_type
from inspan.system.file_locks import is_held

if TYPE_CHECKING:
    import sqlite3

ALL_TIME = -1
_OUTPUTS = ("stdout", "stderr")
Budgets = Mapping[Node, Budget]
_SUM_COLUMNS = (*Amounts._fields, "unpriced", "estimated")
_ADD = (
    f"INSERT INTO sum (project, task, run_id, scripted, day, {', '.join(_SUM_COLUMNS)}) "
    "VALUES (?,?,?,?,?,?,?,?,?,?,?,?) "
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _SUM_COLUMNS)}"
)
_BUDGETS = msgspec.json.Decoder(know_type(dict[Node, Budget]))


class Spender(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the ledger knows it; it lives for as long as a process holds the file `lock`."""

    run_id: str
    project: str
    task: str
    agent: str
    session: str
    lock: str
    started_at: float
    scripted: bool = False


class NodeKey(NamedTuple):
    """A node of the tree: fields that are empty are those below it."""

    project: str
    task: str
    run_id: str
    scripted: bool

    @property
    def name(self) -> str:
        return self.run_id or self.task or self.project


class OpenRun(NamedTuple):
    """A run that has not been ended: `seen_at` is the last moment at which it is known to have lived."""

    run_id: str
    project: str
    task: str
    scripted: bool
    started_at: float
    seen_at: float
    lock: str
    budgets: bytes
    agent: str
    session: str

    @classmethod
    def from_row(cls, values: Sequence[Any]) -> "OpenRun":
        """Out of a row."""
        return cls._make(values)._replace(scripted=bool(values[3]))

    @property
    def path(self) -> dict[Node, NodeKey]:
        """From its project down to itself."""
        return build_node_keys(self.project, self.task, self.run_id, scripted=self.scripted)

    @property
    def is_alive(self) -> bool:
        """False only where that is certain: what cannot be looked at may be spending."""
        try:
            os.close(os.open(self.lock, os.O_RDWR | os.O_CLOEXEC))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return is_held(self.lock)

    @property
    def seconds_seen(self) -> float:
        """How long a dead run is known to have lived: by its own word, or by what its agent wrote."""
        return max(0.0, self.seen_at - self.started_at, *(at - self.started_at for at in _list_output_times(self.lock)))


_RUN = ", ".join(OpenRun._fields)


def build_node_keys(project: str, task: str, run_id: str, *, scripted: bool) -> dict[Node, NodeKey]:
    """The path from a project down to a run."""
    found = (
        NodeKey(project, "", "", scripted),
        NodeKey(project, task, "", scripted),
        NodeKey(project, task, run_id, scripted),
    )
    return dict(zip(NODES, found, strict=True))


def add(
    database: "sqlite3.Connection",
    path: Iterable[NodeKey],
    amounts: Amounts,
    *,
    at: float,
    unpriced: int = 0,
    estimated: int = 0,
) -> None:
    """Adds what was spent at a moment to the sums of all nodes on a path."""
    values = (*amounts, unpriced, estimated)
    days = (ALL_TIME, int(at // DAY_S))
    database.executemany(_ADD, [(*node_key, day, *values) for node_key in path for day in days])


def add_seconds(
    database: "sqlite3.Connection", path: Iterable[NodeKey], *, start: float, seconds: float, sign: int = 1
) -> None:
    """Adds the time of a run, to each day its part of it."""
    path = list(path)
    for at, part in _split_by_day(start, seconds):
        add(database, path, Amounts(seconds=sign * part), at=at)


def sum_spent(database: "sqlite3.Connection", node_key: NodeKey, *, per: Period, now: float) -> Amounts:
    """What a node has spent in its period, by ended calls and ended runs."""
    return Amounts(*sum_amounts(database, node_key, per=per, now=now)[: len(Amounts._fields)])


def sum_amounts(database: "sqlite3.Connection", node_key: NodeKey, *, per: Period, now: float) -> tuple[int, ...]:
    """The same, followed by how many calls had no price and how many were counted by an estimate."""
    first = int(period_start(per, now) // DAY_S) if per else ALL_TIME
    last = int(now // DAY_S) if per else ALL_TIME
    names = ", ".join(f"coalesce(sum({name}), 0)" for name in _SUM_COLUMNS)
    where = "project = ? AND task = ? AND run_id = ? AND scripted = ? AND day BETWEEN ? AND ?"
    return database.execute(f"SELECT {names} FROM sum WHERE {where}", (*node_key, first, last)).fetchone()


def sum_reserved(database: "sqlite3.Connection", node_key: NodeKey) -> Amounts:
    """What calls under way may still take from a node."""
    found = database.execute(
        "SELECT coalesce(sum(nano), 0), coalesce(sum(tokens), 0), coalesce(sum(counted), 0) FROM reservation WHERE "
        + _node_clause("project", "task", "run_id"),
        _node_values(node_key),
    )
    return Amounts(*found.fetchone())


def list_open_runs(
    database: "sqlite3.Connection", node_key: NodeKey | None = None, *, reserving: bool = False
) -> list[OpenRun]:
    """The runs of a node that nobody has ended, whether they live or not.

    `reserving`: also those that were ended, and have calls under way all the same.
    """
    where, values = (
        (f"AND {_node_clause('project', 'task', 'run_id')}", _node_values(node_key)) if node_key else ("", ())
    )
    found = database.execute(f"SELECT {_RUN} FROM run WHERE seconds IS NULL {where}", values).fetchall()
    if reserving:
        ended = f"seconds IS NOT NULL AND run_id IN (SELECT DISTINCT run_id FROM reservation) {where}"
        found += database.execute(f"SELECT {_RUN} FROM run WHERE {ended}", values).fetchall()
    return sorted(OpenRun.from_row(each) for each in found)


def find_run(database: "sqlite3.Connection", run_id: str) -> tuple[OpenRun, float | None] | None:
    """A run that has been entered, and its time if it was ended."""
    found = database.execute(f"SELECT {_RUN}, seconds FROM run WHERE run_id = ?", (run_id,)).fetchone()
    return (OpenRun.from_row(found[:-1]), found[-1]) if found else None


def sum_running_time(runs: Iterable[OpenRun], *, per: Period, now: float) -> tuple[float, int]:
    """The time of runs that have not been ended, within the period, and how many of them live."""
    since, total, living = period_start(per, now), 0.0, 0
    for run in runs:
        lives = run.is_alive
        until = now if lives else run.started_at + run.seconds_seen
        total += max(0.0, until - max(run.started_at, since))
        living += lives
    return total, living


def decode_budgets(encoded: bytes) -> dict[Node, Budget]:
    """The budgets that a run came with."""
    return _BUDGETS.decode(encoded)


def _list_output_times(lock: str) -> Iterator[float]:
    """When the outputs of the agent beside this lock were last written."""
    for name in _OUTPUTS:
        try:
            yield os.stat(os.path.join(os.path.dirname(lock), name)).st_mtime
        except OSError:
            pass  # Not there, or not to be looked at: then it is no sign of life.


def _split_by_day(start: float, seconds: float) -> Iterator[tuple[float, float]]:
    at, end_at = start, start + seconds
    while at < end_at:
        next_day = (at // DAY_S + 1) * DAY_S
        yield at, min(next_day, end_at) - at
        at = next_day


def _node_clause(*columns: str) -> str:
    """All that belongs to a node: the fields that it leaves empty may be anything."""
    return " AND ".join(["scripted = ?", *(f"(? = '' OR {column} = ?)" for column in columns)])


def _node_values(node_key: NodeKey) -> tuple[object, ...]:
    return (
        node_key.scripted,
        node_key.project,
        node_key.project,
        node_key.task,
        node_key.task,
        node_key.run_id,
        node_key.run_id,
    )
