"""What is written beside a log once it has ended: last words, exit code, a row in the index."""

import os
from collections.abc import Mapping

from inspan.errors import HarnessFault
from inspan.folds.summary import Summary
from inspan.protocol.events import RunEnded
from inspan.protocol.outcome import outcome_of, status_of
from inspan.redaction import Gate, SecretSet
from inspan.stores import index
from inspan.stores.folder import RunFolder, read_json, unmark_active, write_json, write_text
from inspan.stores.log import RunLog

from .plan import Plan
from .verdict import next_step

_PROMPT_CHARACTERS = 80


def close_run(state: str, folder: RunFolder, summary: Summary, *, secrets: Mapping[str, str] | None = None) -> None:
    """Writes `output.md` and `exit.json`, enters the run into the index and takes it off the active list.

    All of it follows from the log. On a full disk it raises `StateUnusable` and the run stays on the active list, so
    that the next `ps` tries again.
    """
    gate, ended = Gate(SecretSet.shared(secrets or {})), summary.ended
    if ended is None:
        raise HarnessFault(f"Run {folder.run_id} is to be closed before it has ended.")
    write_text(folder.file("output.md"), gate.text(summary.text))
    exit_file = {
        "outcome": ended.outcome,
        "status": status_of(ended.outcome),
        "reason": ended.reason,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
    }
    write_json(folder.file("exit.json"), exit_file)
    index.put(state, [row_of(folder, summary, ended)])
    unmark_active(state, folder.run_id)


def row_of(folder: RunFolder, summary: Summary, ended: RunEnded) -> index.Row:
    """The run as the index keeps it."""
    described = read_json(folder.file("run.json"))
    started = summary.started
    usage = ended.usage
    return index.Row(
        run_id=folder.run_id,
        path=folder.path,
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


def fail_to_start(plan: Plan, folder: RunFolder, log: RunLog, problem: str) -> RunEnded:
    """The whole log of a run whose agent could not be started."""
    gate, summary = Gate(SecretSet.shared(plan.secrets)), Summary()
    ended = RunEnded(
        outcome=outcome_of("environment"),
        reason="environment",
        message=problem,
        next=next_step("environment"),
    )
    for event in (plan.started, ended):
        summary.add(event)
        log.append(gate.event(event))
    log.sync()
    log.close()
    close_run(plan.state, folder, summary, secrets=plan.secrets)
    return ended


def forget(path: str) -> None:
    """Removes a file; doing it twice is no error."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
