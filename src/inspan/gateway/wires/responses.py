"""The OpenAI Responses wire."""

import msgspec

from inspan.gateway.upstream import Ask, Purpose, Tool
from inspan.gateway.wires.openai_errors import error_body, error_message
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
    without_cache,
    word,
)
from inspan.protocol.usage import Usage

_FINAL_TYPES = ("response.completed", "response.incomplete", "response.failed", "error")
_MODEL_ITEMS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
_WORDS = ("reasoning", "message")
# Not all who speak this wire have OpenAI's names for them.
_CACHED = (
    {"cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens"},
    {"cache_read": "cached_tokens", "cache_write": "cache_write_tokens"},
)


class ResponsesWire:
    """`POST …/responses`."""

    name = "responses"

    def purpose(self, method: str, path: str) -> Purpose | None:
        return "call" if method == "POST" and path.endswith("/responses") else None

    def ask(self, body: Json, path: str) -> Ask:
        given = body.get("input")
        items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        latest = _after_last_answer(items)
        said = [text for item in latest if item.get("role") == "user" for text in texts(item.get("content"))]
        declared = objects(body.get("tools"))
        for item in items:
            declared += objects(item.get("tools")) if item.get("type") == "additional_tools" else []
        return Ask(
            model=word(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(_tools(declared)),
            newest_text=newest(said, [text for item in latest for text in texts(item.get("output"))]),
            max_output=limit(body, "max_output_tokens"),
            turns=len(items),
        )

    def stream(self, answer: Answer) -> Stream:
        response = _response(answer)
        begun: Json = {**response, "status": "in_progress", "output": [], "usage": None}
        head: list[Json] = [{"type": "response.created", "response": begun}]
        tail: list[Json] = []
        for index, item in enumerate(response["output"]):
            before, after = _item_events(item, index=index, answer=answer)
            is_words = item["type"] in _WORDS
            head += tail + before if is_words else []
            tail = after if is_words else tail + before + after
        tail.append({"type": "response.completed", "response": response})
        encoded = [
            event({**item, "sequence_number": number}, name=item["type"]) for number, item in enumerate(head + tail)
        ]
        return Stream(head=tuple(encoded[: len(head)]), tail=tuple(encoded[len(head) :]))

    def body(self, answer: Answer) -> bytes:
        return msgspec.json.encode(_response(answer))

    def error(self, status: int, message: str, *, kind: str = "") -> bytes:
        return error_body(status, message, kind=kind)

    def read(self, event: Json) -> Reading:
        response = inner(event, "response") or event
        usage = inner(response, "usage")
        whole = event.get("object") == "response" and event.get("status") != "in_progress"
        return Reading(
            counts=_counts(usage),
            extras=counts(inner(usage, "tool_calls_details", "search_web"), {"searches": "invocation"}),
            final=whole or event.get("type") in _FINAL_TYPES,
            message=error_message(event),
        )


def _after_last_answer(items: list[Json]) -> list[Json]:
    start = 0
    for number, item in enumerate(items, start=1):
        if item.get("type") in _MODEL_ITEMS or item.get("role") == "assistant":
            start = number
    return items[start:]


def _tools(declared: list[Json], *, namespace: str = "") -> list[Tool]:
    """The tools in a declaration, those inside a namespace included."""
    found: list[Tool] = []
    for tool in declared:
        if tool.get("type") == "namespace":
            found += _tools(objects(tool.get("tools")), namespace=word(tool, "name"))
        elif tool.get("type") in ("function", "custom"):
            found.append(function_tool(tool, schema_key="parameters", namespace=namespace))
    return found


def _response(answer: Answer) -> Json:
    return {
        "id": fresh_id("resp_"),
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": _items(answer),
        "usage": _usage(answer.usage),
    }


def _items(answer: Answer) -> list[Json]:
    items: list[Json] = []
    if answer.think:
        summary = [{"type": "summary_text", "text": "".join(answer.think)}]
        # With no content of its own a reasoning item is dropped from the next request unless this is set.
        items.append({"id": fresh_id("rs_"), "type": "reasoning", "summary": summary, "encrypted_content": "c2NyaXB0"})
    if answer.say:
        content: list[Json] = [{"type": "output_text", "text": "".join(answer.say), "annotations": []}]
        message: Json = {"type": "message", "role": "assistant", "status": "completed", "content": content}
        items.append({"id": fresh_id("msg_"), **message})
    return items + [_tool_item(use) for use in answer.tools]


def _tool_item(use: ToolUse) -> Json:
    named: Json = {"name": use.name, "call_id": fresh_id("call_"), "status": "completed"}
    if use.namespace:
        named["namespace"] = use.namespace
    if use.kind == "custom":
        return {"id": fresh_id("ctc_"), "type": "custom_tool_call", **named, "input": use.text}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return {"id": fresh_id("fc_"), "type": "function_call", **named, "arguments": written}


def _item_events(item: Json, *, index: int, answer: Answer) -> tuple[list[Json], list[Json]]:
    """The events of one item: up to its last delta, and those that close it."""
    place = {"output_index": index, "item_id": item["id"]}
    added = {"type": "response.output_item.added", "output_index": index, "item": _emptied(item)}
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    opening, deltas, closing = _CONTENT_EVENTS[item["type"]](item, place, answer)
    return [added, *opening, *deltas], [*closing, done]


def _emptied(item: Json) -> Json:
    empty: Json = {"summary": [], "content": [], "arguments": "", "input": "", "status": "in_progress"}
    return {key: empty.get(key, value) for key, value in item.items()}


_Parts = tuple[list[Json], list[Json], list[Json]]


def _reasoning_events(item: Json, place: Json, answer: Answer) -> _Parts:
    where = {**place, "summary_index": 0}
    part = item["summary"][0]
    added = {"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
    deltas = [{"type": "response.reasoning_summary_text.delta", **where, "delta": text} for text in answer.think]
    text_done = {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
    part_done = {"type": "response.reasoning_summary_part.done", **where, "part": part}
    return [added], deltas, [text_done, part_done]


def _message_events(item: Json, place: Json, answer: Answer) -> _Parts:
    where = {**place, "content_index": 0}
    part = item["content"][0]
    added = {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
    deltas = [{"type": "response.output_text.delta", **where, "delta": text} for text in answer.say]
    text_done = {"type": "response.output_text.done", **where, "text": part["text"]}
    part_done = {"type": "response.content_part.done", **where, "part": part}
    return [added], deltas, [text_done, part_done]


def _function_events(item: Json, place: Json, answer: Answer) -> _Parts:
    written = item["arguments"]
    delta = {"type": "response.function_call_arguments.delta", **place, "delta": written}
    return [], [delta], [{"type": "response.function_call_arguments.done", **place, "arguments": written}]


def _custom_events(item: Json, place: Json, answer: Answer) -> _Parts:
    written = item["input"]
    delta = {"type": "response.custom_tool_call_input.delta", **place, "delta": written}
    return [], [delta], [{"type": "response.custom_tool_call_input.done", **place, "input": written}]


_CONTENT_EVENTS = {
    "reasoning": _reasoning_events,
    "message": _message_events,
    "function_call": _function_events,
    "custom_tool_call": _custom_events,
}


def _usage(usage: Usage) -> Json:
    """Here the input includes what a cache took, unlike in `Usage`."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": taken + usage.output,
    }


def _counts(usage: Json) -> dict[str, int]:
    found = counts(usage, {"input": "input_tokens", "output": "output_tokens"})
    for cached in _CACHED:
        found |= counts(inner(usage, "input_tokens_details"), cached)
    found |= counts(inner(usage, "output_tokens_details"), {"reasoning": "reasoning_tokens"})
    return without_cache(found)
