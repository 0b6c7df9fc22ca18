"""The values of Pi's stream and of its session files, and what each of them tells: both hold the same messages."""

import os.path
import re
from typing import Any

import msgspec

from inspan.contracts.driver import Failure, match_failure
from inspan.dialects.json_values import as_object, get_text
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    ReasoningSaid,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    TurnCompleted,
    TurnFailed,
    Unrecognized,
)
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage
from inspan.protocol.wire import DECODE_ERRORS

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"no session found|session found in different project"),
    Failure("context_too_long", r"too (long|large)|context.?(length|window)|maximum context|too many (input )?tokens"),
    Failure(
        "authentication", r"no api key|invalid.api.key|authentication|unauthenticated|unauthorized|permission.error"
    ),
    Failure("model_not_found", r"model .*(not found|not exist)|model_not_found|no models? available"),
    Failure("rate_limit", r"rate.limit|usage limit|quota|resource_exhausted"),
    Failure("overloaded", r"overloaded|internal server error|server_error|unavailable"),
    Failure("refused", r"model refused|refusal|content.?filter"),
    Failure("invalid_response", r"stream ended|incomplete json|unexpected (token|end)|invalid json"),
    Failure("network", r"terminated|fetch failed|connection|socket|econn|enotfound|timed? ?out|network"),
    Failure("environment", r"failed to load extension|does not go through the gateway|eacces|enoent|enospc"),
)
# By provider, in 1.5.0: `401 {…}`, `401: {…}`, `OpenAI API error (401): {…}` and `{"error":{"code":401,…}}`.
_STATUS = re.compile(r'^(?:[\w ]{0,40}error \()?(\d{3})\b|^\{"error":\{"code":(\d{3}),')
_EXIT_CODE = re.compile(r"(?:^|\n)Command exited with code (\d+)$")
_NOT_ALLOWED = "Not allowed in this run: "


class Cost(msgspec.Struct):
    """What a call has cost, in dollars."""

    total: float = 0.0


class Tokens(msgspec.Struct, rename="camel"):
    """What a call has used, counted as we do."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: Cost | None = None


class Block(msgspec.Struct, rename="camel"):
    """A part of a message: text, thinking, a call of a tool or an image."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None


class Details(msgspec.Struct):
    """What tools tell beside their text; `added` is told by our own extension."""

    added: bool = False


class Result(msgspec.Struct):
    """What a tool gave back."""

    content: str | list[Block] | None = None
    details: msgspec.Raw = msgspec.Raw()
    usage: Tokens | None = None


class Message(msgspec.Struct, rename="camel"):
    """A message of the conversation; those of the role `toolResult` are results as well."""

    role: str = ""
    content: str | list[Block] | None = None
    usage: Tokens | None = None
    stop_reason: str = ""
    error_message: str | None = None
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False
    details: msgspec.Raw = msgspec.Raw()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that is under way."""

    id: str
    name: str
    input: Any = None


class TurnUsage:
    """Tokens and cost of one turn: a turn of ours is a prompt with all that Pi does about it."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._cost_usd = 0.0

    def add(self, tokens: Tokens | None) -> None:
        """One more call of the model, where it tells what it has used."""
        if tokens is None:
            return
        self.usage += Usage(
            input=tokens.input,
            output=tokens.output,
            cache_read=tokens.cache_read,
            cache_write=tokens.cache_write,
            reasoning=tokens.reasoning,
        )
        self._cost_usd += tokens.cost.total if tokens.cost else 0.0

    @property
    def cost_usd(self) -> float | None:
        """By the prices in its catalog; a model that is not in it costs nothing there, which says nothing."""
        return round(self._cost_usd, 9) or None


def message_events(message: Message) -> list[Event]:
    """What the assistant says and shows of its thinking; its calls of tools are told when they start."""
    blocks = [Block(type="text", text=message.content)] if isinstance(message.content, str) else message.content or []
    cut = [ErrorReported(message="the answer was cut off: it is as long as the model's answers may be")]
    return [
        *(event for block in blocks for event in _block_events(block)),
        *(cut if message.stop_reason == "length" else ()),
    ]


def _block_events(block: Block) -> list[Event]:
    if block.type == "text":
        return [TextSaid(text=block.text)] if block.text else []
    if block.type == "thinking":
        return [ReasoningSaid(text=block.thinking)] if block.thinking else []
    if block.type == "toolCall":
        return []
    return [Unrecognized(raw=msgspec.json.encode(block).decode(), note=f"block {block.type!r}")]


def tool_end_events(call: Call, result: Result | Message, *, is_error: bool, cwd: str) -> list[Event]:
    """The end of a call, with the command that ran or the file that changed by it."""
    output = content_text(result.content)
    events: list[Event] = []
    if is_error:
        denied = output == f"Tool {call.name} not found" or output.startswith(_NOT_ALLOWED)
        events.append(ToolFailed(id=call.id, name=call.name, output=output, denied=denied))
        if denied:
            return events
    else:
        events.append(ToolCompleted(id=call.id, name=call.name, output=output))
    if call.name == "bash":
        code = _EXIT_CODE.search(output) if is_error else None
        exit_code = int(code[1]) if code else None if is_error else 0
        events.append(
            CommandExecuted(id=call.id, command=get_text(as_object(call.input), "command"), exit_code=exit_code)
        )
    elif call.name in ("write", "edit") and not is_error:
        path = os.path.normpath(os.path.join(cwd, get_text(as_object(call.input), "path")))
        events.append(FileChanged(path=path, change="added" if _is_new(result.details) else "modified", id=call.id))
    return events


def turn_end_event(last: Message | None, spent: TurnUsage) -> TurnCompleted | TurnFailed:
    """How a turn ended, by its last message of the assistant: Pi's exit code is 0 either way (1.5.0)."""
    if last is None or last.stop_reason not in ("error", "aborted"):
        return TurnCompleted(usage=spent.usage, cost_usd=spent.cost_usd)
    words = last.error_message or f"the request was {last.stop_reason}"
    status = _parse_status(words)
    return TurnFailed(
        failure=failure_of_status(status) or match_failure(FAILURES, words) or "unknown",
        message=extract_message(words),
        status=status,
        usage=spent.usage,
        cost_usd=spent.cost_usd,
    )


def _parse_status(words: str) -> int | None:
    match = _STATUS.search(words)
    return int(match[1] or match[2]) if match else None


class _Problem(msgspec.Struct):
    message: str = ""


class _Answer(msgspec.Struct):
    error: _Problem | None = None
    message: str = ""


def extract_message(words: str) -> str:
    """The provider's sentence out of the JSON in a message of Pi's, where there is one."""
    _, brace, rest = words.partition("{")
    try:
        answer = msgspec.json.decode(brace + rest, type=know_type(_Answer))
    except DECODE_ERRORS:
        return words
    return (answer.error.message if answer.error else answer.message) or words


def content_text(content: str | list[Block] | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in content)
    return content or ""


def _is_new(details: msgspec.Raw) -> bool:
    try:
        return msgspec.json.decode(details, type=know_type(Details)).added
    except DECODE_ERRORS:
        return False
