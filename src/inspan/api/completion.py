"""A chat-shaped door to any agent: a list of messages in, one text out."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

import msgspec

from inspan.errors import BadInput, InvalidResponseError
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage
from inspan.running.answers import MAX_REPAIRS

from .options import Options, check_function, check_names
from .result import AgentResult, merge_results
from .runner import AgentRunner, check_repairs

_MESSAGES = "Give each a role (user or assistant) and a content; what the system should say goes into `system`."
_HEADS = {"user": "### USER", "assistant": "### ASSISTANT"}


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The text, what it cost, and the result behind it."""

    text: str
    tokens_used: Usage
    result: AgentResult


def wrap_agent_as_completion_client(runner: AgentRunner, **defaults: Unpack[Options]) -> "CompletionClient":
    """A client for completions by any agent; `defaults` are options for every call."""
    return CompletionClient(runner, **defaults)


class CompletionClient:
    """Asks a runner for completions. It keeps no conversation: each call gives all of it."""

    def __init__(self, runner: AgentRunner, **defaults: Unpack[Options]) -> None:
        check_names(defaults)
        if not callable(getattr(cast(object, runner), "complete", None)):
            raise BadInput(
                "runner", runner, "it is not a runner.", next_step="Make one with inspan.create_agent_runner(…)."
            )
        self._runner = runner
        self._defaults = defaults

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        system: str = "",
        output_schema: dict[str, Any] | None = None,
        check: Callable[[str], str] | None = None,
        repairs: int = MAX_REPAIRS,
        **options: Unpack[Options],
    ) -> Completion:
        """The answer to the conversation; raises an `AgentFailed` when there is none that can be used.

        `check` looks at a text and gives what is wrong with it, or nothing: the text and that sentence are then fed
        back. What does not fit its schema is asked for again too; both together at most `repairs` times.
        """
        check_repairs(repairs)
        if check is not None:
            check_function("check", check)
            if inspect.iscoroutinefunction(check):
                step = "Give a plain function; what it has to await, do before or after the call."
                raise BadInput("check", check, "it is a coroutine function.", next_step=step)
        given: Options = {**self._defaults, **options}
        if system:
            given["append_system_prompt"] = system
        if not isinstance(cast(object, messages), Sequence):
            raise BadInput("messages", messages, "it is not a list.", next_step=_MESSAGES)
        said, left, result = list(messages), repairs, None
        while True:
            asked = await self._runner.complete(flatten(said), output_schema=output_schema, repairs=left, **given)
            result = (merge_results(result, asked) if result else asked).check()
            problem = _check_text(check, result.message) if check else ""
            if not problem:
                return Completion(text=result.message, tokens_used=result.tokens_used, result=result)
            left = repairs - len(result.attempts)
            if left < 0:
                raise _invalid_response_error(result, problem)
            said += [Message(role="assistant", content=result.message), Message(role="user", content=problem)]


def flatten(messages: Sequence[Message]) -> str:
    """A conversation as one prompt, each message under its head; raises `BadInput` for what is no message."""
    return "\n\n".join(map(_format_message, messages))


def _check_text(check: Callable[[str], str], text: str) -> str:
    problem = cast(object, check(text))
    if problem is None or isinstance(problem, str):
        return problem or ""
    step = "Return what is wrong with the text, or nothing."
    raise BadInput("check", check, f"it returned {problem!r}, which is not text.", next_step=step)


def _format_message(message: Message) -> str:
    try:
        said = msgspec.convert(message, know_type(Message))
    except msgspec.ValidationError as error:
        raise BadInput("messages", message, f"{error}.".replace("`", ""), next_step=_MESSAGES) from error
    return f"{_HEADS[said['role']]}\n{said['content']}"


def _invalid_response_error(result: AgentResult, problem: str) -> InvalidResponseError:
    return InvalidResponseError(
        f"The answer did not pass its check: {problem}",
        reason="unfit_answer",
        run_id=result.run_id,
        next_step="Make the prompt clearer, or allow more repairs.",
        tried=f"{len(result.attempts)} runs by {result.agent}, the last one {result.run_id}",
        came_back=result.message,
    )
