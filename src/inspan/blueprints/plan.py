"""A blueprint decided: whose task, which graph, from which environment. Passed on in memory, never stored whole."""

from typing import Any

import msgspec

from inspan import __version__
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.budget import format_budget
from inspan.protocol.events import RunStarted
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA

from .graph import Graph, build_graph, read_duration


class BlueprintPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`task` is what all agents have in common; a node says what is its own. `explicit` and `env` are as for a loop.
    At most `jobs` nodes run at a time."""

    run_id: str
    created_at: float
    folder: str
    state: str
    project: str
    task: Task
    explicit: dict[str, Any]
    blueprint: Blueprint
    inputs: dict[str, str]
    jobs: int
    env: dict[str, str]
    secrets: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def build_graph(self) -> Graph:
        """The graph with the inputs in their places."""
        return build_graph(self.blueprint, self.inputs)

    @property
    def time_limit_s(self) -> float | None:
        """The longest that all of it may take."""
        return read_duration(self.blueprint.timeout, field="timeout")

    @property
    def started(self) -> RunStarted:
        """The first event of the blueprint's log."""
        return RunStarted(
            schema=SCHEMA,
            run_id=self.run_id,
            agent=self.blueprint.name,
            mode=self.task.mode,
            project=self.project,
            task=self.task.task,
            cwd=self.task.cwd,
            profile=self.task.profile,
            sandbox=self.task.sandbox,
            containment="",
            model_from=self.task.model_from,
            budgets={node: format_budget(budget) for node, budget in self.task.budgets.items()},
            timeout_s=self.time_limit_s,
            name=self.task.name,
            work="blueprint",
            continues=self.task.continues,
            warnings=list(self.warnings),
            inspan=__version__,
        )
