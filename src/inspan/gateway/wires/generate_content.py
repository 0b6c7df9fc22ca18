"""The generate wire, Google's: `generateContent` and `streamGenerateContent`, with the model in the path."""

import re

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
    encode_event,
    field_types,
    find_largest,
    fresh_id,
    get_object,
    get_text,
    list_objects,
    pick_newest_text,
    read_counts,
    subtract_cached,
)
from inspan.protocol.usage import Usage

_METHODS: dict[str, Purpose] = {
    "generateContent": "call",
    "streamGenerateContent": "call",
    "countTokens": "count tokens",
}
_LOCATION = r"(?:/projects/[\w.:-]+/locations/[\w-]+(?:/publishers/[\w-]+)?)?"
_CALL = re.compile(
    rf"(?:(?:/v1(?:alpha|beta)?\d?)?{_LOCATION}/(?:models|tunedModels|endpoints)/(?P<model>[\w.@-]+)|/v1internal)"
    r":(?P<method>[A-Za-z]+)",
    re.ASCII,
)
# Under `/v1` every provider lists its models, so only the paths that no other has are known from the path alone.
_MODELS = re.compile(rf"/v1(?:alpha|beta)\d?{_LOCATION}/models(?:/[\w.@-]+)?", re.ASCII)
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
    refusal_status = 402
    key_places = (KeyPlace("x-goog-api-key"), KeyPlace("key", in_query=True), BEARER)
    own_headers = ("x-goog-api-key",)

    def find_purpose(self, method: str, path: str) -> Purpose | None:
        if method == "GET":
            return "list models" if _MODELS.fullmatch(path) else None
        return _METHODS.get(_parse_method(path)) if method == "POST" else None

    def parse_request(self, body: Json, path: str) -> Ask:
        # A login of the vendor's own asks with the same words, one level down.
        asked = get_object(body, "request") or body
        contents = _get_list(asked, "contents")
        latest = _find_latest(contents)
        parts = [part for content in latest for part in list_objects(content.get("parts"))]
        results = [_get_nested(part, "functionResponse") for part in parts]
        return Ask(
            model=_parse_model(path) or get_text(body, "model").removeprefix("models/"),
            stream=_parse_method(path) == "streamGenerateContent",
            tools=tuple(_parse_tools(asked)),
            newest_text=pick_newest_text(
                _part_texts(parts), [text for result in results for text in _collect_strings(result.get("response"))]
            ),
            max_output=_largest(body, "maxOutputTokens"),
            turns=len(contents),
            built_in=tuple(_list_built_in(asked)),
            results=len([result for result in results if result]),
            answers=_largest(body, "candidateCount") or 1,
            inputs=_inputs(body),
        )

    def encode_stream(self, answer: Answer) -> Stream:
        id_ = fresh_id("")
        so_far = _encode_usage(msgspec.structs.replace(answer.usage, output=0, reasoning=0))
        head = [
            {**_build_response(answer, [part], id_=id_), "usageMetadata": so_far} for part in _build_text_parts(answer)
        ]
        ending = [_encode_call(use) for use in answer.tools] or [{"text": ""}]
        last = _build_response(answer, ending, id_=id_, is_last=True)
        return Stream(head=tuple(encode_event(item) for item in head), tail=(encode_event(last),))

    def encode_body(self, answer: Answer) -> bytes:
        whole = [{"text": "".join(answer.think), "thought": True}] if answer.think else []
        whole += [{"text": "".join(answer.say)}] if answer.say else []
        whole += [_encode_call(use) for use in answer.tools]
        return msgspec.json.encode(_build_response(answer, whole or [{"text": ""}], id_=fresh_id(""), is_last=True))

    def encode_side_answer(self, purpose: Purpose, *, tokens: int) -> bytes:
        answers: dict[Purpose, Json] = {"count tokens": {"totalTokens": tokens}, "list models": {"models": []}}
        return msgspec.json.encode(answers.get(purpose, {}))

    def encode_error(self, status: int, message: str, *, kind: str = "") -> bytes:
        usual = _STATUS_WORDS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return msgspec.json.encode({"error": {"code": status, "message": message, "status": kind or usual}})

    def read_event(self, event: Json) -> Reading:
        response = get_object(event, "response") or event
        candidates = list_objects(response.get("candidates"))
        failed, blocked = get_object(event, "error"), get_text(get_object(response, "promptFeedback"), "blockReason")
        ended = any(get_text(candidate, "finishReason") for candidate in candidates)
        return Reading(
            counts=_read_usage(get_object(response, "usageMetadata")),
            extras=_read_extras(candidates),
            final=ended or bool(failed) or bool(blocked),
            failed=bool(failed),
            so_far=bool(candidates) and not ended,
            message=get_text(failed, "message"),
        )


def _parse_method(path: str) -> str:
    """The last word of a path such as `/v1beta/models/some-model:generateContent`."""
    found = _CALL.fullmatch(path)
    return found["method"] if found else ""


def _parse_model(path: str) -> str:
    """The model that a path names; none where the body does."""
    found = _CALL.fullmatch(path)
    return (found["model"] or "") if found else ""


def _find_latest(contents: list[Json]) -> list[Json]:
    start = 0
    for number, content in enumerate(contents, start=1):
        if content.get("role") == "model":
            start = number
    return contents[start:]


def _part_texts(parts: list[Json]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def _collect_strings(value: object) -> list[str]:
    """Every text in what a tool has returned, which each program shapes as it likes."""
    if isinstance(value, str):
        return [value]
    items: list[object] = list(value.values()) if isinstance(value, dict) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] (JSON)
    items += value if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType] (JSON)
    return [text for item in items for text in _collect_strings(item)]


