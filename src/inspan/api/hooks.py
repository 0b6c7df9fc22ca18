"""Functions by which a program has a say while its agent works: what they are given, and what they may give back."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from inspan.contracts.permissions import subject_of
from inspan.errors import BadInput
from inspan.protocol.commands import AnswerHook
from inspan.protocol.events import HookCalled

from .permissions import Decision, check_decision, check_json


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the agent is about to use, or has used: then with what it gave, and whether it failed."""

    id: str
    tool: str
    input: dict[str, Any]
    output: str = ""
    failed: bool = False
    run_id: str = ""

    @property
    def subject(self) -> str:
        """The command or the path in the input; else all of it, as text."""
        return subject_of(self.input)


class FinishedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The agent takes itself to be done: its last words, and how often it was sent on already in this message."""

    message: str
    continued: int = 0
    run_id: str = ""


BeforeTool = Callable[[ToolCall], Decision | bool | Awaitable[Decision | bool | None] | None]
AfterTool = Callable[[ToolCall], str | Awaitable[str | None] | None]
OnStop = Callable[[FinishedTurn], str | Awaitable[str | None] | None]
Hook = BeforeTool | AfterTool | OnStop


def build_hook_argument(called: HookCalled, run_id: str) -> ToolCall | FinishedTurn:
    """What the function of a hook is given."""
    if called.hook == "on_stop":
        return FinishedTurn(message=called.output, continued=called.continued, run_id=run_id)
    known: object = called.input
    given = cast(dict[str, Any], known) if isinstance(known, dict) else {} if known is None else {"input": known}
    return ToolCall(
        id=called.tool_id,
        tool=called.tool,
        input=given,
        output=called.output,
        failed=called.failed,
        run_id=run_id,
    )


def build_hook_answer(called: HookCalled, given: object) -> AnswerHook:
    """What a function gave, as the answer to its hook; raises `BadInput` for what is none."""
    if given is None:
        return AnswerHook(id=called.id)
    if called.hook != "before_tool":
        if not isinstance(given, str):
            step = "Return a text that the agent is told, or None."
            raise BadInput(called.hook, type(given).__name__, "it is not text.", next_step=step)
        check_json(called.hook, given)
        return AnswerHook(id=called.id, text=given)
    decision = check_decision(called.hook, given, called.input)
    return AnswerHook(id=called.id, allowed=decision.allowed, reason=decision.reason, input=decision.input)


def build_hook_failure(called: HookCalled, words: str) -> AnswerHook:
    """The answer of a function that gave none: a tool is not used then."""
    return AnswerHook(id=called.id, allowed=False, reason=words, error=words)
