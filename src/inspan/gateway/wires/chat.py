"""The OpenAI Chat Completions wire."""

import msgspec

from inspan.gateway.upstream import Ask, Inputs, Purpose, Tool
from inspan.gateway.wires.inputs import InputReader
from inspan.gateway.wires.openai_errors import encode_error_body, find_error_message
from inspan.gateway.wires.wire import (
    AZURE_KEY,
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
    parse_tool,
    pick_newest_text,
    read_counts,
    subtract_cached,
)
from inspan.protocol.usage import Usage

_DONE = b"data: [DONE]\n\n"
_ROUTES = build_routes({"/chat/completions": "call"})
_KINDS = ("", "function", "custom")
_TEXTS = ("", "text", "input_text", "output_text", "refusal", "thinking", "reasoning")


class ChatWire:
    """`POST …/chat/completions`."""

    name = "chat"
    refusal_status = 402
    key_places = (BEARER, AZURE_KEY)
    own_headers = ()

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        return _ROUTES.get((method, path))

    def parse_request(self, body: Json, path: str) -> Ask:
        latest = _find_latest(list_objects(body.get("messages")))
        said = [message for message in latest if message.get("role") == "user"]
        results = [message for message in latest if message.get("role") == "tool"]
        declared = list_objects(body.get("tools"))
        return Ask(
            model=get_text(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(_parse_tool(tool) for tool in declared if get_text(tool, "type") in _KINDS),
            newest_text=pick_newest_text(_message_texts(said), _message_texts(results)),
            max_output=find_largest(body.get("max_completion_tokens"), body.get("max_tokens")),
            turns=len(list_objects(body.get("messages"))),
            built_in=tuple(get_text(tool, "type") for tool in declared if get_text(tool, "type") not in _KINDS),
            results=len(results),
            answers=find_largest(body.get("n")) or 1,
            inputs=_inputs(body, declared),
        )

    def encode_stream(self, answer: Answer) -> Stream:
        id_ = fresh_id("chatcmpl-")
        head: list[Json] = [{"role": "assistant", "content": ""}]
        head += [{"reasoning_content": part} for part in answer.think]
        head += [{"content": part} for part in answer.say]
        calls = [
            {"tool_calls": [{"index": index, **_encode_call_delta(use)}]} for index, use in enumerate(answer.tools)
        ]
        tail = [_build_chunk(answer, id_=id_, delta=delta) for delta in calls]
        tail.append(_build_chunk(answer, id_=id_, delta={}, finish_reason=_finish_reason(answer)))
        tail.append({**_build_chunk(answer, id_=id_, delta={}), "choices": [], "usage": _encode_usage(answer.usage)})
        return Stream(
            head=tuple(encode_event(_build_chunk(answer, id_=id_, delta=delta)) for delta in head),
            tail=(*(encode_event(chunk) for chunk in tail), _DONE),
        )

    def encode_body(self, answer: Answer) -> bytes:
        message: Json = {"role": "assistant", "content": "".join(answer.say) or None}
        if answer.think:
            message["reasoning_content"] = "".join(answer.think)
        if answer.tools:
            message["tool_calls"] = [_encode_call(use) for use in answer.tools]
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
        named = {
            "id": fresh_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 0,
            "model": answer.model,
        }
        return msgspec.json.encode({**named, "choices": [choice], "usage": _encode_usage(answer.usage)})

    def encode_side_answer(self, purpose: Purpose, *, tokens: int) -> bytes:
        return encode_side_answer(purpose, tokens=tokens)

    def encode_error(self, status: int, message: str, *, kind: str = "") -> bytes:
        return encode_error_body(status, message, kind=kind)

    def read_event(self, event: Json) -> Reading:
        reasons = [get_text(choice, "finish_reason") for choice in list_objects(event.get("choices"))]
        failed = bool(get_object(event, "error")) or "error" in reasons
        return Reading(
            counts=_read_usage(get_object(event, "usage")),
            final=any(reasons) or failed,
            failed=failed,
            message=find_error_message(event),
        )


def _find_latest(messages: list[Json]) -> list[Json]:
    start = 0
    for number, message in enumerate(messages, start=1):
        if message.get("role") == "assistant":
            start = number
    return messages[start:]


def _message_texts(messages: list[Json]) -> list[str]:
    return [text for message in messages for text in collect_texts(message.get("content"))]


def _inputs(body: Json, declared: list[Json]) -> Inputs:
    reader = InputReader()
    for message in list_objects(body.get("messages")):
        for part in list_objects(message.get("content")):
            _read_part(reader, part)
        if message.get("audio"):
            reader.add_unsized("audio")  # By the id of an answer that was spoken before.
    for tool in declared:
        if get_text(tool, "type") not in _KINDS:
            reader.add_tool(get_text(tool, "type"))
    if body.get("web_search_options") is not None:
        reader.add_tool("web_search")
    return reader.inputs


def _read_part(reader: InputReader, part: Json) -> None:
    kind = get_text(part, "type")
    if kind == "image_url":
        given = part.get("image_url")
        reader.add_picture(given if isinstance(given, str) else get_object(part, "image_url").get("url"), name=kind)
    elif kind not in _TEXTS:
        reader.add_unsized(kind)


def _parse_tool(declared: Json) -> Tool:
    """The declaration stands one level down, under the tool's type."""
    kind = get_text(declared, "type")
    return parse_tool({"type": kind, **get_object(declared, kind)}, schema_key="parameters")


def _encode_call(use: ToolUse) -> Json:
    id_ = fresh_id("call_")
    if use.kind == "custom":
        return {"id": id_, "type": "custom", "custom": {"name": use.name, "input": use.text}}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return {"id": id_, "type": "function", "function": {"name": use.name, "arguments": written}}


def _encode_call_delta(use: ToolUse) -> Json:
    """A call in a stream, where the provider's own schema has no type but `function`."""
    call = _encode_call(use)
    return call if use.kind == "function" else {key: value for key, value in call.items() if key != "type"}


def _build_chunk(answer: Answer, *, id_: str, delta: Json, finish_reason: str | None = None) -> Json:
    return {
        "id": id_,
        "object": "chat.completion.chunk",
        "created": 0,
        "model": answer.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if answer.tools else "stop"


def _encode_usage(usage: Usage) -> Json:
    """Here the input includes what a cache took, unlike in `Usage`."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": taken,
        "completion_tokens": usage.output,
        "total_tokens": taken + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _read_usage(usage: Json) -> dict[str, int]:
    found = read_counts(usage, {"input": "prompt_tokens", "output": "completion_tokens"})
    cached = {"cache_read": "cached_tokens", "cache_write": "cache_write_tokens"}
    found |= read_counts(get_object(usage, "prompt_tokens_details"), cached)
    found |= read_counts(get_object(usage, "completion_tokens_details"), {"reasoning": "reasoning_tokens"})
    thought = found.get("reasoning", 0)
    # Some count the reasoning beside the answer and not in it; their total tells.
    if thought and usage.get("total_tokens") == sum(found.get(name, 0) for name in ("input", "output", "reasoning")):
        found["output"] = found.get("output", 0) + thought
    return subtract_cached(found)
