"""A run as the index keeps it and `ps` shows it."""

import os
import time
from typing import Any

import msgspec

from inspan.errors import StateUnusable
from inspan.folds.summary import Summary
from inspan.protocol.events import RunEnded
from inspan.stores.folder import RunFolder, read_json
from inspan.stores.index import Entry, Row

_PROMPT_CHARACTERS = 80
_SCRIPT = "script:"


def row_of(folder: RunFolder, summary: Summary, ended: RunEnded) -> Entry:
    """The run as the index keeps it."""
    described = read_json(folder.file("run.json"))
    started = summary.started
    return Entry(
        row=_row(folder, described, summary, ended),
        model=summary.model or (started.model if started else ""),
        scripted=started is not None and started.model_from.startswith(_SCRIPT),
        usage=ended.usage,
    )


def living_row(folder: RunFolder, summary: Summary) -> Entry:
    """A run that goes on, with what it has used so far."""
    so_far = RunEnded(outcome="lost", reason="supervisor_lost", usage=summary.spent, cost_usd=summary.spent_usd)
    entry = row_of(folder, summary, so_far)
    row = entry.row._replace(outcome="running", reason="", duration_s=time.time() - entry.row.started_at)
    return msgspec.structs.replace(entry, row=row)


def unreadable_row(folder: RunFolder, error: StateUnusable) -> Entry:
    """One damaged run must not hide the others; `inspan show` says what is wrong with it."""
    *_, project, task, _runs, _run_id = folder.path.split(os.sep)
    row = Row(
        run_id=folder.run_id,
        project=project,
        task=task,
        agent="-",
        started_at=os.path.getmtime(folder.path),
        duration_s=0.0,
        outcome="unreadable",
        reason=error.code,
        prompt="",
        tokens=0,
        cost_usd=None,
        session_id="",
    )
    return Entry(row=row)


def _row(folder: RunFolder, described: dict[str, Any], summary: Summary, ended: RunEnded) -> Row:
    started, usage = summary.started, ended.usage
    return Row(
        run_id=folder.run_id,
        project=str(described.get("project", "")),
        task=started.task if started else str(described.get("task", {}).get("task", "")),
        agent=str(described.get("agent", "")),
        started_at=float(described.get("created_at", 0.0)),
        duration_s=ended.duration_s,
        outcome=ended.outcome,
        reason=ended.reason,
        prompt=" ".join(str(described.get("task", {}).get("prompt", "")).split())[:_PROMPT_CHARACTERS],
        tokens=usage.total if usage else 0,
        cost_usd=ended.cost_usd,
        session_id=ended.session_id,
    )
