"""A program that does not take the channel that was chosen, as after an upgrade: what tells it, and the next one.

Loaded only where a run has another channel to try. Once the agent has said or done anything, or a model was called,
a failure is the run's and no channel's.
"""

import os
from collections import deque
from collections.abc import Sequence

import msgspec

from inspan.agents.presets import driver_for_task
from inspan.agents.select import narrow_driver
from inspan.contracts.driver import Driver
from inspan.protocol.events import (
    AnswerGiven,
    Event,
    ModelCallEnded,
    PermissionAsked,
    QuestionAsked,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)
from inspan.protocol.outcome import Reason
from inspan.protocol.plan import Alternative, Plan
from inspan.redaction import Gate, SecretSet
from inspan.stores.paths import make_private_folder
from inspan.stores.run_folder import open_folder, read_json, write_bytes, write_json
from inspan.transports.process import Spawned

from .spawn_agent import spawn_agent
from .verdict import Verdict

_SIGNS_OF_WORK = (
    AnswerGiven,
    ModelCallEnded,
    PermissionAsked,
    QuestionAsked,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ToolStarted,
    TurnCompleted,
    TurnInterrupted,
)
# What a channel can be to blame for. A login, a model or a limit is the same by the next one.
_REASONS: tuple[Reason, ...] = ("crashed", "environment", "invalid_response", "unknown")


class Handshake:
    """Hears every event until the agent works. `problem` is why the channel failed, `first` why the first did.

    `reason` has the words of the one that was tried last.
    """

    def __init__(self, alternatives: Sequence[Alternative]) -> None:
        self._left = deque(alternatives)
        self.is_over = False
        self.problem: Verdict | None = None
        self.first: Verdict | None = None
        self.reason = ""

    def filter_events(self, events: Sequence[Event], *, has_calls: bool) -> list[Event]:
        """What is to be recorded: a turn that failed for the channel's sake has not been one."""
        kept: list[Event] = []
        for event in events:
            self.is_over = self.is_over or has_calls or isinstance(event, _SIGNS_OF_WORK)
            if not self.is_over and isinstance(event, TurnFailed) and event.failure in _REASONS:
                self.problem = Verdict(reason=event.failure, message=event.message)
            else:
                kept.append(event)
        return kept

    def blame(self, verdict: Verdict) -> bool:
        """Whether the end of the process is the channel's fault."""
        if not self.problem and verdict.reason in _REASONS:
            self.problem = verdict
        return self.problem is not None

    def take_next(self) -> Alternative | None:
        """The next channel to try; the problem of the last is kept where it was the first."""
        self.first = self.first or self.problem
        self.reason = self.problem.message if self.problem else self.reason
        self.problem = None
        return self._left.popleft() if self._left else None


def adopt_channel(plan: Plan, alternative: Alternative) -> tuple[Plan, Driver, Spawned]:
    """Starts the agent by this channel; gives the plan and the driver as they are from now on. Raises `OSError`."""
    for path, content in alternative.files.items():
        make_private_folder(os.path.dirname(path))
        write_bytes(path, content)
    spawned = spawn_agent(alternative.process)
    agent = msgspec.structs.replace(plan.agent, channel=alternative.channel, version=alternative.version)
    whole = driver_for_task(plan.task, agent=agent.name)
    driver = narrow_driver(whole, channel=agent.channel, provider=agent.provider)
    return msgspec.structs.replace(plan, agent=agent, process=alternative.process), driver, spawned


def rename_output(plan: Plan) -> None:
    """Puts aside what the agent wrote by the channel that failed: what a run's output files hold is one language."""
    for name in ("stdout", "stderr"):
        path = os.path.join(plan.folder, name)
        if os.path.exists(path):
            os.rename(path, f"{path}.{plan.agent.channel}")


def update_description(plan: Plan) -> None:
    """Writes into the run's description by which channel its output is to be read."""
    path = open_folder(plan.folder).file("run.json")
    described = {**read_json(path), "channel": plan.agent.channel, "argv": plan.process.argv}
    write_json(path, Gate(SecretSet.get_shared(plan.secrets)).redact_json(described))
