"""The honest end of a run whose owner is gone: what it is known to have done, and what it had spent."""

import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from inspan.containment.control_groups import remove_groups
from inspan.containment.sweep import kill_run_processes
from inspan.errors import StateUnusable
from inspan.folds.costs import extra_charge
from inspan.folds.summary import Summary
from inspan.folds.usage import sums_from_call
from inspan.protocol.amounts import format_dollars
from inspan.protocol.cost import is_paid_for
from inspan.protocol.events import ErrorReported, Event, ModelCallEnded, RunEnded
from inspan.protocol.http_status import is_error_status
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import Reason
from inspan.protocol.plan import SeenGit
from inspan.protocol.spending import NANO_PER_USD, Spending
from inspan.protocol.wire import Record, encode
from inspan.running.finalize import finalize_run
from inspan.stores.event_log import RunLog, iter_log, reopen_log
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_file import has_ledger
from inspan.stores.paths import state_error
from inspan.stores.run_folder import SOCKET_LINK, RunFolder, read_json, remove_file
from inspan.stores.sessions import session_key_of

_LEDGER_WAIT_S = 2.0


_UNEXPECTED = "the run's supervisor ended unexpectedly; nothing is known after the last record"


def declare_lost(
    state: str,
    folder: RunFolder,
    *,
    living: Container[str] | None = None,
    reason: Reason = "supervisor_lost",
    message: str = _UNEXPECTED,
) -> Summary:
    """Appends the honest last records. The caller holds the lock, so nobody else can be writing.

    `living` are the runs that were found to have processes after the owner of this one was gone. There is another
    `reason` where somebody has killed that owner.
    """
    summary, calls, duration_s = _read(folder.log)
    if summary.ended:
        return summary
    if living is None or folder.run_id in living:
        kill_run_processes(folder.run_id)
    described = read_json(folder.file("run.json"))
    remove_groups(described.get("control_groups", []))
    log = reopen_log(folder.log)
    rows = _settle_ledger(state, folder, summary, calls)
    unheard = [*_find_unlogged_calls(rows, calls), *_find_traces(summary, described)]
    for event in unheard:
        summary.add(event)
    ended = summary.build_end(reason, message + _describe_charges(rows), duration_s=duration_s)
    _append_last(log, unheard, ended, path=folder.log)
    summary.add(ended)
    with suppress(OSError):  # Nobody listens there any more, whether it goes or not.
        remove_file(folder.socket)
        remove_file(folder.file(SOCKET_LINK))
    finalize_run(state, folder, summary)
    return summary


def _read(path: str) -> tuple[Summary, list[Record], float]:
    """What the log tells in all, the ends of its model calls, and how long the run went on."""
    summary, calls, first, last = Summary(), list[Record](), 0.0, 0.0
    for record in iter_log(path):
        summary.add(record.event)
        first, last = first or record.at, record.at
        if isinstance(record.event, ModelCallEnded):
            calls.append(record)
    with suppress(OSError):  # Whoever had nothing to write has left a sign of life.
        last = max(last, min(os.stat(path).st_mtime, time.time()))
    return summary, calls, last - first if first else 0.0


def _find_traces(summary: Summary, described: Mapping[str, Any]) -> Iterator[ErrorReported]:
    """What a run in a box has left in git data, which its supervisor would have looked for at its end."""
    started, since = summary.started, described.get("created_at")
    # Without the moment of its beginning nobody knows what is of the run.
    if since and started and started.private and started.mode == "exec":
        from inspan.stores.git_traces import disarm_git  # Start-up time: few runs are lost, and fewer had a box.

        task = described.get("task", {})
        folders = (started.cwd, *task.get("extra_dirs", ()))
        seen = msgspec.convert(described.get("seen", {}), know_type(SeenGit))
        for problem in disarm_git(folders, since=since, besides=task.get("read", ()), seen=seen):
            yield ErrorReported(message=problem)


def _append_last(log: RunLog, unheard: Sequence[Event], last: RunEnded, *, path: str) -> None:
    """Puts the last records on the disk; on a full one the very last, in the room that was kept for it."""
    try:
        try:
            for event in (*unheard, last):
                log.append(encode(event))
            log.flush()  # Not waited for: what a power cut takes of this, the next look adds again.
        except OSError:
            log.write_last_record(encode(last))
    except OSError as error:
        raise state_error(path, error) from error
    finally:
        log.close()


def _settle_ledger(state: str, folder: RunFolder, summary: Summary, records: Sequence[Record]) -> list[Spending]:
    """The run's rows in the ledger, which is told first what the log knows better."""
    with suppress(StateUnusable):  # What the run had under way stays charged there, whoever can read it now.
        if has_ledger(state):
            ledger = Ledger(state, wait_s=_LEDGER_WAIT_S)
            try:
                return ledger.end_lost_run(folder.run_id, list(_collect_logged_calls(folder, summary, records)))
            finally:
                ledger.close()
    return []


def _collect_logged_calls(folder: RunFolder, summary: Summary, records: Sequence[Record]) -> Iterator[Spending]:
    """The calls whose end is in the log, with all that they used."""
    started = summary.started
    if started is None:
        return
    session, scripted = session_key_of(folder), not is_paid_for(started.model_from)
    for record in records:
        call = record.event
        if isinstance(call, ModelCallEnded) and call.usage is not None and _is_complete(call):
            yield Spending(
                run_id=folder.run_id,
                call=call.call,
                at=record.at,
                project=started.project,
                task=started.task,
                session=session,
                agent=started.agent,
                model=call.model,
                role=call.role,
                usage=call.usage,
                nano=sums_from_call(call).nano,
                source="gateway",
                scripted=scripted,
            )


def _is_complete(call: ModelCallEnded) -> bool:
    return not call.problem and call.status is not None and not is_error_status(call.status)


def _find_unlogged_calls(rows: Sequence[Spending], records: Sequence[Record]) -> Iterator[ModelCallEnded]:
    """The calls that the ledger knows and the log does not: they were under way, or had just ended."""
    heard = {record.event.call: record.event for record in records if isinstance(record.event, ModelCallEnded)}
    wire = next((call.wire for call in heard.values()), "")
    for row in rows:
        if row.source == "gateway" and row.call not in heard:
            usd = None if row.nano is None else row.nano / NANO_PER_USD
            yield ModelCallEnded(
                call=row.call,
                wire=wire,
                model=row.model,
                usage=row.usage,
                problem="lost",
                role="side" if row.role == "side" else "retry" if row.role == "retry" else "main",
                cost_usd=None if row.scripted else usd,
                not_paid_usd=usd if row.scripted else None,
            )


def _describe_charges(rows: Sequence[Spending]) -> str:
    """What budgets count for calls of which nobody saw the end."""
    charged = [row for row in rows if row.charged_tokens is not None]
    if not charged:
        return ""
    more = [extra_charge(row) for row in charged]
    nano, tokens = sum(nano for nano, _ in more), sum(tokens for _, tokens in more)
    calls = f"{len(charged)} model call{'' if len(charged) == 1 else 's'} of which the end was not seen"
    return f"; budgets count {f'{format_dollars(nano)} and ' if nano else ''}{tokens} tokens more for {calls}"
