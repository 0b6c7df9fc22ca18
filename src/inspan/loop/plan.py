"""A loop decided: whose task, by which rules, from which environment. It is passed on in memory, never stored whole."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inspan import __version__
from inspan.protocol.budget import format_budget
from inspan.protocol.events import RunStarted
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA

from .prompts import build_verifier_prompt


class LoopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`task` is as it was asked for: the settings complete it for each agent when it is its turn, but for what is
    `explicit` in it. `env` is that of whoever started the loop. `secrets` are kept out of its log.
    """

    run_id: str
    created_at: float
    folder: str
    state: str
    project: str
    task: Task
    explicit: dict[str, Any]
    policy: LoopPolicy
    env: dict[str, str]
    secrets: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def build_task(self, agent: str, *, attempt: int) -> Task:
        """The task for one of its agents; in the name of a script or a cassette, each may have its own."""
        task = msgspec.structs.replace(self.task, name="", parent=self.run_id, continues="")
        return build_agent_task(task, agent, attempt=attempt)

    def build_verifier_task(self, *, attempt: int) -> Task:
        """The task for the agent that verifies."""
        return build_verifier_task(self.build_task(self.policy.verify, attempt=attempt), self.policy)

    @property
    def started(self) -> RunStarted:
        """The first event of the loop's log."""
        return RunStarted(
            schema=SCHEMA,
            run_id=self.run_id,
            agent=self.task.agent,
            mode=self.task.mode,
            project=self.project,
            task=self.task.task,
            cwd=self.task.cwd,
            model=self.task.model,
            profile=self.task.profile,
            sandbox=self.task.sandbox,
            containment="",
            model_from=self.task.model_from,
            budgets={node: format_budget(budget) for node, budget in self.task.budgets.items()},
            timeout_s=self.policy.time_limit_s,
            name=self.task.name,
            work="loop",
            continues=self.task.continues,
            warnings=list(self.warnings),
            inspan=__version__,
        )


def build_agent_task(task: Task, agent: str, *, attempt: int = 1) -> Task:
    """The task for an agent: `{agent}` and `{attempt}` in the file of a script or a cassette stand for these."""
    model_from = task.model_from.replace("{agent}", agent).replace("{attempt}", str(attempt))
    return msgspec.structs.replace(task, agent=agent, model_from=model_from)


def build_verifier_task(task: Task, policy: LoopPolicy) -> Task:
    """The task for the agent that verifies, which looks at the work in a session of its own, and changes nothing."""
    return msgspec.structs.replace(
        task,
        prompt=build_verifier_prompt(task.prompt, policy),
        mode="review",
        model="",
        resume="",
        allowed_tools=None,
        disallowed_tools=(),
        output_schema=None,
    )


def explain_verifier(explicit: Mapping[str, Any]) -> dict[str, Any]:
    """What is explicit in that task: whatever the mode of the loop, and of the configuration, this one only looks."""
    return {**explicit, "mode": "review"}
