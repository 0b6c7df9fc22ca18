"""The ledger's knowledge of providers: who has to wait until when, and how much of a user's own rates is taken.

All runs of this machine share it. A key is kept as a salted hash, which is worth nothing outside of this ledger. A hold
is for one model of one host with one key, as it was told; for all its models only where the provider said so.
"""

import hashlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from inspan.protocol.limits import Rates

from .ledger import Ledger
from .ledger_calls import close_dead_accounts

if TYPE_CHECKING:
    import sqlite3

_MINUTE_S = 60.0
# Where a provider said to wait and not how long: 2 s, doubled each time, and begun anew after a quiet while.
_FIRST_HOLD_S = 2.0
_LONGEST_GUESS_S = 30.0
_QUIET_S = 60.0
_SLOT_POLL_S = 0.2

Kind = Literal["requests", "tokens"]


class Hold(NamedTuple):
    """A provider wants no calls until then; `is_stated`: it said so itself, else it is our guess.

    `model` is empty where it is for every model.
    """

    until: float
    is_stated: bool
    model: str = ""


class Wait(NamedTuple):
    """Not now: for so long at least, because of a hold of the provider's, or else of a rate that the user has set."""

    seconds: float
    hold: Hold | None
    why: str


class RateLedger:
    """The part of an open ledger that is about providers. Raises `StateUnusable`.

    Rates of the user's own are for a `provider`, holds for a `host`, which is wherever its calls really go.
    """

    def __init__(self, ledger: Ledger, *, provider: str, host: str, key: str) -> None:
        self._file = ledger.file
        self._clock = ledger.clock
        self._provider = provider
        self._host = host
        with self._file.read_transaction() as database:
            salt: bytes = database.execute("SELECT bytes FROM salt").fetchone()[0]
        self._key = hashlib.sha256(salt + key.encode()).hexdigest()

    def find_hold(self, model: str) -> Hold | None:
        """What the provider wants of everybody with this key now, for calls to a model: the hold that lasts longest."""
        with self._file.read_transaction() as database:
            return self._find_hold(database, model)

    def acquire(self, run_id: str, call: int, *, model: str, rates: Rates, tokens: int) -> Wait | None:
        """Takes a call's part of every rate that is set, or of none and says how long to wait."""
        if not is_limited(rates):
            hold = self.find_hold(model)
            return _wait_of_hold(hold, self._clock()) if hold else None
        with self._file.write_transaction() as database:
            hold = self._find_hold(database, model)
            wait = _wait_of_hold(hold, self._clock()) if hold else self._compute_wait(database, rates, tokens)
            if wait is None:
                database.execute("INSERT OR REPLACE INTO slot VALUES (?,?,?)", (self._provider, run_id, call))
                self._take(database, "requests", rates.requests_per_minute, 1)
                self._take(database, "tokens", rates.tokens_per_minute, tokens)
        return wait

    def release(self, run_id: str, call: int, *, rates: Rates, guessed: int, used: int | None) -> None:
        """Gives the slot back, and corrects the tokens that were guessed."""
        with self._file.write_transaction() as database:
            gone = database.execute(
                "DELETE FROM slot WHERE provider = ? AND run_id = ? AND call = ?", (self._provider, run_id, call)
            )
            if gone.rowcount and used is not None:
                self._take(database, "tokens", rates.tokens_per_minute, used - guessed)

    def record_hold(self, until: float | None, *, model: str) -> Hold:
        """The provider refused a call: everybody waits until then, or, where it named no time, for a few seconds.

        Without a `model`, it said that no model is to be asked. A hold is never made shorter, and calls that were under
        way when it began do not make a guess longer.
        """
        now = self._clock()
        with self._file.write_transaction() as database:
            last, repeats = self._read_hold(database, model) or (Hold(0.0, False, model), 0)
            is_on = last.until > now
            if until is not None:
                hold = Hold(max(until, last.until) if is_on and last.is_stated else until, True, model)
            elif is_on:
                hold = last
            else:
                repeats = repeats + 1 if last.until > now - _QUIET_S else 1
                hold = Hold(now + min(_FIRST_HOLD_S * 2 ** (repeats - 1), _LONGEST_GUESS_S), False, model)
            row = (self._host, self._key, model, hold.until, hold.is_stated, repeats)
            database.execute("INSERT OR REPLACE INTO hold VALUES (?,?,?,?,?,?)", row)
        return hold

    def clear_hold(self, model: str) -> None:
        """The provider has answered: the next time that it refuses, guessing begins anew."""
        with self._file.write_transaction() as database:
            values = (self._host, self._key, model, self._clock())
            where = "host = ? AND key = ? AND model IN (?, '') AND until <= ?"
            database.execute(f"DELETE FROM hold WHERE {where}", values)

    def _read_hold(self, database: "sqlite3.Connection", model: str) -> tuple[Hold, int] | None:
        found = database.execute(
            "SELECT until, told, repeats FROM hold WHERE host = ? AND key = ? AND model = ?",
            (self._host, self._key, model),
        ).fetchone()
        return (Hold(found[0], bool(found[1]), model), found[2]) if found else None

    def _find_hold(self, database: "sqlite3.Connection", model: str) -> Hold | None:
        rows = [self._read_hold(database, each) for each in ("", model)]
        holds = [row[0] for row in rows if row and row[0].until > self._clock()]
        return max(holds, key=lambda hold: hold.until, default=None)

    def _compute_wait(self, database: "sqlite3.Connection", rates: Rates, tokens: int) -> Wait | None:
        if rates.concurrent_calls is not None and not self._has_slot(database, rates.concurrent_calls):
            calls = f"{rates.concurrent_calls} call{'' if rates.concurrent_calls == 1 else 's'}"
            return Wait(_SLOT_POLL_S, None, f"{calls} at a time")
        asked: list[tuple[Kind, int | None, int]] = [
            ("requests", rates.requests_per_minute, 1),
            ("tokens", rates.tokens_per_minute, tokens),
        ]
        waits = [(self._seconds_until(database, kind, most, count), most, kind) for kind, most, count in asked if most]
        seconds, most, kind = max(waits, default=(0.0, 0, ""))
        return Wait(seconds, None, f"{most} {kind} per minute") if seconds > 0 else None

    def _has_slot(self, database: "sqlite3.Connection", most: int) -> bool:
        return self._count_slots(database) < most or (
            close_dead_accounts(database) > 0 and self._count_slots(database) < most
        )

    def _count_slots(self, database: "sqlite3.Connection") -> int:
        return database.execute("SELECT count(*) FROM slot WHERE provider = ?", (self._provider,)).fetchone()[0]

    def _seconds_until(self, database: "sqlite3.Connection", kind: Kind, most: int, count: int) -> float:
        """Until so much is in the bucket; more than it holds is let through when it is full, and leaves a debt."""
        missing = min(count, most) - self._read_level(database, kind, most)
        return max(0.0, missing) * _MINUTE_S / most

    def _take(self, database: "sqlite3.Connection", kind: Kind, most: int | None, count: int) -> None:
        if most is None:
            return
        level = min(self._read_level(database, kind, most) - count, most)
        row = (self._provider, kind, level, self._clock())
        database.execute("INSERT OR REPLACE INTO bucket VALUES (?,?,?,?)", row)

    def _read_level(self, database: "sqlite3.Connection", kind: Kind, most: int) -> float:
        """A bucket holds one minute's worth and fills up evenly, as the providers' own do."""
        found = database.execute(
            "SELECT level, at FROM bucket WHERE provider = ? AND kind = ?", (self._provider, kind)
        ).fetchone()
        if found is None:
            return float(most)
        level, at = found
        return min(most, level + max(0.0, self._clock() - at) * most / _MINUTE_S)


def is_limited(rates: Rates) -> bool:
    """Whether a user has set any rate."""
    return any((rates.requests_per_minute, rates.tokens_per_minute, rates.concurrent_calls))


def _wait_of_hold(hold: Hold, now: float) -> Wait:
    return Wait(hold.until - now, hold, "the provider's own limit")
