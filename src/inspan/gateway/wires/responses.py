"""The OpenAI Responses wire."""

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
    list_one_or_more,
    parse_tool,
    pick_newest_text,
    read_counts,
    subtract_cached,
)
from inspan.protocol.usage import Usage

_FAILED_TYPES = ("response.failed", "error")
_FINAL_TYPES = ("response.completed", "response.incomplete", *_FAILED_TYPES)
_MODEL_ITEMS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
_TEXT_ITEMS = ("reasoning", "message")
# Not all who speak this wire have OpenAI's names for them.
_CACHED = (
    {"cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens"},
    {"cache_read": "cached_tokens", "cache_write": "cache_write_tokens"},
)
# What was said before is kept by the provider, under these.
_KEPT = ("previous_response_id", "conversation", "prompt")
_ROUTES = build_routes({"/responses": "call"})


class ResponsesWire:
    """`POST …/responses`."""

    name = "responses"
    refusal_status = 400  # Here 402 and 403 are tried again too.
    key_places = (BEARER, AZURE_KEY)
    own_headers = ()

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        return _ROUTES.get((method, path))

    def parse_request(self, body: Json, path: str) -> Ask:
        if body.get("background"):
            raise ValueError("A background answer would continue where nobody measures it.")
        given = body.get("input")
        items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else list_objects(given)
        latest = _find_latest(items)
        said = [text for item in latest if item.get("role") == "user" for text in collect_texts(item.get("content"))]
        declared = list_objects(body.get("tools"))
        for item in items:
            declared += list_objects(item.get("tools")) if item.get("type") == "additional_tools" else []
        return Ask(
            model=get_text(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(_parse_tools(declared)),
            newest_text=pick_newest_text(said, [text for item in latest for text in collect_texts(item.get("output"))]),
            max_output=find_largest(body.get("max_output_tokens")),
            turns=len(items),
            built_in=tuple(_list_built_in(declared)),
            results=len([item for item in latest if "output" in item]),
            inputs=_inputs(body, items, declared),
        )

    def encode_stream(self, answer: Answer) -> Stream:
        response = _build_response(answer)
        begun: Json = {**response, "status": "in_progress", "output": [], "usage": None}
        head: list[Json] = [{"type": "response.created", "response": begun}]
        tail: list[Json] = []
        for index, item in enumerate(response["output"]):
            before, after = _build_item_events(item, index=index, answer=answer)
            is_words = item["type"] in _TEXT_ITEMS
            head += tail + before if is_words else []
            tail = after if is_words else tail + before + after
        tail.append({"type": "response.completed", "response": response})
        encoded = [
            encode_event({**item, "sequence_number": number}, name=item["type"])
            for number, item in enumerate(head + tail)
        ]
        return Stream(head=tuple(encoded[: len(head)]), tail=tuple(encoded[len(head) :]))

    def encode_body(self, answer: Answer) -> bytes:
        return msgspec.json.encode(_build_response(answer))

    def encode_side_answer(self, purpose: Purpose, *, tokens: int) -> bytes:
        return encode_side_answer(purpose, tokens=tokens)

    def encode_error(self, status: int, message: str, *, kind: str = "") -> bytes:
        return encode_error_body(status, message, kind=kind)

    def read_event(self, event: Json) -> Reading:
        response = get_object(event, "response") or event
        usage = get_object(response, "usage")
        whole = event.get("object") == "response" and event.get("status") != "in_progress"
        return Reading(
            counts=_read_usage(usage),
            extras=read_counts(get_object(usage, "tool_calls_details", "search_web"), {"searches": "invocation"}),
            final=whole or event.get("type") in _FINAL_TYPES,
            failed=event.get("type") in _FAILED_TYPES or response.get("status") in ("failed", "cancelled"),
            message=find_error_message(event),
        )


def _find_latest(items: list[Json]) -> list[Json]:
    start = 0
    for number, item in enumerate(items, start=1):
        if item.get("type") in _MODEL_ITEMS or item.get("role") == "assistant":
            start = number
    return items[start:]


def _inputs(body: Json, items: list[Json], declared: list[Json]) -> Inputs:
    reader = InputReader()
    for name in _KEPT:
        if body.get(name):
            reader.add_unsized(name)
    for item in items:
        if item.get("type") == "item_reference":
            reader.add_unsized("item_reference")
        _read_parts(reader, list_one_or_more(item.get("content")) + list_one_or_more(item.get("output")))
    for type_ in _list_built_in(declared):
        reader.add_tool(type_, most_uses=body.get("max_tool_calls"))
    return reader.inputs


def _read_parts(reader: InputReader, parts: list[Json]) -> None:
    for part in parts:
        kind = get_text(part, "type")
        if kind in ("input_image", "computer_screenshot"):
            reader.add_picture(part.get("image_url"), name=kind)
        elif kind in ("input_file", "input_audio", "input_video") or "file_id" in part:
            reader.add_unsized(kind)


def _parse_tools(declared: list[Json], *, namespace: str = "") -> list[Tool]:
    """The tools in a declaration, those inside a namespace included."""
    found: list[Tool] = []
    for tool in declared:
        if tool.get("type") == "namespace":
            found += _parse_tools(list_objects(tool.get("tools")), namespace=get_text(tool, "name"))
        elif tool.get("type") in ("function", "custom"):
            found.append(parse_tool(tool, schema_key="parameters", namespace=namespace))
    return found


def _list_built_in(declared: list[Json]) -> list[str]:
    """The types of the tools that a declaration has no schema for."""
    found: list[str] = []
    for tool in declared:
        if tool.get("type") == "namespace":
            found += _list_built_in(list_objects(tool.get("tools")))
        elif tool.get("type") not in ("function", "custom"):
            found.append(get_text(tool, "type"))
    return found


def _build_response(answer: Answer) -> Json:
    return {
        "id": fresh_id("resp_"),
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": _build_items(answer),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _encode_usage(answer.usage),
    }


def _build_items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.think:
        summary = [{"type": "summary_text", "text": "".join(answer.think)}]
        # With no content of its own a reasoning item is dropped from the next request unless this is set.
        items.append({"id": fresh_id("rs_"), "type": "reasoning", "summary": summary, "encrypted_content": "c2NyaXB0"})
    if answer.say:
        content: list[Json] = [{"type": "output_text", "text": "".join(answer.say), "annotations": []}]
        message: Json = {"type": "message", "role": "assistant", "status": "completed", "content": content}
        items.append({"id": fresh_id("msg_"), **message})
    return items + [_build_tool_item(use) for use in answer.tools]


def _build_tool_item(use: ToolUse) -> Json:
    named: Json = {"name": use.name, "call_id": fresh_id("call_"), "status": "completed"}
    if use.namespace:
        named["namespace"] = use.namespace
    if use.kind == "custom":
        return {"id": fresh_id("ctc_"), "type": "custom_tool_call", **named, "input": use.text}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return {"id": fresh_id("fc_"), "type": "function_call", **named, "arguments": written}


def _build_item_events(item: Json, *, index: int, answer: Answer) -> tuple[list[Json], list[Json]]:
    """The events of one item: up to its last delta, and those that close it."""
    position = {"output_index": index, "item_id": item["id"]}
    added = {"type": "response.output_item.added", "output_index": index, "item": _clear_item(item)}
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    opening, deltas, closing = _CONTENT_EVENTS[item["type"]](item, position, answer)
    return [added, *opening, *deltas], [*closing, done]


def _clear_item(item: Json) -> Json:
    empty: Json = {"summary": [], "content": [], "arguments": "", "input": "", "status": "in_progress"}
    return {key: empty.get(key, value) for key, value in item.items()}


_Parts = tuple[list[Json], list[Json], list[Json]]


def _build_reasoning_events(item: Json, position: Json, answer: Answer) -> _Parts:
    where = {**position, "summary_index": 0}
    part = item["summary"][0]
    added = {"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
    deltas = [{"type": "response.reasoning_summary_text.delta", **where, "delta": text} for text in answer.think]
    text_done = {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
    part_done = {"type": "response.reasoning_summary_part.done", **where, "part": part}
    return [added], deltas, [text_done, part_done]


def _build_message_events(item: Json, position: Json, answer: Answer) -> _Parts:
    where = {**position, "content_index": 0}
    part = item["content"][0]
    added = {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
    likely: Json = {"logprobs": []}
    deltas = [{"type": "response.output_text.delta", **where, "delta": text, **likely} for text in answer.say]
    text_done = {"type": "response.output_text.done", **where, "text": part["text"], **likely}
    part_done = {"type": "response.content_part.done", **where, "part": part}
    return [added], deltas, [text_done, part_done]


def _build_function_events(item: Json, position: Json, answer: Answer) -> _Parts:
    written = item["arguments"]
    delta = {"type": "response.function_call_arguments.delta", **position, "delta": written}
    return [], [delta], [{"type": "response.function_call_arguments.done", **position, "arguments": written}]


def _build_custom_events(item: Json, position: Json, answer: Answer) -> _Parts:
    written = item["input"]
    delta = {"type": "response.custom_tool_call_input.delta", **position, "delta": written}
    return [], [delta], [{"type": "response.custom_tool_call_input.done", **position, "input": written}]


_CONTENT_EVENTS = {
    "reasoning": _build_reasoning_events,
    "message": _build_message_events,
    "function_call": _build_function_events,
    "custom_tool_call": _build_custom_events,
}


def _encode_usage(usage: Usage) -> Json:
    """Here the input includes what a cache took, unlike in `Usage`."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": taken + usage.output,
    }


def _read_usage(usage: Json) -> dict[str, int]:
    found = read_counts(usage, {"input": "input_tokens", "output": "output_tokens"})
    for cached in _CACHED:
        found |= read_counts(get_object(usage, "input_tokens_details"), cached)
    found |= read_counts(get_object(usage, "output_tokens_details"), {"reasoning": "reasoning_tokens"})
    return subtract_cached(found)
