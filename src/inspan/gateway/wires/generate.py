"""The generate wire, Google's: `generateContent` and `streamGenerateContent`, with the model in the path."""

import re

import msgspec

from inspan.gateway.upstream import Ask, Purpose, Tool
from inspan.gateway.wires.wire import (
    Answer,
    Json,
    Reading,
    Stream,
    ToolUse,
    counts,
    event,
    field_types,
    fresh_id,
    inner,
    limit,
    newest,
    objects,
    without_cache,
    word,
)
from inspan.protocol.usage import Usage

_METHODS: dict[str, Purpose] = {
    "generateContent": "call",
    "streamGenerateContent": "call",
    "countTokens": "count tokens",
}
# Under `/v1` every provider lists its models, so only the paths that no other has are known from the path alone.
_MODELS = re.compile(r"/v1(?:alpha|beta)\w*(?:/\S+)?/models(?:/[^/:]+)?$")
_STATUS_WORDS = {
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_SIGNATURE = "c2NyaXB0"


class GenerateWire:
    """`POST …/models/{model}:generateContent` and its siblings; a stream is asked for by its own method."""

    name = "generate"

    def purpose(self, method: str, path: str) -> Purpose | None:
        if method == "GET":
            return "list models" if _MODELS.search(path) else None
        return _METHODS.get(_method(path)) if method == "POST" else None

    def ask(self, body: Json, path: str) -> Ask:
        # A login of the vendor's own asks with the same words, one level down.
        asked = inner(body, "request") or body
        contents = _list(asked, "contents")
        latest = _after_last_answer(contents)
        parts = [part for content in latest for part in objects(content.get("parts"))]
        results = [_object(part, "functionResponse") for part in parts]
        return Ask(
            model=_model(path) or word(body, "model").removeprefix("models/"),
            stream=_method(path) == "streamGenerateContent",
            tools=tuple(_tools(asked)),
            newest_text=newest(_said(parts), [text for result in results for text in _strings(result.get("response"))]),
            max_output=_max_output(asked),
            turns=len(contents),
        )

    def stream(self, answer: Answer) -> Stream:
        id_ = fresh_id("")
        so_far = _usage(msgspec.structs.replace(answer.usage, output=0, reasoning=0))
        head = [{**_response(answer, [part], id_=id_), "usageMetadata": so_far} for part in _words(answer)]
        ending = [_call(use) for use in answer.tools] or [{"text": ""}]
        last = _response(answer, ending, id_=id_, ends=True)
        return Stream(head=tuple(event(item) for item in head), tail=(event(last),))

    def body(self, answer: Answer) -> bytes:
        whole = [{"text": "".join(answer.think), "thought": True}] if answer.think else []
        whole += [{"text": "".join(answer.say)}] if answer.say else []
        whole += [_call(use) for use in answer.tools]
        return msgspec.json.encode(_response(answer, whole or [{"text": ""}], id_=fresh_id(""), ends=True))

    def error(self, status: int, message: str, *, kind: str = "") -> bytes:
        usual = _STATUS_WORDS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return msgspec.json.encode({"error": {"code": status, "message": message, "status": kind or usual}})

    def read(self, event: Json) -> Reading:
        response = inner(event, "response") or event
        candidates = objects(response.get("candidates"))
        failed, blocked = inner(event, "error"), word(inner(response, "promptFeedback"), "blockReason")
        ended = any(word(candidate, "finishReason") for candidate in candidates)
        return Reading(
            counts=_counts(inner(response, "usageMetadata")),
            extras=_extras(candidates),
            final=ended or bool(failed) or bool(blocked),
            message=word(failed, "message"),
        )


def _method(path: str) -> str:
    """The last word of a path such as `/v1beta/models/some-model:generateContent`."""
    return path.rpartition(":")[2]


def _model(path: str) -> str:
    """The model that a path names; none where the body does."""
    return path.rpartition(":")[0].rpartition("/models/")[2] if "/models/" in path else ""


def _after_last_answer(contents: list[Json]) -> list[Json]:
    start = 0
    for number, content in enumerate(contents, start=1):
        if content.get("role") == "model":
            start = number
    return contents[start:]


def _said(parts: list[Json]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def _strings(value: object) -> list[str]:
    """Every text in what a tool has returned, which each program shapes as it likes."""
    if isinstance(value, str):
        return [value]
    items: list[object] = list(value.values()) if isinstance(value, dict) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] (JSON)
    items += value if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType] (JSON)
    return [text for item in items for text in _strings(item)]


