"""The Gemini wire: what it reads out of requests and answers, and the stream that is one array."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.gateway.upstream import Purpose, Tool
from inspan.gateway.wires.arrays import ArrayReader
from inspan.gateway.wires.generate_content import GenerateWire
from inspan.gateway.wires.wire import Json
from inspan.protocol.usage import Usage

from .scripted_gateway import ScriptedGateway, ask_body

WIRE = GenerateWire()
ARRAY_PATH = "/v1beta/models/some-model:streamGenerateContent"
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
)
NAMES = st.sampled_from(
    (
        "candidates",
        "content",
        "parts",
        "finishReason",
        "usageMetadata",
        "promptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "cachedContentTokenCount",
        "toolUsePromptTokenCount",
        "groundingMetadata",
        "webSearchQueries",
        "promptFeedback",
        "error",
        "message",
        "response",
        "request",
        "contents",
        "role",
        "model",
        "text",
        "functionResponse",
        "tools",
        "functionDeclarations",
        "parameters",
        "properties",
        "generationConfig",
    )
)
ODD_BODIES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.just("model"),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(NAMES, children, max_size=5),
).flatmap(lambda value: st.dictionaries(NAMES, st.just(value), max_size=5))


@pytest.mark.parametrize(
    ("method", "path", "purpose"),
    [
        ("POST", "/v1beta/models/gemini-2.5-pro:generateContent", "call"),
        ("POST", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", "call"),
        ("POST", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", "call"),
        ("POST", "/v1internal:streamGenerateContent", "call"),
        ("POST", "/v1beta/models/m:countTokens", "count tokens"),
        ("POST", "/v1beta/models/m:embedContent", None),
        ("POST", "/v1beta/models/m", None),
        ("GET", "/v1beta/models/m:generateContent", None),
        ("GET", "/v1beta/models/m-1.5", "list models"),
        ("GET", "/v1beta/models/gemini-2.5-pro", "list models"),
        ("GET", "/v1/models", None),
    ],
)
def test_a_request_is_known_by_its_path(method: str, path: str, purpose: Purpose | None) -> None:
    assert WIRE.find_purpose(method, path) == purpose


@pytest.mark.parametrize(
    ("path", "body", "model", "stream"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", {}, "gemini-2.5-pro", False),
        ("/v1beta/models/m:streamGenerateContent", {"model": "other"}, "m", True),
        ("/v1beta/tunedModels/mine:generateContent", {"model": "models/mine"}, "mine", False),
        ("/v1internal:streamGenerateContent", {"model": "m", "request": {"contents": []}}, "m", True),
    ],
)
def test_the_path_names_the_model_and_whether_it_streams(path: str, body: Json, model: str, stream: bool) -> None:
    ask = WIRE.parse_request(body, path)
    assert (ask.model, ask.stream) == (model, stream)


@pytest.mark.parametrize(
    "declared",
    [
        {"functionDeclarations": [{"name": "look", "parameters": {"properties": {"at": {"type": "STRING"}}}}]},
        {
            "functionDeclarations": [
                {"name": "look", "parametersJsonSchema": {"properties": {"at": {"type": "string"}}}}
            ]
        },
        {"function_declarations": [{"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}]},
    ],
    ids=["capitals", "json-schema", "underscores"],
)
def test_tools_are_found_in_any_spelling(declared: Json) -> None:
    ask = WIRE.parse_request({"tools": [{"googleSearch": {}}, declared]}, ARRAY_PATH)
    assert ask.tools == (Tool(name="look", fields={"at": "string"}),)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ({}, None),
        ({"generationConfig": {"maxOutputTokens": 4096}}, 4096),
        ({"generation_config": {"max_output_tokens": 4096}}, 4096),
        ({"request": {"generationConfig": {"maxOutputTokens": 7}}}, 7),
        ({"generationConfig": {"maxOutputTokens": -1}}, None),
    ],
)
def test_the_most_that_an_answer_may_have_is_found(body: Json, most: int | None) -> None:
    assert WIRE.parse_request(body, ARRAY_PATH).max_output == most


def test_the_conversation_is_counted() -> None:
    assert (
        WIRE.parse_request({"contents": [{"role": "user"}, {"role": "model"}, {"role": "user"}]}, ARRAY_PATH).turns == 3
    )


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"trafficType": "ON_DEMAND"}, {}),
        ({"promptTokenCount": 10}, {"input": 10, "cache_read": 0}),
        (
            {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
            {"input": 6, "cache_read": 4, "output": 7, "reasoning": 2},
        ),
        ({"thoughtsTokenCount": 3}, {"output": 3, "reasoning": 3}),
        ({"promptTokenCount": 1, "toolUsePromptTokenCount": 8}, {"input": 9, "cache_read": 0}),
    ],
)
def test_tokens_are_counted_each_once(usage: Json, counts: dict[str, int]) -> None:
    assert WIRE.read_event({"usageMetadata": usage}).counts == counts
    assert WIRE.read_event({"response": {"usageMetadata": usage}}).counts == counts


@pytest.mark.parametrize(
    ("event", "final", "message"),
    [
        ({"candidates": [{"content": {"role": "model"}}]}, False, ""),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, True, ""),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, True, ""),
        ({"error": {"code": 429, "message": "later"}}, True, "later"),
    ],
)
def test_the_end_of_an_answer_is_known(event: Json, final: bool, message: str) -> None:
    reading = WIRE.read_event(event)
    assert (reading.final, reading.message) == (final, message)


def test_searches_are_counted_beside_the_tokens() -> None:
    grounded = {"groundingMetadata": {"webSearchQueries": ["a", "b"]}}
    assert WIRE.read_event({"candidates": [grounded]}).extras == {"searches": 2}


@given(ODD_BODIES)
def test_nothing_that_comes_breaks_it(body: Json) -> None:
    WIRE.read_event(body)
    WIRE.parse_request(body, ARRAY_PATH)


def test_without_events_a_stream_is_one_array() -> None:
    with ScriptedGateway('[[call]]\nsay = ["one ", "two"]\n') as stage:
        response = stage.send("POST", ARRAY_PATH, body=ask_body("generate", "hi", stream=True))
    assert response.headers["content-type"] == "application/json"
    said = [item["candidates"][0]["content"]["parts"][0]["text"] for item in json.loads(response.body)]
    assert said == ["one ", "two", ""]


def test_an_array_is_metered_as_it_comes() -> None:
    late = '[{"error": {"code": 429, "message": "later"}}]'
    with ScriptedGateway(
        f'[[call]]\nsay = ["one ", "two"]\n[[call]]\nfail = {{status = 429, body = \'{late}\'}}\n'
    ) as stage:
        for _ in range(2):
            stage.send("POST", ARRAY_PATH, body=ask_body("generate", "hi", stream=True))
        whole, failed = stage.next_call(), stage.next_call()
    assert (whole.usage, whole.problem) == (Usage(input=110, output=7, cache_read=20, reasoning=3), "")
    assert (failed.status, failed.message) == (429, "later")


def test_a_tool_use_has_an_id_and_a_signature() -> None:
    with ScriptedGateway("[[call]]\nuse = {tool = 'look', input = {at = 'me'}}\n") as stage:
        (event,) = stage.ask("generate").events
    (candidate,) = event["candidates"]
    (part,) = candidate["content"]["parts"]
    assert candidate["finishReason"] == "STOP"
    assert part["thoughtSignature"]
    assert {**part["functionCall"], "id": ""} == {"id": "", "name": "look", "args": {"at": "me"}}
    assert part["functionCall"]["id"]


@given(st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=4), max_size=5), st.integers(1, 9), st.booleans())
def test_the_elements_of_an_array_are_found_in_pieces_of_any_size(
    elements: list[Json], size: int, pretty: bool
) -> None:
    written = json.dumps(elements, indent=2 if pretty else None, ensure_ascii=pretty).encode()
    reader = ArrayReader()
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    found = [json.loads(element) for piece in pieces for element in reader.feed(piece)]
    assert found == elements


def test_what_is_cut_short_gives_the_elements_that_were_whole() -> None:
    assert ArrayReader().feed(b'[{"a": 1},\r\n{"b": "}]') == [b'{"a": 1}']


def test_an_element_that_is_far_too_long_is_left_out() -> None:
    reader = ArrayReader()
    found = reader.feed(b'[{"image": "')
    for _ in range(17):
        found += reader.feed(b"x" * 1024 * 1024)
    assert found + reader.feed(b'"}, {"a": 1}]') == [b'{"a": 1}']


@given(st.binary())
def test_bytes_that_are_no_array_do_no_harm(data: bytes) -> None:
    ArrayReader().feed(data)
