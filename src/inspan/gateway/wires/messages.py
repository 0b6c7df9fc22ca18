"""The Anthropic Messages wire."""

import msgspec

from inspan.gateway.upstream import Ask, Inputs, KeyPlace, Purpose, Tool
from inspan.gateway.wires.inputs import InputReader
from inspan.gateway.wires.wire import (
    BEARER,
    Answer,
    Json,
    Reading,
    Stream,
    ToolUse,
    build_routes,
    collect_texts,
    encode_event,
    encode_side_answer,
    find_largest,
    fresh_id,
    get_object,
    get_text,
    list_objects,
    list_one_or_more,
    parse_tool,
    pick_newest_text,
    read_counts,
)
from inspan.protocol.usage import Usage

_ERROR_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_COUNT_NAMES = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
_ROUTES = build_routes({"/messages": "call", "/messages/count_tokens": "count tokens"})


class MessagesWire:
    """`POST …/v1/messages` and its token counter."""

    name = "messages"
    refusal_status = 402
    key_places = (KeyPlace("x-api-key"), BEARER)
    own_headers = ("anthropic-version", "x-api-key")

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        return _ROUTES.get((method, path))

    def parse_request(self, body: Json, path: str) -> Ask:
        latest = _find_latest(list_objects(body.get("messages")))
        results = [block for message in latest for block in list_objects(message.get("content")) if _is_result(block)]
        said = [text for message in latest for text in _user_texts(message)]
        declared = list_objects(body.get("tools"))
        return Ask(
            model=get_text(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(_parse_tool(tool) for tool in declared if not _is_built_in(tool)),
            newest_text=pick_newest_text(
                said, [text for block in results for text in collect_texts(block.get("content"))]
            ),
            max_output=find_largest(body.get("max_tokens")),
            turns=len(list_objects(body.get("messages"))),
            built_in=tuple(get_text(tool, "type") for tool in declared if _is_built_in(tool)),
            results=len(results),
            inputs=_inputs(body),
        )

    def encode_stream(self, answer: Answer) -> Stream:
        opening: Json = {
            **_build_envelope(answer),
            "content": [],
            "usage": _encode_initial_usage(answer.usage),
        }
        events: list[Json] = [{"type": "message_start", "message": opening}]
        blocks = _build_blocks(answer)
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ending, "usage": _encode_usage(answer.usage)})
        events.append({"type": "message_stop"})
        encoded = tuple(encode_event(item, name=item["type"]) for item in events)
        said = _count_events_before_fault(blocks)
        return Stream(head=encoded[:said], tail=encoded[said:])

    def encode_body(self, answer: Answer) -> bytes:
        content = [_merge_deltas(block, deltas) for block, deltas in _build_blocks(answer)]
        ending = {"stop_reason": _stop_reason(answer), "stop_sequence": None, "usage": _encode_usage(answer.usage)}
        return msgspec.json.encode({**_build_envelope(answer), "content": content, **ending})

    def encode_side_answer(self, purpose: Purpose, *, tokens: int) -> bytes:
        return encode_side_answer(purpose, tokens=tokens)

    def encode_error(self, status: int, message: str, *, kind: str = "") -> bytes:
        error = {"type": kind or _ERROR_KINDS.get(status, "api_error"), "message": message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": fresh_id("req_")})

    def read_event(self, event: Json) -> Reading:
        usage = get_object(event, "message", "usage") or get_object(event, "usage")
        found = read_counts(usage, _COUNT_NAMES)
        found |= read_counts(get_object(usage, "output_tokens_details"), {"reasoning": "thinking_tokens"})
        whole = event.get("type") == "message" and get_text(event, "stop_reason") != ""
        return Reading(
            counts=found,
            extras=read_counts(get_object(usage, "cache_creation"), {"cache_write_1h": "ephemeral_1h_input_tokens"})
            | read_counts(get_object(usage, "server_tool_use"), {"searches": "web_search_requests"}),
            final=whole or event.get("type") in ("message_stop", "error"),
            failed=event.get("type") == "error",
            so_far=event.get("type") == "message_start",
            message=get_text(get_object(event, "error"), "message"),
        )


def _find_latest(messages: list[Json]) -> list[Json]:
    """What the user's side added since the model last spoke; messages of the system may stand in between."""
    latest: list[Json] = []
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            latest.insert(0, message)
    return latest


def _parse_tool(declared: Json) -> Tool:
    """What this wire calls a custom tool is a function elsewhere."""
    return parse_tool({**declared, "type": "function"}, schema_key="input_schema")


def _is_built_in(declared: Json) -> bool:
    """Whether a tool has no schema of its own: the provider, or the model, knows it by its type."""
    return get_text(declared, "type") not in ("", "custom", "function") and "input_schema" not in declared


def _is_result(block: Json) -> bool:
    return block.get("type") == "tool_result"


def _inputs(body: Json) -> Inputs:
    reader = InputReader()
    for message in list_objects(body.get("messages")):
        _read_blocks(reader, message.get("content"))
    for tool in list_objects(body.get("tools")):
        reader.add_tool(get_text(tool, "type"), most_uses=tool.get("max_uses"))
    if body.get("mcp_servers"):
        reader.add_unsized("mcp_servers")
    return reader.inputs


def _read_blocks(reader: InputReader, content: object) -> None:
    """Blocks may stand in others: in what a tool has returned, in a document that is made of blocks."""
    for block in list_one_or_more(content):
        kind, source = get_text(block, "type"), get_object(block, "source")
        if kind == "image":
            reader.add_picture(source.get("data") if source.get("type") == "base64" else None, name="image")
        elif kind == "document" and source.get("type") == "content":
            _read_blocks(reader, source.get("content"))
        elif (kind == "document" and source.get("type") != "text") or "file_id" in block:
            reader.add_unsized(kind)
        _read_blocks(reader, block.get("content"))


def _user_texts(message: Json) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return collect_texts([block for block in list_objects(content) if not _is_result(block)])


def _build_envelope(answer: Answer) -> Json:
    return {
        "id": fresh_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _encode_usage(usage: Usage) -> Json:
    stated: Json = {theirs: getattr(usage, ours) for ours, theirs in _COUNT_NAMES.items()}
    if usage.reasoning:
        stated["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return stated


def _encode_initial_usage(usage: Usage) -> Json:
    """What a stream states when it opens: the input in full, of the output next to nothing."""
    return _encode_usage(msgspec.structs.replace(usage, output=1, reasoning=0))


def _build_blocks(answer: Answer) -> list[tuple[Json, list[Json]]]:
    """Each content block as it starts, with the deltas that fill it."""
    blocks: list[tuple[Json, list[Json]]] = []
    if answer.think:
        signature = {"type": "signature_delta", "signature": "c2NyaXB0"}
        thoughts: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in answer.think]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]))
    if answer.say:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in answer.say]))
    return blocks + [_build_tool_block(use) for use in answer.tools]


def _build_tool_block(use: ToolUse) -> tuple[Json, list[Json]]:
    start: Json = {"type": "tool_use", "id": fresh_id("toolu_"), "name": use.name, "input": {}}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return start, [{"type": "input_json_delta", "partial_json": written}]


def _merge_deltas(block: Json, deltas: list[Json]) -> Json:
    """The block with its deltas filled in."""
    if block["type"] == "tool_use":
        return {**block, "input": msgspec.json.decode(deltas[0]["partial_json"])}
    filled = {key: "".join(delta.get(key, "") for delta in deltas) for key in block if key != "type"}
    return {"type": block["type"], **filled}


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if answer.tools else "end_turn"


def _count_events_before_fault(blocks: list[tuple[Json, list[Json]]]) -> int:
    """How many events come before the last block of words is closed; one when there are no words."""
    wordy = [len(deltas) for block, deltas in blocks if block["type"] != "tool_use"]
    return 1 + sum(deltas + 2 for deltas in wordy) - bool(wordy)
