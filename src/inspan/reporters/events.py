"""From the events of an agent's run to the calls of a reporter: the run is one node."""

from collections.abc import Iterable

from msgspec.structs import replace

from inspan.contracts.reporter import NodeReport, NodeResult, Reporter, RunReport
from inspan.folds.costs import read_cost
from inspan.folds.summary import Summary
from inspan.protocol.cost import Cost
from inspan.protocol.events import Event, RunEnded, RunStarted
from inspan.protocol.outcome import status_of

from .held_warnings import HeldWarnings
from .narration import Narrator, TextChunk

_TYPE = "agent"


def report_events(reporter: Reporter, name: str = "", *, ends_run: bool = True, once: bool = False) -> "EventReport":
    """An object to `show` the events of one run to, in order; each reaches the reporter as the node `name`, which is
    the agent's name if none is given. With `ends_run` the node is the whole run, and `run_complete` follows its end.

    With `once`, a failure is told once: what leads to it is held until the end tells it or the agent goes on; for who
    reads along, `tick` tells what was held for too long.
    """
    return EventReport(reporter, name, ends_run=ends_run, once=once)


class EventReport:
    """Tells a reporter of one agent's run. Raises what the reporter raises: see `SafeReporter`."""

    def __init__(self, reporter: Reporter, name: str, *, ends_run: bool, once: bool = False) -> None:
        self.name = name
        self.result: NodeResult | None = None
        self._reporter = reporter
        self._ends_run = ends_run
        self._started = False
        self._summary = Summary()
        self._narrator = Narrator()
        self._held = HeldWarnings() if once else None

    def show(self, event: Event) -> None:
        """Takes the next event; after the last one `result` is set, and nothing more is told."""
        if self.result:
            return
        self._summary.add(event)
        if not self._started:
            self._start(event)
        chunks = self._narrator.narrate(event)
        self._tell(self._held.sift(event, chunks) if self._held else chunks)
        if isinstance(event, RunEnded):
            self._complete(event)

    def tick(self) -> None:
        """Nothing new has come for a while."""
        if self._held and self._held.is_due:
            self.tell_held()

    def tell_held(self) -> None:
        """There will be no end of the run: tells what was held for it."""
        self._tell(self._held.take() if self._held else ())

    def tell(self, warning: str) -> None:
        """Passes on a sentence about the run that no event has."""
        if not self.result:
            self._tell([TextChunk(f"{warning}\n", "warning")])

    def _tell(self, chunks: Iterable[TextChunk]) -> None:
        for chunk in chunks:
            self._reporter.node_output(self.name, chunk)

    def _start(self, event: Event) -> None:
        self._started = True
        self.name = self.name or (event.agent if isinstance(event, RunStarted) else _TYPE)
        self._reporter.node_start(self.name, _TYPE)

    def _complete(self, ended: RunEnded) -> None:
        self.result = result = self._settle(ended)
        self._reporter.node_complete(self.name, result)
        if self._ends_run:
            node = NodeReport(name=self.name, type=_TYPE, result=result)
            status = status_of(ended.outcome)
            self._reporter.run_complete(RunReport(nodes=(node,), status=status, duration_s=ended.duration_s))

    def _settle(self, ended: RunEnded) -> NodeResult:
        """The result, with what failed in our own words where the agent has retold that in its own."""
        result = build_node_result(self._summary, ended)
        if not self._held:
            return result
        problem = self._held.settle(ended, self._summary.failure)
        self._tell(self._held.take())
        return replace(result, error=problem) if problem else result


def build_node_result(summary: Summary, ended: RunEnded) -> NodeResult:
    """What an agent's run came to, as the result of a node."""
    cost = read_cost(ended, model_from=summary.model_from)
    return NodeResult(
        status=status_of(ended.outcome),
        output=summary.answer,
        error=ended.message,
        duration_s=ended.duration_s,
        usage=ended.usage,
        cost_usd=cost.usd,
        cost_note=_format_note(cost, calls=ended.model_calls),
        cost_kind=cost.kind,
        not_paid_usd=cost.not_paid_usd,
        calls_without_cost=cost.unknown_calls,
        session_id=ended.session_id,
        outcome=ended.outcome,
        reason=ended.reason,
        files_changed=tuple(ended.files_changed),
        next_step=ended.next,
        files_unknown=ended.files_unknown,
    )


def _format_note(cost: Cost, *, calls: int) -> str:
    if cost.kind == "not_paid":
        return "nothing was paid"
    return f"unknown for {cost.unknown_calls} of {calls} calls" if cost.kind == "partial" else ""
