"""A chat-shaped door to any agent: a list of messages in, one text out."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from inspan.engine.answers import REPAIRS
from inspan.errors import BadInput, InvalidResponseError
from inspan.protocol.usage import Usage

from .options import Options, check_names
from .result import Result, together
from .runner import Runner, check_repairs

_HEADS = {"user": "### USER", "assistant": "### ASSISTANT"}


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The text, what it cost, and the result behind it."""

    text: str
    tokens: Usage
    result: Result


class CompletionClient:
    """Asks a runner for completions. It keeps no conversation: each call gives all of it."""

    def __init__(self, runner: Runner, **defaults: Unpack[Options]) -> None:
        check_names(defaults)
        self._runner = runner
        self._defaults = defaults

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        system: str = "",
        output_schema: dict[str, Any] | None = None,
        check: Callable[[str], str] | None = None,
        repairs: int = REPAIRS,
        **options: Unpack[Options],
    ) -> Completion:
        """The answer to the conversation; raises an `AgentFailed` when there is none that can be used.

        `check` looks at a text and gives what is wrong with it, or nothing: the text and that sentence are then fed
        back. What does not fit its schema is asked for again too; both together at most `repairs` times.
        """
        check_repairs(repairs)
        given: Options = {**self._defaults, **options}
        if system:
            given["append_system_prompt"] = system
        said, left, result = list(messages), repairs, None
        while True:
            asked = await self._runner.complete(flatten(said), output_schema=output_schema, repairs=left, **given)
            result = (together(result, asked) if result else asked).check()
            problem = check(result.message) if check else ""
            if not problem:
                return Completion(text=result.message, tokens=result.tokens, result=result)
            left = repairs - len(result.attempts)
            if left < 0:
                raise _unfit(result, problem)
            said += [Message(role="assistant", content=result.message), Message(role="user", content=problem)]


def flatten(messages: Sequence[Message]) -> str:
    """A conversation as one prompt, each message under its head; raises `BadInput` for what is no message."""
    return "\n\n".join(map(_flat, messages))


def _flat(message: Message) -> str:
    try:
        said = msgspec.convert(message, Message)
    except msgspec.ValidationError as error:
        step = "Give each a role (user or assistant) and a content; what the system should say goes into `system`."
        raise BadInput("messages", message, f"{error}.".replace("`", ""), next_step=step) from error
    return f"{_HEADS[said['role']]}\n{said['content']}"


def _unfit(result: Result, problem: str) -> InvalidResponseError:
    return InvalidResponseError(
        f"The answer did not pass its check: {problem}",
        reason="unfit_answer",
        run_id=result.run_id,
        next_step="Make the prompt clearer, or allow more repairs.",
        tried=f"{len(result.attempts)} runs by {result.agent}, the last one {result.run_id}",
        came_back=result.message,
    )
