"""Runs of a place: started, listed, looked at, stopped, deleted."""

import os
from collections.abc import Iterator

import msgspec

from inspan.errors import BadInput
from inspan.folds.costs import read_run_cost
from inspan.folds.summary import Summary
from inspan.planning.prepare import prepare
from inspan.planning.settings import apply_config
from inspan.planning.transcripts import load_transcript
from inspan.protocol.commands import Cancel
from inspan.protocol.ids import RUN_ID, make_short_name
from inspan.protocol.outcome import Outcome
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA, Record, decode_event, encode
from inspan.reporters.call_summary import calls_to_dict
from inspan.running.start import start_supervisor
from inspan.runs.find import find_run_folder, refresh_run, refresh_summary, refuse_needed, refuse_running, remove
from inspan.runs.force import order_end
from inspan.runs.list_all import list_active, list_ended
from inspan.runs.names import read_own_name
from inspan.runs.projects import Scope, scope_of
from inspan.runs.undo import read_undo_records
from inspan.runs.worktrees import find_going_with
from inspan.stores.event_log import LogReader
from inspan.stores.index import Row
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder, is_locked, read_json
from inspan.system.children import reap

from .place import Place
from .run_info import build_run_info
from .values import (
    EventLine,
    EventPage,
    EventQuery,
    RemoveRequest,
    RemoveResult,
    RunCost,
    RunDetails,
    RunInfo,
    RunListing,
    RunName,
    RunQuery,
    RunState,
    StartedRun,
    StopRequest,
    StopResult,
    TaskRequest,
    TranscriptInfo,
)


def start_run(place: Place, request: TaskRequest) -> StartedRun:
    """Starts a task under a supervisor of its own, completed by the configuration as at the command line."""
    configured = apply_config(resolve_cwd(request.task), env=place.env)
    prepared = prepare(configured.task, env=configured.env, configured=True)
    reap(start_supervisor(prepared))
    return describe_started(prepared.folder.run_id, configured.task)


def resolve_cwd(task: Task) -> Task:
    """The task with the whole path of its folder; without one, it is the current folder."""
    return task if os.path.isabs(task.cwd) else msgspec.structs.replace(task, cwd=os.path.abspath(task.cwd))


def describe_started(run_id: str, task: Task) -> StartedRun:
    """What was started, by the names that it has."""
    return StartedRun(run_id=run_id, short=make_short_name(run_id), name=task.name)


def list_runs(place: Place, query: RunQuery) -> RunListing:
    """The runs that are meant: what needs a person first, then what lives, then what has ended."""
    if query.before and not RUN_ID.fullmatch(query.before):
        raise BadInput("before", query.before, "it is not the id of a run.", next_step="Give the `next` of a listing.")
    scope = Scope(project=query.project) if query.project else scope_of(query.cwd) if query.cwd else None
    living = [] if query.before else list(_list_living(place, query, scope))
    found = [*living, *_list_ended(place, query, scope, {each.run_id for each in living})]
    runs = found[: query.limit]
    more = len(found) > query.limit and not runs[-1].alive
    return RunListing(runs=runs, next=runs[-1].run_id if more else None)


def _list_living(place: Place, query: RunQuery, scope: Scope | None) -> Iterator[RunInfo]:
    active = [run for run in list_active(place.state, ended=query.ended) if _is_meant(run.entry.row, query, scope)]
    active.sort(key=lambda run: (run.state is None, not (run.state and run.state.status == "waiting")))
    yield from (build_run_info(place.state, run.entry.row, run.state) for run in active)


def _list_ended(place: Place, query: RunQuery, scope: Scope | None, living: set[str]) -> Iterator[RunInfo]:
    if not query.ended or query.outcome == "running":
        return
    is_plain = not (query.before or query.agent or query.outcome or query.work or query.search)
    rows = list_ended(place.state, scope=scope, limit=query.limit + 1 if is_plain else None)
    for row in rows:
        is_behind = not query.before or row.run_id < query.before
        if is_behind and row.run_id not in living and _is_meant(row, query, scope):
            yield build_run_info(place.state, row, None)


def _is_meant(row: Row, query: RunQuery, scope: Scope | None) -> bool:
    wanted = ((query.agent, row.agent), (query.outcome, row.outcome), (query.work, row.work))
    return (
        all(not asked or asked == given for asked, given in wanted)
        and (scope is None or scope.matches(row.project, row.cwd))
        and (not query.search or _contains(row, query.search.casefold()))
    )


def _contains(row: Row, text: str) -> bool:
    return any(text in each.casefold() for each in (row.prompt, row.name, row.short, row.run_id, row.cwd, row.agent))


