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


def check_decision(name: str, given: object, known: object) -> Decision:
    """What a function gave, as a decision that can be carried out; raises `BadInput` for anything else.

    `known` is the agent's own input: one that is given back as it was is no change.
    """
    if isinstance(given, bool):
        return Decision(allowed=given)
    if not isinstance(given, Decision):
        step = "Return inspan.allow(), inspan.deny(reason), True or False."
        raise BadInput(name, _show(given), "it is not a decision.", next_step=step)
    for field, kind in (("allowed", bool), ("reason", str), ("always", bool)):
        if not isinstance(value := getattr(given, field), kind):
            raise BadInput(f"{name} {field}", _show(value), f"it is not a {kind.__name__}.", next_step="Give one.")
    check_json(f"{name} reason", given.reason)
    if given.input is None or given.input == known:
        return msgspec.structs.replace(given, input=None)
    check_input(name, given.input)
    return given


def check_input(name: str, given: object) -> None:
    """Raises `BadInput` for what no tool can be given."""
    if not (isinstance(given, dict) and given):
        step = "Give a dict with the tool's own fields."
        shown = _show(cast(object, given))
        raise BadInput(f"{name} input", shown, "it is not an input of a tool.", next_step=step)
    check_json(f"{name} input", cast(dict[object, object], given))


def check_json(name: str, value: object) -> None:
    """Raises `BadInput` for what cannot be written as JSON."""
    try:
        text = msgspec.json.encode(value)
        keeps = msgspec.json.decode(text) == value
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError.
        step = "Use what JSON has, in UTF-8."
        raise BadInput(name, _show(value), f"it cannot be sent: {error!a}.", next_step=step) from error
    if not keeps:
        raise BadInput(name, _show(value), "it would not arrive as it is.", next_step="Use what JSON has.")


def _show(value: object) -> str:
    try:
        return ascii(value)
    except Exception:  # A stranger's object.
        return type(value).__name__


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
        answers = {str(name): str(value) for name, value in cast(dict[object, object], given).items()}
        check_json("on_question", answers)
        return Answer(id=asked.id, answers=answers, by="function")
    decision = check_decision("on_permission", given, asked.input)
    return Answer(
        id=asked.id,
        allowed=decision.allowed,
        reason=decision.reason,
        input=decision.input,
        always=decision.always,
        by="function",
    )
