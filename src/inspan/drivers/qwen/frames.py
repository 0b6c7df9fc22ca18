"""The shapes of what Qwen Code prints."""

from typing import Any

import msgspec

from inspan.protocol.usage import Usage


class Block(msgspec.Struct, frozen=True):
    """One piece of a message; which fields it has goes by its type."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[dict[str, Any]] = ""
    is_error: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """What a call or a session has used: input includes what was cached, output not always what was thought."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    total_tokens: int = 0

    @property
    def usage(self) -> Usage:
        """The same in our words. Its total is right where its output leaves out thoughts (Google's wire, 0.24.4)."""
        return Usage(
            input=max(0, self.input_tokens - self.cache_read_input_tokens),
            output=max(self.output_tokens, self.total_tokens - self.input_tokens),
            cache_read=self.cache_read_input_tokens,
        )


class Message(msgspec.Struct, frozen=True):
    """What the assistant said, or what came back to it."""

    content: str | list[Block] = ""
    usage: Tokens = Tokens()


class Server(msgspec.Struct, frozen=True):
    """An MCP server, and whether it could be reached."""

    name: str = ""
    status: str = ""


class Problem(msgspec.Struct, frozen=True):
    """Why a turn failed."""

    message: str = ""


class Delta(msgspec.Struct, frozen=True):
    """A piece of a block."""

    type: str = ""
    text: str = ""


class StreamEvent(msgspec.Struct, frozen=True):
    """A step of a message that is still coming in."""

    type: str = ""
    delta: Delta | None = None


class Frame(msgspec.Struct, frozen=True):
    """One line of its output."""

    type: str
    subtype: str = ""
    session_id: str = ""
    model: str = ""
    tools: list[str] = []
    qwen_code_version: str = ""
    mcp_servers: list[Server] = []
    parent_tool_use_id: str | None = None
    message: Message = Message()
    event: StreamEvent = StreamEvent()
    is_error: bool = False
    result: str = ""
    error: Problem | None = None
    usage: Tokens = Tokens()