def get_run(place: Place, request: RunName) -> RunDetails:
    """All that is known of a run."""
    return describe_run(place.state, find_run_folder(place.state, request.run))


def describe_run(state: str, folder: RunFolder) -> RunDetails:
    """The same, of its folder."""
    summary, live = refresh_run(state, folder)
    cost = read_run_cost(summary)
    return RunDetails(
        run_id=folder.run_id,
        run=read_json(folder.file("run.json")),
        name=read_own_name(folder),
        short=make_short_name(folder.run_id),
        folder=folder.path,
        started=summary.started,
        ended=summary.ended,
        output=restore_large_texts(summary.answer, folder=folder.path),
        calls=calls_to_dict(summary),
        cost_usd=cost.usd,
        cost_kind=cost.kind,
        not_paid_usd=cost.not_paid_usd,
        state=live,
        undo=read_undo_records(folder),
    )


def get_state(place: Place, request: RunName) -> RunState:
    """What a run is doing, or how it ended."""
    folder = find_run_folder(place.state, request.run)
    summary, live = refresh_run(place.state, folder)
    outcome: Outcome | str = summary.ended.outcome if summary.ended else "running"
    reason = summary.ended.reason if summary.ended else ""
    return RunState(run_id=folder.run_id, alive=summary.ended is None, outcome=outcome, reason=reason, state=live)


def get_cost(place: Place, request: RunName) -> RunCost:
    """What a run has used and cost, ended or so far."""
    folder = find_run_folder(place.state, request.run)
    summary: Summary = refresh_summary(place.state, folder)
    cost = read_run_cost(summary)
    return RunCost(
        run_id=folder.run_id,
        usage=summary.ended.usage if summary.ended else summary.spent,
        calls=calls_to_dict(summary),
        cost_usd=cost.usd,
        cost_kind=cost.kind,
        not_paid_usd=cost.not_paid_usd,
    )


def list_events(place: Place, query: EventQuery) -> EventPage:
    """A page of a run's events; one whose owner is gone is declared lost first."""
    folder = find_run_folder(place.state, query.run)
    reader = LogReader(folder.log)
    reader.skip(query.after)
    events: list[EventLine] = []
    whole = _fill_page(events, reader, query)
    ended = reader.ended
    if whole and not ended and not is_locked(folder):
        ended = refresh_summary(place.state, folder).ended is not None
        _fill_page(events, reader, query)
    last = max(reader.last_number, query.after) if whole else events[-1].n
    return EventPage(run_id=folder.run_id, events=events, last=last, ended=whole and ended)


def _fill_page(events: list[EventLine], reader: LogReader, query: EventQuery) -> bool:
    """Adds what there is room for; says whether that was all."""
    kinds = frozenset(query.kinds)
    for number, at, body in reader.read_encoded():
        event = body if reader.schema == SCHEMA else encode(decode_event(body, schema=reader.schema))
        if kinds and Record(number, at, decode_event(event)).kind not in kinds:
            continue
        if len(events) == query.limit:
            return False
        events.append(EventLine(n=number, t=at, event=msgspec.Raw(event)))
    return True


def stop_run(place: Place, request: StopRequest) -> StopResult:
    """Asks a run to end; its end is not waited for."""
    folder = find_run_folder(place.state, request.run)
    order = Cancel(by="killed" if request.now else "stopped", now=request.now)
    return StopResult(run_id=folder.run_id, heard=order_end(place.state, folder, command=order))


def remove_run(place: Place, request: RemoveRequest) -> RemoveResult:
    """Deletes an ended run, and with the last run of each its session and its worktree."""
    folder = find_run_folder(place.state, request.run)
    refresh_summary(place.state, folder)
    refuse_running(folder)
    refuse_needed(place.state, folder)
    worktrees = [each.worktree.id for each in find_going_with(place.state, {folder.run_id})]
    if not request.dry_run:
        remove(place.state, folder)
    return RemoveResult(run_id=folder.run_id, removed=not request.dry_run, worktrees=worktrees)


def get_transcript(place: Place, request: RunName) -> TranscriptInfo:
    """What the agent itself has kept of a run's session."""
    folder = find_run_folder(place.state, request.run)
    kept = load_transcript(place.state, folder, env=place.env)
    events = [EventLine(n=n, t=0.0, event=msgspec.Raw(encode(event))) for n, event in enumerate(kept.events, 1)]
    return TranscriptInfo(
        run_id=folder.run_id,
        agent=kept.agent,
        session_id=kept.session_id,
        source=kept.source,
        events=events,
        missing_kinds=list(kept.missing_kinds),
    )
