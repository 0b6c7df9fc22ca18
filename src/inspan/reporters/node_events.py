"""From the events of a blueprint to the calls of a reporter: its nodes are the reporter's."""

from collections.abc import Callable, Iterable
from typing import Any

from inspan.contracts.reporter import NodeReport, NodeResult, Reporter, RunReport
from inspan.protocol.cost import Cost, sum_costs
from inspan.protocol.events import (
    Event,
    NodeEnded,
    NodeOutput,
    NodeStarted,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
)
from inspan.protocol.ids import make_short_name
from inspan.protocol.outcome import status_of

from .narration import Narrator, TextChunk


class NodeReporter:
    """Tells a reporter of one blueprint; `report` is what all of it came to, once that has ended.

    `tells_output` says of a node whether the output that the log has of it is told: who follows its agent has it from
    there. What a node asks a person is output of it, with the command that answers.
    """

    def __init__(self, reporter: Reporter, *, tells_output: Callable[[str], bool] = lambda node: True) -> None:
        self.report: RunReport | None = None
        self._reporter = reporter
        self._tells_output = tells_output
        self._nodes: list[NodeReport] = []
        self._ended: list[NodeEnded] = []
        self._run = ""
        self._asking = ""
        self._asked: dict[str, str] = {}

    def show(self, event: Event) -> None:
        """Takes the next event; those that tell nothing of a node are passed over."""
        handler = _HANDLERS.get(type(event))
        if handler:
            handler(self, event)

    def on_run_started(self, event: RunStarted) -> None:
        self._run = make_short_name(event.run_id)

    def on_started(self, event: NodeStarted) -> None:
        self._asking = event.node  # A question is that of the node that began just before.
        self._reporter.node_start(event.node, event.type)

    def on_output(self, event: NodeOutput) -> None:
        if self._tells_output(event.node):
            self._reporter.node_output(event.node, event.text)

    def on_asked(self, event: QuestionAsked) -> None:
        self._asked[event.id] = self._asking
        self._tell(self._asking, event)
        command = f"inspan approve {self._run}/{event.id} --answer TEXT"
        self._reporter.node_output(self._asking, TextChunk(f"  → {command}\n", "note"))

    def on_answered(self, event: QuestionAnswered) -> None:
        if node := self._asked.pop(event.id, ""):
            self._tell(node, event)

    def _tell(self, node: str, event: Event) -> None:
        for chunk in Narrator().narrate(event):
            self._reporter.node_output(node, chunk)

    def on_ended(self, event: NodeEnded) -> None:
        self._ended.append(event)
        result = build_result_of_node(event)
        self._nodes.append(NodeReport(name=event.node, type=event.type, result=result))
        self._reporter.node_complete(event.node, result)

    def on_run_ended(self, event: RunEnded) -> None:
        status = status_of(event.outcome)
        spent = find_cost_without_agents(self._ended)
        self.report = RunReport(nodes=tuple(self._nodes), status=status, duration_s=event.duration_s, spent=spent)
        self._reporter.run_complete(self.report)


_HANDLERS: dict[type, Callable[[NodeReporter, Any], None]] = {
    RunStarted: NodeReporter.on_run_started,
    NodeStarted: NodeReporter.on_started,
    NodeOutput: NodeReporter.on_output,
    QuestionAsked: NodeReporter.on_asked,
    QuestionAnswered: NodeReporter.on_answered,
    NodeEnded: NodeReporter.on_ended,
    RunEnded: NodeReporter.on_run_ended,
}


def find_cost_without_agents(nodes: Iterable[NodeEnded]) -> Cost | None:
    """What a blueprint cost of which no agent was at work: nothing was paid. Else that follows from its nodes."""
    may_cost = any(each.runs or (each.type == "agent" and each.status == "failed") for each in nodes)
    return None if may_cost else sum_costs(())


def build_result_of_node(event: NodeEnded) -> NodeResult:
    """How a node ended, as reporters have it; `output` is the first of what it gave."""
    cost = event.cost
    return NodeResult(
        status=event.status,
        output=next(iter(event.outputs.values()), ""),
        error=event.error,
        duration_s=event.duration_s,
        usage=event.usage,
        cost_usd=cost.usd if cost else None,
        cost_kind=cost.kind if cost else None,
        not_paid_usd=cost.not_paid_usd if cost else None,
        calls_without_cost=cost.unknown_calls if cost else 0,
        files_changed=tuple(event.files_changed),
        files_unknown=event.files_unknown,
    )
