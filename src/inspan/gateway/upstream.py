"""The seam between the listener and whatever answers: a request as a value, a reply as a writer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Purpose = Literal["call", "count tokens", "list models", "other"]
ToolKind = Literal["function", "custom"]


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a provider looks for its key: a header, with the word before the key in it, or a field of the query."""

    name: str
    scheme: str = ""
    in_query: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that a request offers to the model; `fields` maps its argument names to their JSON types.

    `schema` is the whole of what the request says of its arguments.
    """

    name: str
    kind: ToolKind = "function"
    namespace: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What a request gives to the model beside its text, as far as the bytes of the request do not tell its size.

    `pictures` are the lengths of those that it holds. `unsized` names what it only refers to, or holds in a form whose
    length says nothing of its tokens. `searches` is how often the provider may search the web for it.
    """

    pictures: tuple[int, ...] = ()
    unsized: tuple[str, ...] = ()
    searches: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What a model call asks for. `newest_text` is the last user text, or the tool results after it.

    `max_output` is the most tokens that one answer may have, where the request says so, and `answers` how many it asks
    for at once; `turns` is how many messages the conversation has. `built_in` are the tools that it names by their type
    alone: the provider knows them. `results` is how many results of tools came with it.
    """

    model: str
    stream: bool
    tools: tuple[Tool, ...]
    newest_text: str
    max_output: int | None = None
    turns: int = 0
    built_in: tuple[str, ...] = ()
    results: int = 0
    answers: int = 1
    inputs: Inputs = Inputs()

    @property
    def has_tools(self) -> bool:
        """Whether a tool of the agent's own is on offer; those that the provider runs itself have no fields."""
        return any(tool.fields or tool.kind == "custom" for tool in self.tools)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request that carried the run's token; `ask` is None when it is not a call to the model.

    `path` has the query with it; the token is gone from it and from the headers, and a provider's key belongs into
    `key_place`. `body` is as it was sent, `plain` the same without its content encoding.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    plain: bytes
    wire: str
    purpose: Purpose
    ask: Ask | None
    key_place: KeyPlace = KeyPlace("authorization", scheme="Bearer")


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
