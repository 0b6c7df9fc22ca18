"""What every wire format can do, and the values that an answer is made of before it is written in one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

import msgspec

from inspan.gateway.upstream import Ask, KeyPlace, Purpose, Tool, ToolKind
from inspan.protocol.usage import Usage

Json = dict[str, Any]
_MAX_COUNT = 10**12
_MOST_DIGITS = 30
Routes = Mapping[tuple[str, str], Purpose]
BEARER = KeyPlace("authorization", scheme="Bearer")
AZURE_KEY = KeyPlace("api-key")
# What agents put between the address they are given and the path of a call.
PREFIXES = ("", "/v1", "/api", "/api/v1", "/openai", "/openai/v1", "/anthropic", "/anthropic/v1")


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
    `final`: nothing of the answer follows; `failed`: that is because of an error, whatever was counted until then.
    `so_far`: the counts are those of the beginning, and more of the answer is to come.
    """

    counts: Mapping[str, int]
    extras: Mapping[str, int] = field(default_factory=dict[str, int])
    final: bool = False
    failed: bool = False
    so_far: bool = False
    message: str = ""


class Wire(Protocol):
    """A provider's format. All of it is pure: bytes and values in, bytes and values out."""

    @property
    def name(self) -> str: ...

    @property
    def refusal_status(self) -> int:
        """The status that ends every agent of this wire at once. 401, 413 and 429 are tried again for minutes."""
        ...

    @property
    def key_places(self) -> tuple[KeyPlace, ...]:
        """Where its providers look for a key, the usual place first."""
        ...

    @property
    def own_headers(self) -> tuple[str, ...]:
        """Headers that no other wire has: on paths that all of them share, they tell whose a request is."""
        ...

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        """What a request to this path (no query) wants, or None when no route of this wire is exactly that."""
        ...

    def parse_request(self, body: Json, path: str) -> Ask:
        """What a request wants; some wires name the model in the path. Raises `ValueError` for what is not served."""
        ...

    def encode_stream(self, answer: Answer) -> Stream: ...

    def encode_body(self, answer: Answer) -> bytes: ...

    def encode_side_answer(self, purpose: Purpose, *, tokens: int) -> bytes:
        """How a model that is played answers what is no call: so many tokens, or a list of no models."""
        ...

    def encode_error(self, status: int, message: str, *, kind: str = "") -> bytes:
        """An error body as the provider writes it; the kind follows from the status unless it is given."""
        ...

    def read_event(self, event: Json) -> Reading:
        """Reads a streamed event or an unstreamed body; never raises, whatever the fields hold."""
        ...


def build_routes(purposes: Mapping[str, Purpose]) -> Routes:
    """The table of what is posted to a wire, by method and whole path."""
    return {("POST", f"{prefix}{path}"): purpose for path, purpose in purposes.items() for prefix in PREFIXES}


def encode_side_answer(purpose: Purpose, *, tokens: int) -> bytes:
    """The same for every wire that says it in the usual words."""
    answers: dict[Purpose, Json] = {
        "count tokens": {"input_tokens": tokens},
        "list models": {"object": "list", "data": [], "has_more": False},
    }
    return msgspec.json.encode(answers.get(purpose, {}))


def fresh_id(prefix: str) -> str:
    """An identifier that no other answer has; agents refuse a tool id that they have seen before."""
    return f"{prefix}{os.urandom(12).hex()}"


def encode_event(data: Json, *, name: str = "") -> bytes:
    """One server-sent event."""
    heading = f"event: {name}\n".encode() if name else b""
    return heading + b"data: " + _escape_separators(msgspec.json.encode(data)) + b"\n\n"


def collect_texts(content: object) -> list[str]:
    """The texts in a message's content, which is a string or a list of blocks that may nest."""
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in list_objects(content):
        text = block.get("text")
        found += [text] if isinstance(text, str) else collect_texts(block.get("content"))
    return found


def list_objects(value: object) -> list[Json]:
    """The JSON objects in a list; nothing when it is no list."""
    items: list[object] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] (JSON)
    return [item for item in items if isinstance(item, dict)]


def list_one_or_more(value: object) -> list[Json]:
    """The same where one object may stand without a list around it."""
    return [value] if isinstance(value, dict) else list_objects(value)  # pyright: ignore[reportUnknownVariableType] (JSON)


def get_object(value: object, *path: str) -> Json:
    """The object at a path of keys; empty when anything on the way is missing or no object."""
    found: object = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] (JSON)
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] (JSON)


def read_counts(source: Json, names: Mapping[str, str]) -> dict[str, int]:
    """The numbers that `source` states, under the names of `Usage`; one that no answer can have is not taken."""
    stated = {ours: source.get(theirs) for ours, theirs in names.items()}
    return {name: number for name, number in stated.items() if _is_count(number)}


def _is_count(value: object) -> TypeGuard[int]:
    """A negative one would give back what others have spent."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT


def find_largest(*values: object) -> int | None:
    """The largest of those that are positive whole numbers, or None: a provider may go by any of them.

    Many read them out of `1e5` and `"100"` too. One that no answer can have is cut to the most that is counted.
    """
    numbers = [_whole_number(value) for value in values]
    return min(max(numbers), _MAX_COUNT) if any(number > 0 for number in numbers) else None


def _whole_number(value: object) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else 0
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole else 0  # pyright: ignore[reportArgumentType] (a number by now)


def get_text(source: Json, key: str) -> str:
    """The text at a key, or an empty one."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def field_types(schema: Json) -> dict[str, str]:
    """The argument names of a JSON schema with their types."""
    return {name: get_text(get_object(declared), "type") for name, declared in get_object(schema, "properties").items()}


def _escape_separators(text: bytes) -> bytes:
    """With the separators escaped that some readers of streams take for the end of a line."""
    return text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def pick_newest_text(user_texts: Iterable[str], results: Iterable[str]) -> str:
    """The tool results and what came with them; without results, the last text alone."""
    said, returned = list(user_texts), list(results)
    return "\n".join(returned + said) if returned else "".join(said[-1:])


def parse_tool(declared: Json, *, schema_key: str, namespace: str = "") -> Tool:
    """A tool as most requests declare it."""
    kind: ToolKind = "custom" if declared.get("type") == "custom" else "function"
    schema = get_object(declared, schema_key)
    return Tool(
        name=get_text(declared, "name"), kind=kind, namespace=namespace, fields=field_types(schema), schema=schema
    )


def subtract_cached(found: dict[str, int]) -> dict[str, int]:
    """Takes the cached part out of an input that was stated as a whole."""
    if "input" not in found:
        return found
    cached = found.get("cache_read", 0) + found.get("cache_write", 0)
    return {**found, "input": max(0, found["input"] - cached)}
