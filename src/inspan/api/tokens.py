"""The audit of a task's tokens: one record for each run, in `tokens-used.json` of the task's folder."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from inspan.errors import StateUnusable
from inspan.protocol.cost import CostKind
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import Outcome
from inspan.protocol.usage import Usage
from inspan.stores.paths import state_error
from inspan.stores.run_folder import read_json, write_json
from inspan.system import file_locks

_NAME = "tokens-used.json"
_SCHEMA = 1


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer took: `attempts` are the runs behind it, `cost_cents` is `None` where nobody reported a cost.

    `cost_kind` is missing in files of before.
    """

    run_id: str
    agent: str
    outcome: Outcome
    tokens: Usage
    cost_cents: float | None
    model_calls: int
    attempts: tuple[str, ...]
    cost_kind: CostKind | None = None


def add_record(task_folder: str, record: TokenRecord) -> str:
    """Adds to the file, or replaces what it has of the same runs, and gives its path; raises `StateUnusable`.

    Any number of processes may do this at once: one waits for the other, and the file is replaced whole or not at all.
    """
    path = os.path.join(task_folder, _NAME)
    with _lock_file(f"{path}.lock"):
        kept = [
            each
            for each in _read_records(path)
            if not {each.run_id, *each.attempts} & {record.run_id, *record.attempts}
        ]
        records = [*kept, record]
        write_json(
            path, {"schema": _SCHEMA, "total": _sum_records(records), "runs": [_to_dict(each) for each in records]}
        )
    return path


@contextmanager
def _lock_file(path: str) -> Generator[None]:
    try:
        lock = file_locks.take(path, wait=True)
    except OSError as error:
        raise state_error(path, error) from error
    try:
        yield
    finally:
        file_locks.release(lock)


def _read_records(path: str) -> list[TokenRecord]:
    if not os.path.exists(path):
        return []
    try:
        return msgspec.convert(read_json(path).get("runs"), know_type(list[TokenRecord]))
    except msgspec.ValidationError as error:
        step = "Restore it, or move it away: a new one is begun."
        raise StateUnusable(f"{path} is not a record of tokens: {error}.", next_step=step) from error


def _sum_records(records: list[TokenRecord]) -> dict[str, Any]:
    costs = [record.cost_cents for record in records if record.cost_cents is not None]
    return {
        "runs": sum(len(record.attempts) for record in records),
        "tokens": msgspec.structs.asdict(sum((record.tokens for record in records), Usage())),
        "cost_cents": round(sum(costs), 7) if costs else None,
        "cost_not_reported": sum(each.cost_cents is None and each.cost_kind != "not_paid" for each in records),
        "not_paid": sum(each.cost_kind == "not_paid" for each in records),
        "model_calls": sum(record.model_calls for record in records),
    }


def _to_dict(record: TokenRecord) -> dict[str, Any]:
    """Every count is written, zeros too: an auditor should not have to know what is left out."""
    return {**msgspec.structs.asdict(record), "tokens": msgspec.structs.asdict(record.tokens)}
