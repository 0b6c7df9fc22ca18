"""The OpenAI Chat Completions wire."""

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

_DONE = b"data: [DONE]\n\n"


class ChatWire:
    """`POST …/chat/completions`."""

    name = "chat"

    def purpose(self, method: str, path: str) -> Purpose | None:
        return "call" if method == "POST" and path.endswith("/chat/completions") else None

    def ask(self, body: Json, path: str) -> Ask:
        latest = _after_last_answer(objects(body.get("messages")))
        said = [message for message in latest if message.get("role") == "user"]
        results = [message for message in latest if message.get("role") == "tool"]
        return Ask(
            model=word(body, "model"),
            stream=body.get("stream") is True,
            tools=tuple(_tool(declared) for declared in objects(body.get("tools"))),
            newest_text=newest(_contents(said), _contents(results)),
            max_output=limit(body, "max_completion_tokens") or limit(body, "max_tokens"),
            turns=len(objects(body.get("messages"))),
        )

    def stream(self, answer: Answer) -> Stream:
        id_ = fresh_id("chatcmpl-")
        head: list[Json] = [{"role": "assistant", "content": ""}]
        head += [{"reasoning_content": part} for part in answer.think]
        head += [{"content": part} for part in answer.say]
        calls = [{"tool_calls": [{"index": index, **_call(use)}]} for index, use in enumerate(answer.tools)]
        tail = [_chunk(answer, id_=id_, delta=delta) for delta in calls]
        tail.append(_chunk(answer, id_=id_, delta={}, finish_reason=_finish_reason(answer)))
        tail.append({**_chunk(answer, id_=id_, delta={}), "choices": [], "usage": _usage(answer.usage)})
        return Stream(
            head=tuple(event(_chunk(answer, id_=id_, delta=delta)) for delta in head),
            tail=(*(event(chunk) for chunk in tail), _DONE),
        )

    def body(self, answer: Answer) -> bytes:
        message: Json = {"role": "assistant", "content": "".join(answer.say) or None}
        if answer.think:
            message["reasoning_content"] = "".join(answer.think)
        if answer.tools:
            message["tool_calls"] = [_call(use) for use in answer.tools]
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
        named = {
            "id": fresh_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 0,
            "model": answer.model,
        }
        return msgspec.json.encode({**named, "choices": [choice], "usage": _usage(answer.usage)})

    def error(self, status: int, message: str, *, kind: str = "") -> bytes:
        return error_body(status, message, kind=kind)

    def read(self, event: Json) -> Reading:
        reasons = [word(choice, "finish_reason") for choice in objects(event.get("choices"))]
        return Reading(counts=_counts(inner(event, "usage")), final=any(reasons), message=error_message(event))


def _after_last_answer(messages: list[Json]) -> list[Json]:
    start = 0
    for number, message in enumerate(messages, start=1):
        if message.get("role") == "assistant":
            start = number
    return messages[start:]


def _contents(messages: list[Json]) -> list[str]:
    return [text for message in messages for text in texts(message.get("content"))]


def _tool(declared: Json) -> Tool:
    """The declaration stands one level down, under the tool's type."""
    kind = word(declared, "type")
    return function_tool({"type": kind, **inner(declared, kind)}, schema_key="parameters")


def _call(use: ToolUse) -> Json:
    id_ = fresh_id("call_")
    if use.kind == "custom":
        return {"id": id_, "type": "custom", "custom": {"name": use.name, "input": use.text}}
    written = msgspec.json.encode(use.arguments or {}).decode()
    return {"id": id_, "type": "function", "function": {"name": use.name, "arguments": written}}


def _chunk(answer: Answer, *, id_: str, delta: Json, finish_reason: str | None = None) -> Json:
    return {
        "id": id_,
        "object": "chat.completion.chunk",
        "created": 0,
        "model": answer.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if answer.tools else "stop"


def _usage(usage: Usage) -> Json:
    """Here the input includes what a cache took, unlike in `Usage`."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": taken,
        "completion_tokens": usage.output,
        "total_tokens": taken + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _counts(usage: Json) -> dict[str, int]:
    found = counts(usage, {"input": "prompt_tokens", "output": "completion_tokens"})
    cached = {"cache_read": "cached_tokens", "cache_write": "cache_write_tokens"}
    found |= counts(inner(usage, "prompt_tokens_details"), cached)
    found |= counts(inner(usage, "completion_tokens_details"), {"reasoning": "reasoning_tokens"})
    thought = found.get("reasoning", 0)
    # Some count the reasoning beside the answer and not in it; their total tells.
    if thought and usage.get("total_tokens") == sum(found.get(name, 0) for name in ("input", "output", "reasoning")):
        found["output"] = found.get("output", 0) + thought
    return without_cache(found)
