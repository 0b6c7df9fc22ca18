"""A reporter is told how a run goes: which node started, what it put out, how it ended, what all of it came to."""

from typing import Literal, Protocol

import msgspec

from inspan.protocol.cost import Cost, CostKind, build_cost, sum_costs
from inspan.protocol.outcome import Outcome, Reason, Status
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage

NodeStatus = Literal["success", "failed", "skipped"]


class NodeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one node ended. `None` for `usage` or `cost_usd` means that nobody reported it, and never 0.

    A node that is an agent's run has the `outcome` and the `reason` of the run too. `cost_kind` tells apart what was
    paid, what was not, and what nobody knows; where it is left out, that follows from `cost_usd`. `cost_note` says the
    same in words, or what else must be known to read the cost.
    """

    status: NodeStatus
    output: str = ""
    error: str = ""
    duration_s: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_note: str = ""
    cost_kind: CostKind | None = None
    not_paid_usd: float | None = None
    calls_without_cost: int = 0
    session_id: str = ""
    outcome: Outcome | None = None
    reason: Reason | None = None
    files_changed: tuple[str, ...] = ()
    next_step: str = ""
    files_unknown: bool = False

    @property
    def cost(self) -> Cost | None:
        """The cost as one value; `None` for a node that has none to tell, such as a command."""
        if self.cost_kind == "not_paid":
            return Cost(kind="not_paid", not_paid_usd=self.not_paid_usd)
        if self.cost_usd is None and self.usage is None and self.outcome is None:
            return None
        nano = None if self.cost_usd is None else round(self.cost_usd * NANO_PER_USD)
        missing = self.calls_without_cost
        return build_cost(nano, unknown_calls=missing, unknown_runs=int(nano is None and not missing))


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is called, what it is (`agent`, `command`, `check`, …) and how it ended."""

    name: str
    type: str
    result: NodeResult


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of one or more nodes came to; `nodes` are in the order in which they ended.

    `status` is for who ran them to say: a failed node that was repaired later fails no run. So is `spent`, where it
    does not follow from the nodes.
    """

    nodes: tuple[NodeReport, ...]
    status: Status
    duration_s: float
    spent: Cost | None = None

    @property
    def usage(self) -> Usage | None:
        """The tokens of all nodes that reported any."""
        told = [node.result.usage for node in self.nodes if node.result.usage is not None]
        return sum(told, Usage()) if told else None

    @property
    def cost_usd(self) -> float | None:
        """What was paid for all nodes that reported it; `unpriced` names those that should have."""
        told = [node.result.cost_usd for node in self.nodes if node.result.cost_usd is not None]
        return sum(told) if told else None

    @property
    def cost(self) -> Cost:
        """The same as one value, with what was not paid beside it."""
        told = [cost for node in self.nodes if (cost := node.result.cost)]
        return sum_costs(told) if told else self.spent or Cost(kind="unknown")

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The nodes that used tokens, did not report what these cost, and were not free."""
        results = ((node.name, node.result) for node in self.nodes if node.result.cost_kind != "not_paid")
        return tuple(name for name, result in results if result.usage is not None and result.cost_usd is None)


class Reporter(Protocol):
    """Whoever wants to tell people, or programs, about a run. Called in order, from one thread, and must return soon.

    For each node: `node_start`, any number of `node_output`, `node_complete`; nodes may run side by side, and a node
    that is skipped has a `node_complete` alone. `run_complete` comes last and once. A chunk is text, not a line: a
    word or a secret may be split over two of them. What is raised ends the reporting and never the run.
    """

    def node_start(self, name: str, type: str, /) -> None:
        """A node has begun."""
        ...

    def node_output(self, name: str, chunk: str, /) -> None:
        """A node has put something out, as it is: nothing is redacted or shortened for the reporter."""
        ...

    def node_complete(self, name: str, result: NodeResult, /) -> None:
        """A node has ended, or was skipped."""
        ...

    def run_complete(self, report: RunReport, /) -> None:
        """All nodes have ended."""
        ...