def _tool_groups(asked: Json) -> list[Json]:
    # Some agents send one object where the provider documents a list of them, and it takes both.
    return [get_object(asked, "tools")] if isinstance(asked.get("tools"), dict) else _get_list(asked, "tools")


def _parse_tools(asked: Json) -> list[Tool]:
    declared = [tool for offered in _tool_groups(asked) for tool in _get_list(offered, "functionDeclarations")]
    return [
        Tool(name=get_text(tool, "name"), fields=_tool_fields(tool), schema=_tool_schema(tool)) for tool in declared
    ]


def _list_built_in(asked: Json) -> list[str]:
    """The names of the tools that a request only switches on."""
    own = ("functionDeclarations", "function_declarations")
    return [name for offered in _tool_groups(asked) for name in offered if name not in own]


def _tool_schema(tool: Json) -> Json:
    """The whole schema may be given under another name."""
    return _get_nested(tool, "parameters") or _get_nested(tool, "parametersJsonSchema")


def _tool_fields(tool: Json) -> dict[str, str]:
    """Types may be written in capitals."""
    return {name: type_.lower() for name, type_ in field_types(_tool_schema(tool)).items()}


def _levels(body: Json) -> tuple[Json, Json]:
    """Where a provider may look: which of the two it is depends on who it is."""
    return body, get_object(body, "request")


def _largest(body: Json, key: str) -> int | None:
    """The largest number that stands at a key of the settings, in any of their spellings."""
    configs = [get_object(asked, name) for asked in _levels(body) for name in _spellings("generationConfig")]
    return find_largest(*(config.get(name) for config in configs for name in _spellings(key)))


def _inputs(body: Json) -> Inputs:
    reader = InputReader()
    for asked in _levels(body):
        if _get_either(asked, "cachedContent"):
            reader.add_unsized("cachedContent")
        for content in (*_get_list(asked, "contents"), _get_nested(asked, "systemInstruction")):
            _read_parts(reader, list_objects(content.get("parts")))
        for name in _list_built_in(asked):
            reader.add_tool(name)
    return reader.inputs


def _read_parts(reader: InputReader, parts: list[Json]) -> None:
    for part in parts:
        if _get_nested(part, "fileData"):
            reader.add_unsized("fileData")
        if held := _get_nested(part, "inlineData"):
            kind = get_text({"kind": _get_either(held, "mimeType")}, "kind")
            if kind.startswith("image/"):
                reader.add_picture(held.get("data"), name="inlineData")
            elif not kind.startswith("text/"):
                reader.add_unsized(f"inlineData of {kind or 'an unknown type'}")
        _read_parts(reader, list_objects(_get_nested(part, "functionResponse").get("parts")))


def _spellings(key: str) -> tuple[str, str]:
    """As it is, and with underscores: the provider reads both."""
    return key, re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


def _get_either(source: Json, key: str) -> object:
    """What stands at a key, in either spelling."""
    return next((source[name] for name in _spellings(key) if source.get(name)), None)


def _get_nested(source: Json, key: str) -> Json:
    return get_object({key: _get_either(source, key)}, key)


def _get_list(source: Json, key: str) -> list[Json]:
    return list_objects(_get_either(source, key))


def _build_text_parts(answer: Answer) -> list[Json]:
    thoughts: list[Json] = [{"text": text, "thought": True} for text in answer.think]
    return thoughts + [{"text": text} for text in answer.say]


def _encode_call(use: ToolUse) -> Json:
    """A tool use; the provider refuses the next request when its signature does not come back."""
    wanted = {"id": fresh_id("call_"), "name": use.name, "args": use.arguments or {}}
    return {"functionCall": wanted, "thoughtSignature": _SIGNATURE}


def _build_response(answer: Answer, parts: list[Json], *, id_: str, is_last: bool = False) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    response: Json = {"candidates": [candidate], "modelVersion": answer.model, "responseId": id_}
    if is_last:
        candidate["finishReason"] = "STOP"
        response["usageMetadata"] = _encode_usage(answer.usage)
    return response


def _encode_usage(usage: Usage) -> Json:
    """Here the prompt includes what a cache took, the candidates leave out the thoughts, and no cache is written to."""
    taken = usage.input + usage.cache_read + usage.cache_write
    return {
        "promptTokenCount": taken,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": max(0, usage.output - usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": taken + usage.output,
    }


def _read_usage(usage: Json) -> dict[str, int]:
    names = {"input": "promptTokenCount", "cache_read": "cachedContentTokenCount"}
    names |= {"output": "candidatesTokenCount", "reasoning": "thoughtsTokenCount"}
    found = subtract_cached(read_counts(usage, names))
    if "input" in found:
        found.setdefault("cache_read", 0)  # Left out when nothing was read, also after a piece that stated some.
    # What its own tools (a search, a program that it ran) have put into the prompt is counted beside it.
    added = read_counts(usage, {"input": "toolUsePromptTokenCount"}).get("input", 0)
    if added:
        found["input"] = found.get("input", 0) + added
    if "reasoning" in found:
        found["output"] = found.get("output", 0) + found["reasoning"]
    return found


def _read_extras(candidates: list[Json]) -> dict[str, int]:
    asked = [get_object(candidate, "groundingMetadata").get("webSearchQueries") for candidate in candidates]
    searches = sum(len(queries) for queries in asked if isinstance(queries, list))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] (JSON)
    return {"searches": searches} if searches else {}
