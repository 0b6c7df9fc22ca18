"""The newest part of a conversation, as any wire writes it: what came after the model's last answer."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from inspan.gateway.cassettes.cassette import Part, PartKind
from inspan.gateway.wires.wire import Json, inner, objects, word

_OF_THE_MODEL = ("assistant", "model")
_OF_THE_HARNESS = ("system", "developer")
# What says nothing about the content of a block.
_NOT_COMPARED = ("cache_control", "id")


class Result(NamedTuple):
    """What one tool gave back; `id` is that of its call, or empty."""

    id: str
    parts: tuple[Part, ...]


class Newest(NamedTuple):
    """The results of tools in the order of their calls, and other messages in theirs."""

    results: tuple[Result, ...]
    messages: tuple[tuple[Part, ...], ...]


class _Body(msgspec.Struct):
    """Where the wires keep their messages; each of them is read only if it is a new one."""

    messages: msgspec.Raw = msgspec.Raw(b"null")
    input: msgspec.Raw = msgspec.Raw(b"null")
    contents: msgspec.Raw = msgspec.Raw(b"null")
    request: msgspec.Raw = msgspec.Raw(b"null")


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def newest_of(body: bytes) -> Newest:
    """What a request adds to its conversation; nothing, if it is none."""
    try:
        return _newest(_messages(body))
    except _UNREADABLE:
        return Newest((), ())


def _newest(messages: list[msgspec.Raw]) -> Newest:
    new: list[Json] = []
    called: list[str] = []
    is_answered = False
    for item in map(_item, reversed(messages)):
        if _is_of_the_model(item):
            is_answered = True
            called[:0] = _calls(item)
        elif is_answered:
            break
        else:
            new.insert(0, item)
    # Results may come in the order in which the tools were done, which is not the same each time.
    order = {id_: place for place, id_ in enumerate(called)}
    results = sorted((result for item in new for result in _results(item)), key=lambda each: order.get(each.id, -1))
    said = [tuple(_others(item)) for item in new if word(item, "role") not in _OF_THE_HARNESS]
    return Newest(tuple(results), tuple(parts for parts in said if parts))


def _messages(body: bytes) -> list[msgspec.Raw]:
    read = _decode_body(body)
    if bytes(read.request) != b"null":
        read = _decode_body(read.request)
    found = next((raw for raw in (read.messages, read.input, read.contents) if bytes(raw) != b"null"), None)
    return [] if found is None else _listed(found)


def _listed(raw: msgspec.Raw) -> list[msgspec.Raw]:
    return _decode_list(raw) if bytes(raw).startswith(b"[") else [raw]


def _item(raw: msgspec.Raw) -> Json:
    """A message; a text alone is the user's."""
    if bytes(raw).startswith(b"{"):
        return msgspec.json.decode(raw, type=Json)
    return {"role": "user", "content": msgspec.json.decode(raw)}


def _is_of_the_model(item: Json) -> bool:
    kind = word(item, "type")
    return word(item, "role") in _OF_THE_MODEL or kind.endswith("_call") or kind == "reasoning"


def _calls(item: Json) -> list[str]:
    """The ids of the tool calls in a message of the model."""
    called = [item] if word(item, "type").endswith("_call") else []
    called += [block for block in objects(item.get("content")) if word(block, "type") == "tool_use"]
    called += objects(item.get("tool_calls"))
    called += [inner(part, "functionCall") for part in objects(item.get("parts"))]
    return [word(call, "call_id") or word(call, "id") for call in called]


def _results(item: Json) -> Iterator[Result]:
    if word(item, "type").endswith("_output"):
        yield Result(word(item, "call_id"), tuple(_parts(item.get("output"), "result")))
    elif word(item, "role") in ("tool", "function"):
        yield Result(word(item, "tool_call_id"), tuple(_parts(item.get("content"), "result")))
    for block in objects(item.get("content")):
        if word(block, "type") == "tool_result":
            yield Result(word(block, "tool_use_id"), tuple(_parts(block.get("content"), "result")))
    for part in objects(item.get("parts")):
        response = inner(part, "functionResponse")
        if response:
            yield Result(word(response, "id"), tuple(_parts(response.get("response"), "result")))


def _others(item: Json) -> Iterator[Part]:
    """What a message holds beside results."""
    if word(item, "type").endswith("_output") or word(item, "role") in ("tool", "function"):
        return
    for key in ("content", "parts"):
        yield from _parts(item.get(key), "text")


def _parts(content: Any, kind: PartKind) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part(kind=kind, text=content)
    elif isinstance(content, dict):
        yield Part(kind=kind, text=_written(cast(Json, content)))
    for block in objects(cast(object, content)):
        if word(block, "type") == "tool_result" or "functionResponse" in block:
            continue
        text = block.get("text")
        if isinstance(text, str):
            yield Part(kind=kind, text=text)
        else:
            yield Part(kind="media", text=_written(block))


def _written(block: Json) -> str:
    kept = {key: value for key, value in block.items() if key not in _NOT_COMPARED}
    return msgspec.json.encode(kept, order="sorted").decode()
