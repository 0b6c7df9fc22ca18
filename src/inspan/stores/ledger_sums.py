"""What the ledger knows of each node of the tree: sums per day, what is reserved, and the time of runs that live.

A node is a project, a task of it, or a run of that. Each has a row for every UTC day on which something was spent and
one for ever, so that a period is summed from few rows. Runs on a scripted model have sums of their own: a rehearsal
is held to the same limits, and takes nothing from the money that is real.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from inspan.protocol.amounts import DAY_S, Amounts, begin_of
from inspan.protocol.budget import NODES, Budget, Node, Period

from .folder import is_held

if TYPE_CHECKING:
    import sqlite3

EVER = -1
Budgets = Mapping[Node, Budget]
_SUMMED = (*Amounts._fields, "unpriced", "estimated")
_ADD = (
    f"INSERT INTO sum (project, task, run_id, scripted, day, {', '.join(_SUMMED)}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) "
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _SUMMED)}"
)
_BUDGETS = msgspec.json.Decoder(dict[Node, Budget])


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


class Place(NamedTuple):
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

    @classmethod
    def made(cls, values: Sequence[Any]) -> "OpenRun":
        """Out of a row."""
        return cls._make(values)._replace(scripted=bool(values[3]))

    @property
    def path(self) -> dict[Node, Place]:
        """From its project down to itself."""
        return places(self.project, self.task, self.run_id, scripted=self.scripted)

    @property
    def lives(self) -> bool:
        """False only where that is certain: what cannot be looked at may be spending."""
        try:
            os.close(os.open(self.lock, os.O_RDWR | os.O_CLOEXEC))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return is_held(self.lock)


_RUN = ", ".join(OpenRun._fields)


def places(project: str, task: str, run_id: str, *, scripted: bool) -> dict[Node, Place]:
    """The path from a project down to a run."""
    found = (
        Place(project, "", "", scripted),
        Place(project, task, "", scripted),
        Place(project, task, run_id, scripted),
    )
    return dict(zip(NODES, found, strict=True))


def add(
    database: "sqlite3.Connection",
    path: Iterable[Place],
    amounts: Amounts,
    *,
    at: float,
    unpriced: int = 0,
    estimated: int = 0,
) -> None:
    """Adds what was spent at a moment to the sums of all nodes on a path."""
    values = (*amounts, unpriced, estimated)
    days = (EVER, int(at // DAY_S))
    database.executemany(_ADD, [(*place, day, *values) for place in path for day in days])


def add_seconds(
    database: "sqlite3.Connection", path: Iterable[Place], *, start: float, seconds: float, sign: int = 1
) -> None:
    """Adds the time of a run, to each day its part of it."""
    path = list(path)
    for at, part in _by_day(start, seconds):
        add(database, path, Amounts(seconds=sign * part), at=at)


def spent(database: "sqlite3.Connection", place: Place, *, per: Period, now: float) -> Amounts:
    """What a node has spent in its period, by ended calls and ended runs."""
    return Amounts(*summed(database, place, per=per, now=now)[: len(Amounts._fields)])


def summed(database: "sqlite3.Connection", place: Place, *, per: Period, now: float) -> tuple[int, ...]:
    """The same, followed by how many calls had no price and how many were counted by an estimate."""
    first = int(begin_of(per, now) // DAY_S) if per else EVER
    last = int(now // DAY_S) if per else EVER
    names = ", ".join(f"coalesce(sum({name}), 0)" for name in _SUMMED)
    where = "project = ? AND task = ? AND run_id = ? AND scripted = ? AND day BETWEEN ? AND ?"
    return database.execute(f"SELECT {names} FROM sum WHERE {where}", (*place, first, last)).fetchone()


def reserved(database: "sqlite3.Connection", place: Place) -> Amounts:
    """What calls under way may still take from a node."""
    found = database.execute(
        "SELECT coalesce(sum(nano), 0), coalesce(sum(tokens), 0), count(*) FROM reservation WHERE "
        + _below("project", "task", "run_id"),
        _values(place),
    )
    return Amounts(*found.fetchone())


def open_runs(database: "sqlite3.Connection", place: Place | None = None) -> list[OpenRun]:
    """The runs of a node that nobody has ended, whether they live or not."""
    where, values = (f"AND {_below('project', 'task', 'run_id')}", _values(place)) if place else ("", ())
    found = database.execute(f"SELECT {_RUN} FROM run WHERE seconds IS NULL {where} ORDER BY run_id", values)
    return [OpenRun.made(each) for each in found]


def find_run(database: "sqlite3.Connection", run_id: str) -> tuple[OpenRun, float | None] | None:
    """A run that has been entered, and its time if it was ended."""
    found = database.execute(f"SELECT {_RUN}, seconds FROM run WHERE run_id = ?", (run_id,)).fetchone()
    return (OpenRun.made(found[:-1]), found[-1]) if found else None


def living_seconds(runs: Iterable[OpenRun], *, per: Period, now: float) -> tuple[float, int]:
    """The time of runs that have not been ended, within the period, and how many of them live."""
    since, total, living = begin_of(per, now), 0.0, 0
    for run in runs:
        lives = run.lives
        total += max(0.0, (now if lives else run.seen_at) - max(run.started_at, since))
        living += lives
    return total, living


def end(database: "sqlite3.Connection", run: OpenRun, *, seconds: float) -> None:
    """Closes the account of a run: nothing of it is reserved any more, its time is counted."""
    add_seconds(database, run.path.values(), start=run.started_at, seconds=seconds)
    database.execute("UPDATE run SET seconds = ? WHERE run_id = ?", (seconds, run.run_id))
    for table in ("reservation", "slot"):
        database.execute(f"DELETE FROM {table} WHERE run_id = ?", (run.run_id,))


def end_dead(database: "sqlite3.Connection") -> int:
    """Does so for every run whose process is gone, with the time up to when it was last seen; says how many."""
    dead = [run for run in open_runs(database) if not run.lives]
    for run in dead:
        end(database, run, seconds=max(0.0, run.seen_at - run.started_at))
    return len(dead)


def decoded_budgets(encoded: bytes) -> dict[Node, Budget]:
    """The budgets that a run came with."""
    return _BUDGETS.decode(encoded)


def _by_day(start: float, seconds: float) -> Iterator[tuple[float, float]]:
    at, end_at = start, start + seconds
    while at < end_at:
        next_day = (at // DAY_S + 1) * DAY_S
        yield at, min(next_day, end_at) - at
        at = next_day


def _below(*columns: str) -> str:
    """All that belongs to a node: the fields that it leaves empty may be anything."""
    return " AND ".join(["scripted = ?", *(f"(? = '' OR {column} = ?)" for column in columns)])


def _values(place: Place) -> tuple[object, ...]:
    return (place.scripted, place.project, place.project, place.task, place.task, place.run_id, place.run_id)
