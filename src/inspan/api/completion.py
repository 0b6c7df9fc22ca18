"""A chat-shaped door to any agent: a list of messages in, one text out."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from inspan.engine.answers import REPAIRS
from inspan.protocol.usage import Usage

from .result import Result, together
from .runner import Options, Runner

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
        """The answer to the conversation; raises an `AgentFailed` when there is none.

        `check` looks at a text and gives what is wrong with it, or nothing: the text and that sentence are then fed
        back, at most `repairs` times. The last text is given back as it is.
        """
        given: Options = {**self._defaults, **options}
        if system:
            given["append_system_prompt"] = system
        said = list(messages)
        result: Result | None = None
        for _ in range(repairs + 1):
            asked = await self._runner.complete(flatten(said), output_schema=output_schema, repairs=repairs, **given)
            result = together(result, asked) if result else asked
            result.check()
            problem = check(result.message) if check else ""
            if not problem:
                break
            said += [Message(role="assistant", content=result.message), Message(role="user", content=problem)]
        assert result is not None
        return Completion(text=result.message, tokens=result.tokens, result=result)


def flatten(messages: Sequence[Message]) -> str:
    """A conversation as one prompt, each message under its head."""
    return "\n\n".join(f"{_HEADS[message['role']]}\n{message['content']}" for message in messages)
