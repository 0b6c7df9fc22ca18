"""The lines that it writes, as far as they tell something: its events, and what it measures of its calls."""

from typing import Any

import msgspec

from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage


class Problem(msgspec.Struct):
    """Why a call of a tool or of the model failed."""

    message: str = ""
    code: str | None = ""


class Result(msgspec.Struct):
    """What a tool call gave back."""

    content: str = ""


class FileEdit(msgspec.Struct):
    """A file that one of its tools has changed."""

    path: str
    kind: str = ""


class ShellExecution(msgspec.Struct, rename="camel"):
    """How a command ended."""

    exit_code: int | None = None


class Tokens(msgspec.Struct, rename="camel"):
    """One call in the record of a session; `input_tokens` has the cached ones in it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def usage(self) -> Usage:
        """The same in our words."""
        return Usage(
            input=max(0, self.input_tokens - self.cache_read_tokens - self.cache_write_tokens),
            output=self.output_tokens,
            cache_read=self.cache_read_tokens,
            cache_write=self.cache_write_tokens,
            reasoning=self.reasoning_tokens,
        )


class Data(msgspec.Struct, rename="camel"):
    """The fields of all kinds of events that we read; each event has a few of them."""

    model: str | None = ""
    content: str = ""
    message_id: str = ""
    delta_content: str = ""
    reasoning_text: str = ""
    parent_tool_call_id: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    arguments: Any = None
    text: str = ""
    success: bool = True
    result: Result | str | None = None
    error: Problem | str | None = None
    file_edits: list[FileEdit] = []
    shell_execution: ShellExecution | None = None
    server_name: str = ""
    status: str = ""
    warning_type: str = ""
    message: str = ""
    reason: str = ""
    status_code: int | None = None
    error_message: str = ""
    usage: Tokens | None = None
    is_byok: bool = False


class Frame(msgspec.Struct, rename="camel"):
    """One event. The last line of a run is none of its session and has its fields beside the type."""

    type: str
    data: Data = msgspec.field(default_factory=Data)
    exit_code: int | None = None


class _SpanAttributes(msgspec.Struct):
    """The attributes of a span, by the names of OpenTelemetry."""

    operation: str = msgspec.field(name="gen_ai.operation.name", default="")
    input: int = msgspec.field(name="gen_ai.usage.input_tokens", default=0)
    output: int = msgspec.field(name="gen_ai.usage.output_tokens", default=0)
    cache_read: int = msgspec.field(name="gen_ai.usage.cache_read.input_tokens", default=0)
    cache_write: int = msgspec.field(name="gen_ai.usage.cache_write.input_tokens", default=0)
    reasoning: int = msgspec.field(name="gen_ai.usage.reasoning.output_tokens", default=0)


class Span(msgspec.Struct, rename="camel"):
    """Something that it measured: a call of the model, a tool, or all the work on a prompt."""

    attributes: _SpanAttributes = msgspec.field(default_factory=_SpanAttributes)
    parent_span_id: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it is of a call of the model."""
        return self.attributes.operation == "chat"

    @property
    def is_turn(self) -> bool:
        """Whether it is of the whole prompt; a subagent's work has a parent."""
        return self.attributes.operation == "invoke_agent" and not self.parent_span_id

    @property
    def usage(self) -> Usage:
        """The tokens of a call; its input counts the cached ones too."""
        told = self.attributes
        return Usage(
            input=max(0, told.input - told.cache_read - told.cache_write),
            output=told.output,
            cache_read=told.cache_read,
            cache_write=told.cache_write,
            reasoning=told.reasoning,
        )


decode_frame = msgspec.json.Decoder(know_type(Frame)).decode
decode_span = msgspec.json.Decoder(know_type(Span)).decode
