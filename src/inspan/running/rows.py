"""A run as the index keeps it and `ps` shows it."""

import os
import time
from typing import Any

import msgspec

from inspan.errors import StateUnusable
from inspan.folds.costs import read_cost
from inspan.folds.summary import Summary
from inspan.protocol.cost import Cost
from inspan.protocol.events import RunEnded
from inspan.protocol.ids import make_short_name
from inspan.stores.index import Entry, Row
from inspan.stores.run_folder import RunFolder, project_and_task_of, read_json

_PROMPT_CHARACTERS = 80


def build_entry(folder: RunFolder, summary: Summary, ended: RunEnded) -> Entry:
    """The run as the index keeps it."""
    described = read_json(folder.file("run.json"))
    started = summary.started
    cost = read_cost(ended, model_from=summary.model_from)
    return Entry(
        row=_build_row(folder, described, summary, ended, cost),
        model=summary.model or (started.model if started else ""),
        scripted=cost.kind == "not_paid",
        usage=ended.usage,
    )


def build_running_entry(folder: RunFolder, summary: Summary) -> Entry:
    """A run that goes on, with what it has used so far."""
    so_far = summary.build_end("supervisor_lost", "")
    entry = build_entry(folder, summary, so_far)
    row = entry.row._replace(outcome="running", reason="", duration_s=time.time() - entry.row.started_at)
    return msgspec.structs.replace(entry, row=row)


def build_unreadable_entry(folder: RunFolder, error: StateUnusable) -> Entry:
    """One damaged run must not hide the others; `inspan show` says what is wrong with it."""
    project, task = project_and_task_of(folder)
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
        short=make_short_name(folder.run_id),
    )
    return Entry(row=row)


def _build_row(folder: RunFolder, described: dict[str, Any], summary: Summary, ended: RunEnded, cost: Cost) -> Row:
    usage, (project, task) = ended.usage, project_and_task_of(folder)
    return Row(
        run_id=folder.run_id,
        project=project,
        task=task,
        agent=str(described.get("agent", "")),
        started_at=float(described.get("created_at", 0.0)),
        duration_s=ended.duration_s,
        outcome=ended.outcome,
        reason=ended.reason,
        prompt=" ".join(str(described.get("task", {}).get("prompt") or summary.prompt).split())[:_PROMPT_CHARACTERS],
        tokens=usage.total if usage else 0,
        cost_usd=cost.usd,
        session_id=ended.session_id,
        cwd=str(described.get("task", {}).get("cwd", "")),
        cost_kind=cost.kind,
        not_paid_usd=cost.not_paid_usd,
        name=str(described.get("task", {}).get("name", "")),
        short=make_short_name(folder.run_id),
        work=str(described.get("work", "")),
        continues=str(described.get("task", {}).get("continues", "")),
    )
