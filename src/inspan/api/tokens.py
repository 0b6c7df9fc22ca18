"""The audit of a task's tokens: one record for each run, in `tokens-used.json` of the task's folder."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from inspan.errors import StateUnusable
from inspan.protocol.outcome import Outcome
from inspan.protocol.usage import Usage
from inspan.stores.folder import read_json, write_json
from inspan.stores.paths import unusable

_NAME = "tokens-used.json"
_SCHEMA = 1


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer took: `attempts` are the runs behind it, `cost_cents` is `None` where nobody reported a cost."""

    run_id: str
    agent: str
    outcome: Outcome
    tokens: Usage
    cost_cents: float | None
    model_calls: int
    attempts: tuple[str, ...]


def add_record(task_folder: str, record: TokenRecord) -> str:
    """Adds to the file, or replaces what it has of the same runs, and gives its path; raises `StateUnusable`.

    Any number of processes may do this at once: one waits for the other, and the file is replaced whole or not at all.
    """
    path = os.path.join(task_folder, _NAME)
    with _alone(f"{path}.lock"):
        kept = [each for each in _read(path) if not {each.run_id, *each.attempts} & {record.run_id, *record.attempts}]
        records = [*kept, record]
        write_json(path, {"schema": _SCHEMA, "total": _total(records), "runs": [_spelled(each) for each in records]})
    return path


@contextmanager
def _alone(path: str) -> Generator[None]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _read(path: str) -> list[TokenRecord]:
    if not os.path.exists(path):
        return []
    try:
        return msgspec.convert(read_json(path).get("runs"), list[TokenRecord])
    except msgspec.ValidationError as error:
        step = "Restore it, or move it away: a new one is begun."
        raise StateUnusable(f"{path} is no record of tokens: {error}.", next_step=step) from error


def _total(records: list[TokenRecord]) -> dict[str, Any]:
    costs = [record.cost_cents for record in records if record.cost_cents is not None]
    return {
        "runs": sum(len(record.attempts) for record in records),
        "tokens": msgspec.structs.asdict(sum((record.tokens for record in records), Usage())),
        "cost_cents": round(sum(costs), 7) if costs else None,
        "cost_not_reported": len(records) - len(costs),
        "model_calls": sum(record.model_calls for record in records),
    }


def _spelled(record: TokenRecord) -> dict[str, Any]:
    """Every count is written, zeros too: an auditor should not have to know what is left out."""
    return {**msgspec.structs.asdict(record), "tokens": msgspec.structs.asdict(record.tokens)}
