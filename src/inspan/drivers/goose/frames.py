"""The shapes of what Goose prints and keeps: messages made of parts, in its stream as in its saved sessions."""

from typing import Any

import msgspec

from inspan.protocol.usage import Usage


class Call(msgspec.Struct, frozen=True):
    """A tool's name and what it is given."""

    name: str = ""
    arguments: Any = None


class ToolRequest(msgspec.Struct, frozen=True):
    """A tool call, or why the model's words for one could not be read."""

    value: Call | None = None
    error: str = ""


class Result(msgspec.Struct, frozen=True):
    """What a tool gave back."""

    content: list[dict[str, Any]] = []
    structured: dict[str, Any] | None = msgspec.field(name="structuredContent", default=None)
    is_error: bool = msgspec.field(name="isError", default=False)


class ToolResponse(msgspec.Struct, frozen=True):
    """A tool's result, or why there is none."""

    value: Result | None = None
    error: str = ""


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """One piece of a message; which fields it has goes by its type."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    tool_call: ToolRequest | None = None
    tool_result: ToolResponse | None = None
    message: str = ""
    msg: str = ""
    notification_type: str = ""


class CallTokens(msgspec.Struct, frozen=True, rename="camel"):
    """The tokens of one model call, in a saved session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class Inference(msgspec.Struct, frozen=True, rename="camel"):
    """Which model a message came from."""

    provider: str = ""
    requested_model: str = ""


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is known about a message; one that the program itself has said has no `inference`."""

    inference: Inference | None = None
    usage: CallTokens | None = None
    turn_context: bool = False


class Message(msgspec.Struct, frozen=True):
    """Something that was said, whole or a piece of it: pieces have the same id."""

    role: str = ""
    id: str | None = ""
    content: list[Part] = []
    metadata: Metadata = Metadata()


class Tokens(msgspec.Struct, frozen=True):
    """Counts of a whole session; its input includes what a cache took."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    cache_write_input_tokens: int | None = 0


class Frame(Tokens, frozen=True):
    """One line of its stream, or what was counted before it."""

    type: str = ""
    message: Message | None = None
    error: str = ""
    cost_usd: float | None = None
    accumulated_usage: Tokens | None = None
    accumulated_cost: float | None = None


class SavedSession(msgspec.Struct, frozen=True):
    """A session as `goose session export --format json` prints it."""

    working_dir: str = "/"
    conversation: list[Message] | None = None
    accumulated_usage: Tokens | None = None


def to_usage(*, input: int, output: int, cache_read: int, cache_write: int) -> Usage:
    """Its counts in ours."""
    return Usage(
        input=max(0, input - cache_read - cache_write), output=output, cache_read=cache_read, cache_write=cache_write
    )


def session_usage(tokens: Tokens) -> Usage:
    """The tokens of a session so far."""
    return to_usage(
        input=tokens.input_tokens or 0,
        output=tokens.output_tokens or 0,
        cache_read=tokens.cache_read_input_tokens or 0,
        cache_write=tokens.cache_write_input_tokens or 0,
    )
