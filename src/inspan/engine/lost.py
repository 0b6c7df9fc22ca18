"""The honest end of a run whose owner is gone."""

from inspan.folds.summary import Summary, summarize
from inspan.protocol.events import RunEnded
from inspan.protocol.outcome import outcome_of
from inspan.protocol.wire import encode
from inspan.stores.folder import RunFolder, forget
from inspan.stores.log import read_log, reopen

from .closing import close_run
from .sweep import sweep
from .verdict import next_step


def declare_lost(state: str, folder: RunFolder) -> Summary:
    """Appends the honest last record. The caller holds the lock, so nobody else can be writing."""
    summary = summarize(record.event for record in read_log(folder.log))
    if summary.ended:
        return summary
    sweep(folder.run_id)
    log, records = reopen(folder.log)
    duration_s = records[-1].at - records[0].at if records else 0.0
    ended = RunEnded(
        outcome=outcome_of("supervisor_lost"),
        reason="supervisor_lost",
        message="the run's supervisor ended without a word; nothing after the last record is known",
        next=next_step("supervisor_lost"),
        duration_s=round(duration_s, 3),
        session_id=summary.session_id,
        usage=summary.spent,
        cost_usd=summary.cost_usd,
        model_calls=summary.calls,
        files_changed=summary.files_changed,
        denied=summary.denied,
    )
    log.append(encode(ended))
    log.sync()
    log.close()
    summary.add(ended)
    forget(folder.socket)
    close_run(state, folder, summary)
    return summary