def _tools(asked: Json) -> list[Tool]:
    # Some agents send one object where the provider documents a list of them, and it takes both.
    offers = [inner(asked, "tools")] if isinstance(asked.get("tools"), dict) else _list(asked, "tools")
    declared = [tool for offered in offers for tool in _list(offered, "functionDeclarations")]
    return [Tool(name=word(tool, "name"), fields=_fields(tool)) for tool in declared]


def _fields(tool: Json) -> dict[str, str]:
    """Types may be written in capitals, or the whole schema given under another name."""
    types = field_types(_object(tool, "parameters") or _object(tool, "parametersJsonSchema"))
    return {name: type_.lower() for name, type_ in types.items()}


def _max_output(asked: Json) -> int | None:
    config = _object(asked, "generationConfig")
    return limit(config, "maxOutputTokens") or limit(config, "max_output_tokens")


def _either(source: Json, key: str) -> object:
    """What stands at a key, which may also be spelled with underscores: the provider reads both."""
    return source.get(key, source.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)))


def _object(source: Json, key: str) -> Json:
    return inner({key: _either(source, key)}, key)


def _list(source: Json, key: str) -> list[Json]:
    return objects(_either(source, key))


def _words(answer: Answer) -> list[Json]:
    thoughts: list[Json] = [{"text": text, "thought": True} for text in answer.think]
    return thoughts + [{"text": text} for text in answer.say]


def _call(use: ToolUse) -> Json:
    """A tool use; the provider refuses the next request when its signature does not come back."""
    wanted = {"id": fresh_id("call_"), "name": use.name, "args": use.arguments or {}}
    return {"functionCall": wanted, "thoughtSignature": _SIGNATURE}


def _response(answer: Answer, parts: list[Json], *, id_: str, ends: bool = False) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    response: Json = {"candidates": [candidate], "modelVersion": answer.model, "responseId": id_}
    if ends:
        candidate["finishReason"] = "STOP"
        response["usageMetadata"] = _usage(answer.usage)
    return response


def _usage(usage: Usage) -> Json:
    """Here the prompt includes what a cache took, the candidates leave out the thoughts, and no cache is written to."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "promptTokenCount": taken,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": max(0, usage.output - usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": taken + usage.output,
    }


def _counts(usage: Json) -> dict[str, int]:
    names = {"input": "promptTokenCount", "cache_read": "cachedContentTokenCount"}
    names |= {"output": "candidatesTokenCount", "reasoning": "thoughtsTokenCount"}
    found = without_cache(counts(usage, names))
    if "input" in found:
        found.setdefault("cache_read", 0)  # Left out when nothing was read, also after a piece that stated some.
    # What its own tools (a search, a program that it ran) have put into the prompt is counted beside it.
    added = counts(usage, {"input": "toolUsePromptTokenCount"}).get("input", 0)
    if added:
        found["input"] = found.get("input", 0) + added
    if "reasoning" in found:
        found["output"] = found.get("output", 0) + found["reasoning"]
    return found


def _extras(candidates: list[Json]) -> dict[str, int]:
    asked = [inner(candidate, "groundingMetadata").get("webSearchQueries") for candidate in candidates]
    searches = sum(len(queries) for queries in asked if isinstance(queries, list))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] (JSON)
    return {"searches": searches} if searches else {}
