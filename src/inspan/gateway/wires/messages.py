"""The Anthropic Messages wire."""

import msgspec

from inspan.gateway.upstream import Ask, Purpose
from inspan.gateway.wires.wire import (
    Answer,
    Json,
    Reading,
    Stream,
    ToolUse,
    counts,
    event,
    fresh_id,
    function_tool,
    inner,
    limit,
    newest,
    objects,
    texts,
    word,
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


class MessagesWire:
    """`POST …/v1/messages` and its token counter."""

    name = "messages"

    def purpose(self, method: str, path: str) -> Purpose | None:
        if method != "POST":
            return None
        if path.endswith("/messages/count_tokens"):
            return "count tokens"
        return "call" if path.endswith("/messages") else None

    def ask(self, body: Json, path: str) -> Ask:
        latest = _after_last_answer(objects(body.get("messages")))
        results = [block for message in latest for block in objects(message.get("content")) if _is_result(block)]
        said = [text for message in latest for text in _said(message)]
        return Ask(
            model=word(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(function_tool(tool, schema_key="input_schema") for tool in objects(body.get("tools"))),
            newest_text=newest(said, [text for block in results for text in texts(block.get("content"))]),
            max_output=limit(body, "max_tokens"),
            turns=len(objects(body.get("messages"))),
        )

    def stream(self, answer: Answer) -> Stream:
        opening: Json = {
            **_envelope(answer),
            "content": [],
            "usage": _usage_so_far(answer.usage),
        }
        events: list[Json] = [{"type": "message_start", "message": opening}]
        blocks = _blocks(answer)
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ending, "usage": _usage(answer.usage)})
        events.append({"type": "message_stop"})
        encoded = tuple(event(item, name=item["type"]) for item in events)
        said = _events_before_fault(blocks)
        return Stream(head=encoded[:said], tail=encoded[said:])

    def body(self, answer: Answer) -> bytes:
        content = [_whole(block, deltas) for block, deltas in _blocks(answer)]
        ending = {"stop_reason": _stop_reason(answer), "stop_sequence": None, "usage": _usage(answer.usage)}
        return msgspec.json.encode({**_envelope(answer), "content": content, **ending})

    def error(self, status: int, message: str, *, kind: str = "") -> bytes:
        error = {"type": kind or _ERROR_KINDS.get(status, "api_error"), "message": message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": fresh_id("req_")})

    def read(self, event: Json) -> Reading:
        usage = inner(event, "message", "usage") or inner(event, "usage")
        found = counts(usage, _COUNT_NAMES)
        found |= counts(inner(usage, "output_tokens_details"), {"reasoning": "thinking_tokens"})
        whole = event.get("type") == "message" and word(event, "stop_reason") != ""
        return Reading(
            counts=found,
            extras=counts(inner(usage, "cache_creation"), {"cache_write_1h": "ephemeral_1h_input_tokens"})
            | counts(inner(usage, "server_tool_use"), {"searches": "web_search_requests"}),
            final=whole or event.get("type") in ("message_stop", "error"),
            message=word(inner(event, "error"), "message"),
        )


def _after_last_answer(messages: list[Json]) -> list[Json]:
    """What the user's side added since the model last spoke; messages of the system may stand in between."""
    latest: list[Json] = []
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            latest.insert(0, message)
    return latest


def _is_result(block: Json) -> bool:
    return block.get("type") == "tool_result"


def _said(message: Json) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return texts([block for block in objects(content) if not _is_result(block)])


def _envelope(answer: Answer) -> Json:
    return {
        "id": fresh_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(usage: Usage) -> Json:
    stated: Json = {theirs: getattr(usage, ours) for ours, theirs in _COUNT_NAMES.items()}
    if usage.reasoning:
        stated["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return stated


def _usage_so_far(usage: Usage) -> Json:
    """What a stream states when it opens: the input in full, of the output next to nothing."""
    return _usage(msgspec.structs.replace(usage, output=1, reasoning=0))


def _blocks(answer: Answer) -> list[tuple[Json, list[Json]]]:
    """Each content block as it starts, with the deltas that fill it."""
    blocks: list[tuple[Json, list[Json]]] = []
    if answer.think:
        signature = {"type": "signature_delta", "signature": "c2NyaXB0"}
        thoughts: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in answer.think]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]))
    if answer.say:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in answer.say]))
    return blocks + [_tool_block(use) for use in answer.tools]


def _tool_block(use: ToolUse) -> tuple[Json, list[Json]]:
    start: Json = {"type": "tool_use", "id": fresh_id("toolu_"), "name": use.name, "input": {}}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return start, [{"type": "input_json_delta", "partial_json": written}]


def _whole(block: Json, deltas: list[Json]) -> Json:
    """The block with its deltas filled in."""
    if block["type"] == "tool_use":
        return {**block, "input": msgspec.json.decode(deltas[0]["partial_json"])}
    filled = {key: "".join(delta.get(key, "") for delta in deltas) for key in block if key != "type"}
    return {"type": block["type"], **filled}


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if answer.tools else "end_turn"


def _events_before_fault(blocks: list[tuple[Json, list[Json]]]) -> int:
    """How many events come before the last block of words is closed; one when there are no words."""
    wordy = [len(deltas) for block, deltas in blocks if block["type"] != "tool_use"]
    return 1 + sum(deltas + 2 for deltas in wordy) - bool(wordy)
