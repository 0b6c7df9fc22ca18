"""A reporter is told how a run goes: which node started, what it put out, how it ended, what all of it came to."""

from typing import Literal, Protocol

import msgspec

from inspan.protocol.outcome import Outcome, Reason, Status
from inspan.protocol.usage import Usage

NodeStatus = Literal["success", "failed", "skipped"]


class NodeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one node ended. `None` for `usage` or `cost_usd` means that nobody reported it, and never 0.

    A node that is an agent's run has the `outcome` and the `reason` of the run too. `cost_note` says what must be
    known to read the cost, such as that nothing was paid.
    """

    status: NodeStatus
    output: str = ""
    error: str = ""
    duration_s: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    cost_note: str = ""
    session_id: str = ""
    outcome: Outcome | None = None
    reason: Reason | None = None
    files_changed: tuple[str, ...] = ()
    next_step: str = ""


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is called, what it is (`agent`, `command`, `check`, …) and how it ended."""

    name: str
    type: str
    result: NodeResult


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of one or more nodes came to; `nodes` are in the order in which they ended.

    `status` is for who ran them to say: a failed node that was repaired later fails no run.
    """

    nodes: tuple[NodeReport, ...]
    status: Status
    duration_s: float

    @property
    def usage(self) -> Usage | None:
        """The tokens of all nodes that reported any."""
        told = [node.result.usage for node in self.nodes if node.result.usage is not None]
        return sum(told, Usage()) if told else None

    @property
    def cost_usd(self) -> float | None:
        """The cost of all nodes that reported one; `unpriced` names those that should have."""
        told = [node.result.cost_usd for node in self.nodes if node.result.cost_usd is not None]
        return sum(told) if told else None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The nodes that used tokens and did not report what these cost."""
        results = ((node.name, node.result) for node in self.nodes)
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
