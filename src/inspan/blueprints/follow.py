"""Following a blueprint and, beside it, what each of its agents says: for whoever has a reporter."""

import asyncio
from collections.abc import Callable

from inspan.contracts.reporter import Reporter
from inspan.errors import InspanError
from inspan.protocol.events import AttemptStarted, NodeEnded, NodeStarted, RunEnded, VerifierStarted
from inspan.protocol.wire import Record
from inspan.reporters.narration import Narrator
from inspan.reporters.node_events import NodeReporter
from inspan.runs.find import find_run_folder
from inspan.runs.follow_async import follow_records
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder

_POLL_S = 1.0
_CATCH_UP_S = 10.0


async def follow_blueprint(
    state: str,
    folder: RunFolder,
    reporter: Reporter | None = None,
    *,
    on_record: Callable[[Record], None] = lambda record: None,
) -> RunEnded:
    """Tells the reporter of every node until the blueprint has ended, and gives that end; one whose process is gone is
    found lost. Cancelling this ends nothing but the telling. `on_record` gets the blueprint's own records."""
    if reporter is None:
        return await _follow_alone(state, folder, on_record)
    agents: dict[str, asyncio.Task[None]] = {}
    nodes = NodeReporter(reporter, tells_output=lambda node: node not in agents)
    ended: RunEnded | None = None
    try:
        async for record in follow_records(state, folder, poll_s=_POLL_S):
            event = record.event
            if isinstance(event, NodeEnded) and (telling := agents.pop(event.node, None)):
                await asyncio.wait({telling}, timeout=_CATCH_UP_S)
                telling.cancel()
            on_record(record)
            nodes.show(event)
            if isinstance(event, NodeStarted) and event.run_id:
                agents[event.node] = asyncio.create_task(_tell_loop(state, event, reporter))
            if isinstance(event, RunEnded):
                ended = event
    finally:
        for telling in agents.values():
            telling.cancel()
    return ended or RunEnded(outcome="lost", reason="supervisor_lost")


async def _follow_alone(state: str, folder: RunFolder, on_record: Callable[[Record], None]) -> RunEnded:
    ended: RunEnded | None = None
    async for record in follow_records(state, folder, poll_s=_POLL_S):
        on_record(record)
        ended = record.event if isinstance(record.event, RunEnded) else None
    return ended or RunEnded(outcome="lost", reason="supervisor_lost")


async def _tell_loop(state: str, node: NodeStarted, reporter: Reporter) -> None:
    """What the loop of an agent's node and its runs tell, as output of the node."""
    narrator = Narrator()
    try:
        folder = find_run_folder(state, node.run_id)
        async for record in follow_records(state, folder, poll_s=_POLL_S):
            event = record.event
            if not isinstance(event, RunEnded):
                for chunk in narrator.narrate(event):
                    reporter.node_output(node.node, chunk)
            if isinstance(event, AttemptStarted | VerifierStarted):
                await _tell_run(state, node.node, event.run_id, reporter)
    except InspanError as error:  # What was deleted meanwhile is not told.
        reporter.node_output(node.node, f"{error}\n")


async def _tell_run(state: str, node: str, run_id: str, reporter: Reporter) -> None:
    narrator, folder = Narrator(), find_run_folder(state, run_id)
    async for record in follow_records(state, folder, poll_s=_POLL_S):
        for chunk in narrator.narrate(record.event):
            reporter.node_output(node, chunk.with_text(restore_large_texts(str(chunk), folder=folder.path)))
