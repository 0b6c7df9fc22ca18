"""Functions of the caller's that have a say while the agent works: before a tool, after it, and at the end of a turn.

Some channels call them in the agent's own words. For the others inspan stands in: what the agent asks is put to
`before_tool` first, and what the functions want to say follows the turn.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from inspan.contracts.driver import SessionSupport
from inspan.protocol.commands import ACCEPTED, AnswerHook, Reply, refuse
from inspan.protocol.events import (
    ErrorReported,
    Event,
    HookAnswered,
    HookCalled,
    PermissionAsked,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from inspan.protocol.session import HookName
from inspan.protocol.task import Task

Record = Callable[[Sequence[Event]], None]
Deliver = Callable[[HookCalled, AnswerHook], None]


class Hooks:
    """The calls that are open. `deliver` takes each answer to where it belongs, once; `on_waiting` hears when the first
    call opens and when the last one closes."""

    def __init__(
        self,
        task: Task,
        support: SessionSupport,
        *,
        record: Record,
        deliver: Deliver,
        on_waiting: Callable[[bool], None],
    ) -> None:
        self._wanted = task.hooks
        self._own = support.hooks
        self._timeout_s = task.limits.hook_timeout_s
        self._record = record
        self._deliver = deliver
        self._on_waiting = on_waiting
        self._count = 0
        self._inputs: dict[str, object] = {}
        self._open: dict[str, tuple[HookCalled, asyncio.TimerHandle | None]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a function is still waited for."""
        return bool(self._open)

    def adopt(self, support: SessionSupport) -> None:
        """Another channel calls other hooks itself."""
        self._own = support.hooks

    def stands_in(self, hook: HookName) -> bool:
        """Whether this one is wanted, and the channel does not call it itself."""
        return hook in self._wanted and hook not in self._own

    def build_before(self, asked: PermissionAsked) -> HookCalled:
        """The call for something that the agent asked about."""
        return self._build("before_tool", tool=asked.tool, tool_id=asked.id, input=asked.input)

    def call_on_stop(self, words: str, *, continued: int) -> None:
        """Asks whether the agent is done."""
        self._record([self._build("on_stop", output=words, continued=continued)])

    def observe(self, event: Event) -> None:
        """Takes in what has happened, after it was recorded."""
        if isinstance(event, HookCalled):
            self._start(event)
        elif self.stands_in("after_tool"):
            self._observe_tool(event)

    def find(self, identity: str) -> HookCalled | None:
        """The call of this id, if it is open."""
        return self._open[identity][0] if identity in self._open else None

    def answer(self, given: AnswerHook) -> Reply:
        """Takes the first answer to an open call."""
        if given.id not in self._open:
            return refuse(f"no hook {given.id} is open")
        self._close(given, by="function")
        return ACCEPTED

    def cancel(self, reason: str) -> None:
        """Nobody waits any more; a tool that was to be let through is not."""
        for identity in list(self._open):
            self._close(AnswerHook(id=identity, allowed=False, reason=reason), by="inspan")

    def _observe_tool(self, event: Event) -> None:
        if isinstance(event, ToolStarted):
            self._inputs[event.id] = event.input
        elif isinstance(event, ToolCompleted | ToolFailed):
            given = self._inputs.pop(event.id, None)
            failed = isinstance(event, ToolFailed)
            called = self._build(
                "after_tool", tool=event.name, tool_id=event.id, input=given, output=event.output, failed=failed
            )
            self._record([called])

    def _build(self, hook: HookName, **fields: Any) -> HookCalled:
        self._count += 1
        return HookCalled(id=f"hook-{self._count}", hook=hook, **fields)

    def _start(self, called: HookCalled) -> None:
        if not self._open:
            self._on_waiting(True)
        timer = None
        if self._timeout_s is not None:
            timer = asyncio.get_running_loop().call_later(self._timeout_s, self._give_up, called)
        self._open[called.id] = (called, timer)

    def _give_up(self, called: HookCalled) -> None:
        sentence = f"the hook {called.hook} did not answer within {self._timeout_s:g} s"
        self._close(AnswerHook(id=called.id, allowed=False, reason=sentence, error=sentence), by="inspan")

    def _close(self, given: AnswerHook, *, by: str) -> None:
        called, timer = self._open.pop(given.id)
        if timer:
            timer.cancel()
        is_tool = called.hook == "before_tool"
        told = HookAnswered(
            id=called.id,
            hook=called.hook,
            allowed=given.allowed or not is_tool,
            reason=given.reason,
            input=given.input if is_tool else None,
            text="" if is_tool else given.text,
            by=by,
        )
        problems = [ErrorReported(message=given.error)] if given.error and not is_tool else []
        try:
            self._record([*problems, told])
            self._deliver(called, given)
        finally:
            if not self._open:
                self._on_waiting(False)
