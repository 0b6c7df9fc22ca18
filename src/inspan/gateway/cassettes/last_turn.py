"""The newest part of a conversation, as any wire writes it: what came after the model's last answer."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from inspan.gateway.cassettes.cassette import Part, PartKind
from inspan.gateway.wires.wire import Json, get_object, get_text, list_objects
from inspan.protocol.known_types import know_type

_MODEL_ROLES = ("assistant", "model")
_SYSTEM_ROLES = ("system", "developer")
# What says nothing about the content of a block.
_IGNORED_KEYS = ("cache_control", "id")


class ToolResult(NamedTuple):
    """What one tool gave back; `id` is that of its call, or empty."""

    id: str
    parts: tuple[Part, ...]


class LastTurn(NamedTuple):
    """The results of tools in the order of their calls, and other messages in theirs."""

    results: tuple[ToolResult, ...]
    messages: tuple[tuple[Part, ...], ...]


class _Body(msgspec.Struct):
    """Where the wires keep their messages; each of them is read only if it is a new one."""

    messages: msgspec.Raw = msgspec.Raw(b"null")
    input: msgspec.Raw = msgspec.Raw(b"null")
    contents: msgspec.Raw = msgspec.Raw(b"null")
    request: msgspec.Raw = msgspec.Raw(b"null")


_decode_body = msgspec.json.Decoder(know_type(_Body)).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parse_last_turn(body: bytes) -> LastTurn:
    """What a request adds to its conversation; nothing, if it is none."""
    try:
        return _collect_last_turn(_split_messages(body))
    except _UNREADABLE:
        return LastTurn((), ())


def _collect_last_turn(messages: list[msgspec.Raw]) -> LastTurn:
    new: list[Json] = []
    called: list[str] = []
    is_answered = False
    for item in map(_decode_message, reversed(messages)):
        if _is_from_model(item):
            is_answered = True
            called[:0] = _tool_call_ids(item)
        elif is_answered:
            break
        else:
            new.insert(0, item)
    # Results may come in the order in which the tools were done, which is not the same each time.
    order = {id_: place for place, id_ in enumerate(called)}
    results = sorted(
        (result for item in new for result in _tool_results(item)), key=lambda each: order.get(each.id, -1)
    )
    said = [tuple(_other_parts(item)) for item in new if get_text(item, "role") not in _SYSTEM_ROLES]
    return LastTurn(tuple(results), tuple(parts for parts in said if parts))


def _split_messages(body: bytes) -> list[msgspec.Raw]:
    read = _decode_body(body)
    if bytes(read.request) != b"null":
        read = _decode_body(read.request)
    found = next((raw for raw in (read.messages, read.input, read.contents) if bytes(raw) != b"null"), None)
    return [] if found is None else _to_list(found)


def _to_list(raw: msgspec.Raw) -> list[msgspec.Raw]:
    return _decode_list(raw) if bytes(raw).startswith(b"[") else [raw]


def _decode_message(raw: msgspec.Raw) -> Json:
    """A message; a text alone is the user's."""
    if bytes(raw).startswith(b"{"):
        return msgspec.json.decode(raw, type=Json)
    return {"role": "user", "content": msgspec.json.decode(raw)}


def _is_from_model(item: Json) -> bool:
    kind = get_text(item, "type")
    return get_text(item, "role") in _MODEL_ROLES or kind.endswith("_call") or kind == "reasoning"


def _tool_call_ids(item: Json) -> list[str]:
    """The ids of the tool calls in a message of the model."""
    called = [item] if get_text(item, "type").endswith("_call") else []
    called += [block for block in list_objects(item.get("content")) if get_text(block, "type") == "tool_use"]
    called += list_objects(item.get("tool_calls"))
    called += [get_object(part, "functionCall") for part in list_objects(item.get("parts"))]
    return [get_text(call, "call_id") or get_text(call, "id") for call in called]


def _tool_results(item: Json) -> Iterator[ToolResult]:
    if get_text(item, "type").endswith("_output"):
        yield ToolResult(get_text(item, "call_id"), tuple(_content_parts(item.get("output"), "result")))
    elif get_text(item, "role") in ("tool", "function"):
        yield ToolResult(get_text(item, "tool_call_id"), tuple(_content_parts(item.get("content"), "result")))
    for block in list_objects(item.get("content")):
        if get_text(block, "type") == "tool_result":
            yield ToolResult(get_text(block, "tool_use_id"), tuple(_content_parts(block.get("content"), "result")))
    for part in list_objects(item.get("parts")):
        response = get_object(part, "functionResponse")
        if response:
            yield ToolResult(get_text(response, "id"), tuple(_content_parts(response.get("response"), "result")))


def _other_parts(item: Json) -> Iterator[Part]:
    """What a message holds beside results."""
    if get_text(item, "type").endswith("_output") or get_text(item, "role") in ("tool", "function"):
        return
    for key in ("content", "parts"):
        yield from _content_parts(item.get(key), "text")


def _content_parts(content: Any, kind: PartKind) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part(kind=kind, text=content)
    elif isinstance(content, dict):
        yield Part(kind=kind, text=_encode_block(cast(Json, content)))
    for block in list_objects(cast(object, content)):
        if get_text(block, "type") == "tool_result" or "functionResponse" in block:
            continue
        text = block.get("text")
        if isinstance(text, str):
            yield Part(kind=kind, text=text)
        else:
            yield Part(kind="media", text=_encode_block(block))


def _encode_block(block: Json) -> str:
    kept = {key: value for key, value in block.items() if key not in _IGNORED_KEYS}
    return msgspec.json.encode(kept, order="sorted").decode()
