"""What a program says when its agent asks: allowed, allowed otherwise, or denied."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from inspan.contracts.permissions import subject_of
from inspan.errors import BadInput
from inspan.protocol.commands import Answer
from inspan.protocol.events import PermissionAsked, Question, QuestionAsked


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent wants to do: the tool, and its exact input. `reason` is the agent's own, where it gives one."""

    id: str
    tool: str
    input: dict[str, Any]
    reason: str = ""
    run_id: str = ""

    @property
    def subject(self) -> str:
        """The command or the path in the input; else all of it, as text."""
        return subject_of(self.input)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `allow` and `deny`."""

    allowed: bool
    reason: str = ""
    input: dict[str, Any] | None = None
    always: bool = False


def allow(*, input: dict[str, Any] | None = None, always: bool = False) -> Decision:
    """Yes; with another input where the agent is to do something else, for good in this project with `always`."""
    return Decision(allowed=True, input=input, always=always)


def deny(reason: str = "") -> Decision:
    """No; the agent hears the reason and goes on without it."""
    return Decision(allowed=False, reason=reason)


OnPermission = Callable[[PermissionRequest], Decision | bool | Awaitable[Decision | bool]]
OnQuestion = Callable[[list[Question]], dict[str, str] | Awaitable[dict[str, str]]]


def build_request(asked: PermissionAsked, run_id: str) -> PermissionRequest:
    """The request as a function gets it."""
    known: object = asked.input
    given = cast(dict[str, Any], known) if isinstance(known, dict) else {"input": known}
    return PermissionRequest(id=asked.id, tool=asked.tool, input=given, reason=asked.reason, run_id=run_id)


def build_answer(asked: PermissionAsked | QuestionAsked, given: object) -> Answer:
    """What a function gave, as the answer to its question; raises `BadInput` for what is none."""
    if isinstance(asked, QuestionAsked):
        if not isinstance(given, dict):
            step = "Give a dict from each question's text to its answer."
            raise BadInput("on_question", given, "it is not a dict of answers.", next_step=step)
        answers = cast(dict[object, object], given)
        return Answer(id=asked.id, answers={str(name): str(value) for name, value in answers.items()}, by="function")
    if isinstance(given, bool):
        given = Decision(allowed=given)
    if not isinstance(given, Decision):
        step = "Return inspan.allow(), inspan.deny(reason), True or False."
        raise BadInput("on_permission", given, "it is not a decision.", next_step=step)
    return Answer(
        id=asked.id,
        allowed=given.allowed,
        reason=given.reason,
        input=given.input,
        always=given.always,
        by="function",
    )
