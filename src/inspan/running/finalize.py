"""What is written beside a log once it has ended: last words, exit code, a row in the index."""

import time

import msgspec

from inspan.errors import HarnessFault, StateUnusable
from inspan.folds.costs import read_cost
from inspan.folds.summary import Summary
from inspan.protocol.cost import is_counted
from inspan.protocol.events import RunEnded
from inspan.protocol.outcome import status_of
from inspan.protocol.plan import Plan
from inspan.protocol.spending import NANO_PER_USD, Spending
from inspan.protocol.usage import SessionTotals, Usage
from inspan.redaction import Gate, Secrets, SecretSet
from inspan.stores import index
from inspan.stores.event_log import RunLog
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder, unmark_active, write_json, write_text
from inspan.stores.sessions import lock_records, read_session, session_key_of, write_session

from .rows import build_entry


def finalize_run(state: str, folder: RunFolder, summary: Summary, *, secrets: Secrets = ()) -> bool:
    """Writes `output.md` and `exit.json`, enters the run into the index and takes it off the active list.

    All of it follows from the log. Where it cannot be written (a full disk, a broken index), this says so and the run
    stays on the active list, so that the next `ps` tries again.
    """
    gate, ended = Gate(SecretSet.get_shared(secrets)), summary.ended
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
        write_text(folder.file("output.md"), gate.redact_text(restore_large_texts(summary.answer, folder=folder.path)))
        write_json(folder.file("exit.json"), exit_file, sync=False)
        _update_session(state, folder, summary)
        index.put(state, [build_entry(folder, summary, ended)])
        _record_spending(state, folder, summary, ended)
        unmark_active(state, folder.run_id)
    except (StateUnusable, OSError):
        return False
    return True


def _record_spending(state: str, folder: RunFolder, summary: Summary, ended: RunEnded) -> None:
    """Enters what an agent told of a run without a gateway into the ledger, where deleting the run does not reach."""
    started = summary.started
    if started is None or started.work or summary.calls or is_counted(started.model_from):
        return  # What a loop has spent, its runs have.
    usd = read_cost(ended, model_from=started.model_from).usd
    from inspan.stores.ledger import Ledger  # Start-up time: runs behind a gateway have it open already.

    spending = Spending(
        run_id=folder.run_id,
        call=0,
        at=time.time(),
        project=started.project,
        task=started.task,
        session=session_key_of(folder),
        agent=started.agent,
        model=summary.model or started.model,
        role="",
        usage=ended.usage,
        nano=None if usd is None else round(usd * NANO_PER_USD),
        source="agent",
        scripted=False,
    )
    ledger = Ledger(state)
    try:
        ledger.settle(folder.run_id, 0, spending)
    finally:
        ledger.close()


def _update_session(state: str, folder: RunFolder, summary: Summary) -> None:
    """Keeps what the next run of the session must know; once, however often a run is closed."""
    key = session_key_of(folder)
    with lock_records(state):
        try:
            record = read_session(state, key)
        except StateUnusable:
            return  # A damaged record can be told nothing; resuming the session says so.
        if record is None or folder.run_id in record.told_by:
            return
        told = SessionTotals(
            usage=record.told.usage + (summary.usage or Usage()),
            cost_usd=record.told.cost_usd + (summary.cost_usd or 0.0),
        )
        session_id = summary.session_id or record.session_id
        told_by = (*record.told_by, folder.run_id)
        write_session(state, msgspec.structs.replace(record, session_id=session_id, told=told, told_by=told_by))


def record_failed_start(plan: Plan, folder: RunFolder, log: RunLog, problem: str) -> RunEnded:
    """The end of a run whose agent could not be started, in a log that has only begun."""
    gate, summary = Gate(SecretSet.get_shared(plan.secrets)), Summary()
    summary.add(plan.started)
    ended = summary.build_end("environment", problem)
    summary.add(ended)
    log.append(gate.encode_event(ended))
    log.sync()
    log.close()
    finalize_run(plan.state, folder, summary, secrets=plan.secrets)
    return ended
