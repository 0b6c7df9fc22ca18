"""What the nodes of a blueprint are run with: the plan, the values by now, where earlier nodes worked."""

import asyncio
from collections.abc import Callable, Mapping

from inspan.errors import BadInput
from inspan.folds.blueprint import BlueprintState
from inspan.loop.run_places import find_run_cwd
from inspan.planning.boundary import drop_place
from inspan.planning.places import open_place
from inspan.planning.settings import apply_config
from inspan.protocol.blueprint import AgentNode
from inspan.protocol.events import Event
from inspan.redaction import Gate

from .decide import End, find_round
from .graph import Graph
from .plan import BlueprintPlan
from .prepare import build_agent
from .references import PREVIOUS, fill


class NodeContext:
    """One for each node, as it begins. `ending` has a result once the blueprint is to end before its time."""

    def __init__(
        self,
        plan: BlueprintPlan,
        graph: Graph,
        *,
        record: Callable[[Event], None],
        gate: Gate,
        ending: "asyncio.Future[End]",
        values: Mapping[str, str] | None = None,
        state: BlueprintState | None = None,
    ) -> None:
        self.plan = plan
        self.graph = graph
        self.record = record
        self.gate = gate
        self.ending = ending
        self.values = values or {}
        self.state = state or BlueprintState()

    def for_node(self, values: Mapping[str, str], state: BlueprintState) -> "NodeContext":
        """With what is known when a node begins."""
        return NodeContext(
            self.plan,
            self.graph,
            record=self.record,
            gate=self.gate,
            ending=self.ending,
            values=values,
            state=state,
        )

    def fill(self, text: str, *, field: str) -> str:
        """The text with the values in their places; raises `BadInput`."""
        return fill(text, self.values, field=field)

    def find_last_run(self, node: str) -> str:
        """The last run of an agent's node, in the round that it is in; of `previous.NODE`, in the round before."""
        name = node.removeprefix(f"{PREVIOUS}.")
        round = find_round(self.graph, self.state, name)
        run = self.state.find(name, round - 1 if node != name else round)
        runs = run.ended.runs if run and run.ended else []
        return runs[-1] if runs else ""

    def open_cwd(self, node: str) -> str:
        """Where a node worked: a worktree of its own, which is made again where it was removed. Where the blueprint
        does, for no node and for one that never began and has no such worktree. Raises `InspanError`."""
        if not node:
            return self.plan.task.cwd
        if run := self.find_last_run(node):
            cwd = find_run_cwd(self.plan.state, run)
            open_place(cwd, self.plan.env)
            return cwd
        if self._has_place(node.removeprefix(f"{PREVIOUS}.")):
            step = "Let that node run, or leave `where` out."
            raise BadInput("where", node, "it has not worked anywhere, so its worktree is not there.", next_step=step)
        return self.plan.task.cwd

    def _has_place(self, name: str) -> bool:
        """Whether an agent's node would work in a worktree: of its own, or of the one whose place it takes."""
        node = self.graph.blueprint.nodes.get(name)
        if not isinstance(node, AgentNode):
            return False
        task, _, said = build_agent(name, self.graph, self.plan.task, self.plan.explicit, env=self.plan.env)
        sandbox = apply_config(task, explicit=said, env=self.plan.env).task.sandbox
        other = (node.where or node.resume).removeprefix(f"{PREVIOUS}.")
        return sandbox != drop_place(sandbox) or (bool(other) and other != name and self._has_place(other))
