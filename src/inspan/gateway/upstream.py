"""The seam between the listener and whatever answers: a request as a value, a reply as a writer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Purpose = Literal["call", "count tokens", "list models", "other"]
ToolKind = Literal["function", "custom"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that a request offers to the model; `fields` maps its argument names to their JSON types."""

    name: str
    kind: ToolKind = "function"
    namespace: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What a model call asks for. `newest_text` is the last user text, or the tool results after it.

    `max_output` is the most tokens that the answer may have, where the request says so; `turns` is how many messages
    the conversation has.
    """

    model: str
    stream: bool
    tools: tuple[Tool, ...]
    newest_text: str
    max_output: int | None = None
    turns: int = 0

    @property
    def has_tools(self) -> bool:
        """Whether a tool of the agent's own is on offer; those that the provider runs itself have no fields."""
        return any(tool.fields or tool.kind == "custom" for tool in self.tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request that carried the run's token; `ask` is None when it is not a call to the model.

    `path` has the query with it, and not the token that may stand in front of it. `body` is as it was sent, `plain`
    the same without its content encoding.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    plain: bytes
    wire: str
    purpose: Purpose
    ask: Ask | None


class Reply(Protocol):
    """Where the answer goes. Each method raises `ConnectionError` once the client has gone."""

    async def start(self, status: int, headers: Mapping[str, str]) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def finish(self) -> None: ...

    def cut(self) -> None:
        """Closes the connection with the answer unfinished, after what was written."""
        ...

    def note(self, problem: str) -> None:
        """Names the problem that the call is reported with; an empty text takes it back."""
        ...


class Upstream(Protocol):
    """Answers requests, several at a time; cancelled when the client goes or the gateway closes."""

    async def answer(self, request: Request, reply: Reply) -> None: ...
