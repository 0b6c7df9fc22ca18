"""What is written beside a log once it has ended: last words, exit code, a row in the index."""

import time
from collections.abc import Mapping

import msgspec

from inspan.errors import HarnessFault, StateUnusable
from inspan.folds.summary import Summary
from inspan.protocol.events import RunEnded
from inspan.protocol.outcome import outcome_of, status_of
from inspan.protocol.spending import NANO_PER_USD, Spending
from inspan.protocol.usage import Told, Usage
from inspan.redaction import Gate, SecretSet
from inspan.stores import index
from inspan.stores.folder import RunFolder, unmark_active, write_json, write_text
from inspan.stores.log import RunLog
from inspan.stores.sessions import editing, read_session, session_of, write_session

from .large import whole
from .plan import Plan
from .rows import row_of
from .verdict import next_step


def close_run(state: str, folder: RunFolder, summary: Summary, *, secrets: Mapping[str, str] | None = None) -> bool:
    """Writes `output.md` and `exit.json`, enters the run into the index and takes it off the active list.

    All of it follows from the log. Where it cannot be written (a full disk, a broken index), this says so and the run
    stays on the active list, so that the next `ps` tries again.
    """
    gate, ended = Gate(SecretSet.shared(secrets or {})), summary.ended
    if ended is None:
        raise HarnessFault(f"Run {folder.run_id} is to be closed before it has ended.")
    exit_file = {
        "outcome": ended.outcome,
        "status": status_of(ended.outcome),
        "reason": ended.reason,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
    }
    try:
        write_text(folder.file("output.md"), gate.text(whole(summary.answer, folder=folder.path)))
        write_json(folder.file("exit.json"), exit_file, sync=False)
        _remember(state, folder, summary)
        index.put(state, [row_of(folder, summary, ended)])
        _enter(state, folder, summary, ended)
        unmark_active(state, folder.run_id)
    except (StateUnusable, OSError):
        return False
    return True


def _enter(state: str, folder: RunFolder, summary: Summary, ended: RunEnded) -> None:
    """Enters what an agent told of a run without a gateway into the ledger, where deleting the run does not reach."""
    started = summary.started
    if started is None or summary.calls or started.model_from not in ("", "direct"):
        return
    from inspan.stores.ledger import Ledger  # Start-up time: runs behind a gateway have it open already.

    spending = Spending(
        run_id=folder.run_id,
        call=0,
        at=time.time(),
        project=started.project,
        task=started.task,
        session=session_of(folder),
        agent=started.agent,
        model=summary.model or started.model,
        role="",
        usage=ended.usage,
        nano=None if ended.cost_usd is None else round(ended.cost_usd * NANO_PER_USD),
        source="agent",
        scripted=False,
    )
    ledger = Ledger(state)
    try:
        ledger.settle(folder.run_id, 0, spending)
    finally:
        ledger.close()


def _remember(state: str, folder: RunFolder, summary: Summary) -> None:
    """Keeps what the next run of the session must know; once, however often a run is closed."""
    key = session_of(folder)
    with editing(state):
        try:
            record = read_session(state, key)
        except StateUnusable:
            return  # A damaged record can be told nothing; resuming the session says so.
        if record is None or folder.run_id in record.told_by:
            return
        told = Told(
            usage=record.told.usage + (summary.usage or Usage()),
            cost_usd=record.told.cost_usd + (summary.cost_usd or 0.0),
        )
        session_id = summary.session_id or record.session_id
        told_by = (*record.told_by, folder.run_id)
        write_session(state, msgspec.structs.replace(record, session_id=session_id, told=told, told_by=told_by))


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
