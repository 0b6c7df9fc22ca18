"""What every wire format can do, and the values that an answer is made of before it is written in one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from inspan.gateway.upstream import Ask, Purpose, Tool, ToolKind
from inspan.protocol.usage import Usage

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolUse:
    """A tool that the model wants used: `arguments` for a function, `text` for a custom tool."""

    name: str
    kind: ToolKind = "function"
    namespace: str = ""
    arguments: Mapping[str, object] | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the model says in one call; each part of `think` and `say` is streamed as its own delta."""

    model: str
    think: tuple[str, ...] = ()
    say: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    usage: Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """An answer in pieces, split where a fault may come: after the last word, before anything is closed."""

    head: tuple[bytes, ...]
    tail: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one event, or one whole body, tells a meter. `counts` are fields of `Usage`.

    `extras` are numbers beside them that cost money too: `cache_write_1h` (a part of `cache_write`), `searches`.
    """

    counts: Mapping[str, int]
    extras: Mapping[str, int] = field(default_factory=dict[str, int])
    final: bool = False
    message: str = ""


class Wire(Protocol):
    """A provider's format. All of it is pure: bytes and values in, bytes and values out."""

    @property
    def name(self) -> str: ...

    def purpose(self, method: str, path: str) -> Purpose | None:
        """What a request to this path (any prefix, no query) wants, or None when it is not this wire's."""
        ...

    def ask(self, body: Json, path: str) -> Ask:
        """What a request wants; some wires name the model in the path."""
        ...

    def stream(self, answer: Answer) -> Stream: ...

    def body(self, answer: Answer) -> bytes: ...

    def error(self, status: int, message: str, *, kind: str = "") -> bytes:
        """An error body as the provider writes it; the kind follows from the status unless it is given."""
        ...

    def read(self, event: Json) -> Reading:
        """Reads a streamed event or an unstreamed body; never raises, whatever the fields hold."""
        ...


def fresh_id(prefix: str) -> str:
    """An identifier that no other answer has; agents refuse a tool id that they have seen before."""
    return f"{prefix}{os.urandom(12).hex()}"


def event(data: Json, *, name: str = "") -> bytes:
    """One server-sent event."""
    heading = f"event: {name}\n".encode() if name else b""
    return heading + b"data: " + _one_line(msgspec.json.encode(data)) + b"\n\n"


def texts(content: object) -> list[str]:
    """The texts in a message's content, which is a string or a list of blocks that may nest."""
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in objects(content):
        text = block.get("text")
        found += [text] if isinstance(text, str) else texts(block.get("content"))
    return found


def objects(value: object) -> list[Json]:
    """The JSON objects in a list; nothing when it is no list."""
    items: list[object] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] (JSON)
    return [item for item in items if isinstance(item, dict)]


def inner(value: object, *path: str) -> Json:
    """The object at a path of keys; empty when anything on the way is missing or no object."""
    found: object = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] (JSON)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] (JSON)


def counts(source: Json, names: Mapping[str, str]) -> dict[str, int]:
    """The numbers that `source` states, under the names of `Usage`."""
    stated = {ours: source.get(theirs) for ours, theirs in names.items()}
    return {name: number for name, number in stated.items() if isinstance(number, int)}


def limit(source: Json, key: str) -> int | None:
    """The positive number at a key, or None."""
    value = source.get(key)
    return value if isinstance(value, int) and value > 0 else None


def word(source: Json, key: str) -> str:
    """The text at a key, or an empty one."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def field_types(schema: Json) -> dict[str, str]:
    """The argument names of a JSON schema with their types."""
    return {name: word(inner(declared), "type") for name, declared in inner(schema, "properties").items()}


def _one_line(text: bytes) -> bytes:
    """With the separators escaped that some readers of streams take for the end of a line."""
    return text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def newest(user_texts: Iterable[str], results: Iterable[str]) -> str:
    """The tool results and what came with them; without results, the last text alone."""
    said, returned = list(user_texts), list(results)
    return "\n".join(returned + said) if returned else "".join(said[-1:])


def function_tool(declared: Json, *, schema_key: str, namespace: str = "") -> Tool:
    """A tool as most requests declare it."""
    kind: ToolKind = "custom" if declared.get("type") == "custom" else "function"
    fields = field_types(inner(declared, schema_key))
    return Tool(name=word(declared, "name"), kind=kind, namespace=namespace, fields=fields)


def without_cache(found: dict[str, int]) -> dict[str, int]:
    """Takes the cached part out of an input that was stated as a whole."""
    if "input" not in found:
        return found
    cached = found.get("cache_read", 0) + found.get("cache_write", 0)
    return {**found, "input": max(0, found["input"] - cached)}
