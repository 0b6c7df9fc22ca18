"""What a request may take is guessed from its size, and better once this run's calls have told."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inspan.contracts.output_cap import DEFAULT_MAX_OUTPUT_TOKENS
from inspan.gateway.upstream import Request
from inspan.gateway.wires import BY_NAME
from inspan.protocol.usage import Usage
from inspan.spending.estimates import Estimator

from .spending_run import request

Json = dict[str, Any]
_PATHS = {"generate": "/v1beta/models/some-model:generateContent"}
_BEGINNINGS = {
    "png": b"\x89PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0",
    "gif": b"GIF89a",
    "webp": b"RIFF\x00\x00\x00\x00WEBP",
}


def _picture(kind: str, size: int = 300_000) -> str:
    return base64.b64encode(_BEGINNINGS[kind] + os.urandom(size)).decode()


def _sent(wire: str, body: Json, *, headers: Mapping[str, str] | None = None) -> Request:
    """A request as the gateway hands it over."""
    plain = json.dumps(body).encode()
    ask = BY_NAME[wire].parse_request(json.loads(plain), _PATHS.get(wire, "/"))
    return replace(request(plain=plain), wire=wire, ask=ask, headers=headers or {})


def _build_request(*content: object) -> Request:
    return _sent("messages", {"messages": [{"role": "user", "content": list(content)}]})


def _image(data: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


# Each wire's own field for a picture, and its field for words.
def _holding_picture(wire: str, data: str, kind: str = "png") -> Json:
    url = f"data:image/{kind};base64,{data}"
    bodies: dict[str, Json] = {
        "messages": {"messages": [{"role": "user", "content": [_image(data)]}]},
        "responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
        "chat": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
        "generate": {"contents": [{"parts": [{"inlineData": {"mimeType": f"image/{kind}", "data": data}}]}]},
    }
    return bodies[wire]


def _holding_text(wire: str, text: str) -> Json:
    bodies: dict[str, Json] = {
        "messages": {"messages": [{"role": "user", "content": text}]},
        "responses": {"input": text},
        "chat": {"messages": [{"role": "user", "content": text}]},
        "generate": {"contents": [{"parts": [{"text": text}]}]},
    }
    return bodies[wire]


def test_text_is_guessed_at_three_bytes_for_a_token() -> None:
    assert Estimator().estimate(request(3000)).input == 1001


@pytest.mark.parametrize("wire", BY_NAME)
@pytest.mark.parametrize("kind", _BEGINNINGS)
def test_a_picture_costs_what_pictures_cost_and_not_what_its_bytes_would(wire: str, kind: str) -> None:
    estimate = Estimator().estimate(_sent(wire, _holding_picture(wire, _picture(kind), kind)))
    assert (estimate.pictures, estimate.unsized, 1600 <= estimate.input < 1700) == (1, (), True)


def test_pictures_are_counted_one_by_one_and_small_ones_as_large_ones() -> None:
    pictures = [_image(_picture(kind, size)) for kind, size in (("png", 5000), ("jpeg", 50), ("png", 5000))]
    result = {"type": "tool_result", "tool_use_id": "t", "content": pictures[1:]}
    assert Estimator().estimate(_build_request(pictures[0], result)).pictures == 3


@pytest.mark.parametrize("wire", BY_NAME)
@pytest.mark.parametrize("beginning", ["/9j/ ", "R0lGOD ", "UklGR ", "iVBORw0KGg ", "/9j/", "iVBORw0KGg"])
def test_words_that_begin_like_a_picture_count_as_words(wire: str, beginning: str) -> None:
    asked = _sent(wire, _holding_text(wire, beginning + "the quick brown fox. " * 20_000))
    assert Estimator().estimate(asked).input == len(asked.plain) // 3 + 1


@pytest.mark.parametrize("wire", BY_NAME)
def test_words_in_the_place_of_a_picture_count_as_words_at_least(wire: str) -> None:
    asked = _sent(wire, _holding_picture(wire, "/9j/ " + "the quick brown fox. " * 20_000))
    estimate = Estimator().estimate(asked)
    assert (estimate.pictures, estimate.input >= len(asked.plain) // 3, bool(estimate.unsized)) == (0, True, True)


def _message(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def _input(*items: Json) -> Json:
    return {"input": list(items)}


def _document(**source: str) -> Json:
    return {"type": "document", "source": source}


_PDF = base64.b64encode(b"%PDF-1.7" + os.urandom(100)).decode()
_ELSEWHERE: list[tuple[str, Json, str]] = [
    ("messages", _message(_document(type="url", url="https://example.org/a.pdf")), "document"),
    ("messages", _message(_document(type="file", file_id="file_1")), "document"),
    ("messages", _message(_document(type="base64", media_type="application/pdf", data=_PDF)), "document"),
    ("messages", _message({"type": "image", "source": {"type": "url", "url": "https://example.org/a"}}), "image"),
    ("messages", _message({"type": "image", "source": {"type": "file", "file_id": "file_1"}}), "image"),
    ("messages", _message({"type": "container_upload", "file_id": "file_1"}), "container_upload"),
    (
        "messages",
        _message({"type": "tool_result", "content": [_document(type="file", file_id="file_1")]}),
        "document",
    ),
    ("messages", {"mcp_servers": [{"type": "url", "url": "https://example.org"}]}, "mcp_servers"),
    ("messages", {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "web_fetch_20250910"),
    ("responses", {"input": "go on", "previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"input": "go on", "conversation": {"id": "conv_1"}}, "conversation"),
    ("responses", {"prompt": {"id": "pmpt_1"}}, "prompt"),
    ("responses", _input({"type": "item_reference", "id": "msg_1"}), "item_reference"),
    ("responses", _input({"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}), "input_file"),
    ("responses", _input({"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}), "input_image"),
    (
        "responses",
        _input({"type": "function_call_output", "output": [{"type": "input_file", "file_url": "https://a"}]}),
        "input_file",
    ),
    ("responses", {"input": "hi", "tools": [{"type": "file_search", "vector_store_ids": ["vs"]}]}, "file_search"),
    ("responses", {"input": "hi", "tools": [{"type": "mcp", "server_url": "https://a"}]}, "mcp"),
    ("chat", _message({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}), "image_url"),
    ("chat", _message({"type": "file", "file": {"file_id": "file_1"}}), "file"),
    ("chat", _message({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}), "input_audio"),
    ("chat", {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, "audio"),
    ("generate", {"cachedContent": "cachedContents/1"}, "cachedContent"),
    ("generate", {"cached_content": "cachedContents/1"}, "cachedContent"),
    ("generate", {"contents": [{"parts": [{"fileData": {"fileUri": "gs://a"}}]}]}, "fileData"),
    ("generate", {"contents": [{"parts": [{"file_data": {"file_uri": "gs://a"}}]}]}, "fileData"),
    ("generate", {"systemInstruction": {"parts": [{"fileData": {"fileUri": "gs://a"}}]}}, "fileData"),
    (
        "generate",
        {"contents": [{"parts": [{"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}}]}]},
        "inlineData of video/mp4",
    ),
    (
        "generate",
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "parts": [{"fileData": {"fileUri": "gs"}}]}}]}]},
        "fileData",
    ),
    ("generate", {"tools": [{"urlContext": {}}]}, "urlContext"),
]


@pytest.mark.parametrize(("wire", "body", "name"), _ELSEWHERE)
def test_for_what_a_request_only_refers_to_all_that_the_model_takes_in_is_set_aside(
    wire: str, body: Json, name: str
) -> None:
    estimate = Estimator().estimate(_sent(wire, body))
    assert estimate.unsized == (name,)
    assert estimate.with_context(400_000).input == 400_000
    assert estimate.with_context(None).input == 1_000_000


_USUAL: list[tuple[str, Json]] = [
    ("messages", _message({"type": "text", "text": "hi"}, _document(type="text", data="words"))),
    ("messages", _message({"type": "tool_result", "content": "words"}, {"type": "thinking", "thinking": "hm"})),
    ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}, {"name": "Read", "input_schema": {}}]}),
    ("responses", _input({"role": "user", "content": [{"type": "input_text", "text": "hi"}]})),
    ("responses", {**_input({"type": "reasoning", "encrypted_content": "aa"}), "prompt_cache_key": "k"}),
    ("responses", {"input": "hi", "tools": [{"type": "local_shell"}, {"type": "custom", "name": "exec"}]}),
    ("chat", _message({"type": "text", "text": "hi"})),
    ("generate", {"contents": [{"parts": [{"inlineData": {"mimeType": "text/plain", "data": "aGk="}}]}]}),
    ("generate", {"tools": [{"functionDeclarations": [{"name": "f"}]}]}),
]


@pytest.mark.parametrize(("wire", "body"), _USUAL)
def test_what_agents_usually_send_is_sized(wire: str, body: Json) -> None:
    estimate = Estimator().estimate(_sent(wire, body))
    assert (estimate.unsized, estimate.searches, estimate.with_context(400_000)) == ((), 0, estimate)


def test_a_request_for_the_large_context_is_believed() -> None:
    body = _message(_document(type="file", file_id="file_1"))
    estimate = Estimator().estimate(_sent("messages", body, headers={"anthropic-beta": "a,context-1m-2025-08-07"}))
    assert estimate.with_context(200_000).input == 1_000_000


_SEARCHING: list[tuple[str, Json, int]] = [
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1000}]}, 1000),
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 3),
    ("responses", {"input": "hi", "tools": [{"type": "web_search"}], "max_tool_calls": 50}, 50),
    ("chat", {"messages": [], "web_search_options": {}}, 3),
    ("generate", {"tools": [{"google_search": {}}]}, 3),
]


@pytest.mark.parametrize(("wire", "body", "searches"), _SEARCHING)
def test_searches_of_the_provider_are_set_aside(wire: str, body: Json, searches: int) -> None:
    asked = _sent(wire, body)
    estimate = Estimator().estimate(asked)
    assert (estimate.searches, estimate.input) == (searches, len(asked.plain) // 3 + 1 + 8000 * searches)


def _config(**settings: object) -> Json:
    return {"generationConfig": settings}


@pytest.mark.parametrize(
    ("wire", "body", "output"),
    [
        ("messages", {"max_tokens": 1e5}, 100_000),
        ("messages", {"max_tokens": "100"}, 100),
        ("messages", {"max_tokens": 10**30}, 10**12),
        ("messages", {"max_tokens": True}, DEFAULT_MAX_OUTPUT_TOKENS),
        ("messages", {"max_tokens": -5}, DEFAULT_MAX_OUTPUT_TOKENS),
        ("messages", {"max_tokens": 1.5}, DEFAULT_MAX_OUTPUT_TOKENS),
        ("responses", {"max_output_tokens": 500, "max_tokens": 1}, 500),
        ("responses", {"max_tokens": 1}, DEFAULT_MAX_OUTPUT_TOKENS),
        ("chat", {"max_completion_tokens": 100, "n": 128}, 12_800),
        ("chat", {"max_completion_tokens": 100, "n": 128.0}, 12_800),
        ("chat", {"max_completion_tokens": 1, "max_tokens": 100_000}, 100_000),
        ("chat", {"max_completion_tokens": 100_000, "max_tokens": 1}, 100_000),
        ("chat", {"n": 2}, 2 * DEFAULT_MAX_OUTPUT_TOKENS),
        ("chat", {"n": 10**12, "max_tokens": 10**12}, 10**12),
        ("generate", _config(maxOutputTokens=100, candidateCount=8), 800),
        ("generate", _config(maxOutputTokens=100, candidate_count=8), 800),
        ("generate", _config(maxOutputTokens="100000"), 100_000),
        ("generate", _config(maxOutputTokens=1, max_output_tokens=100_000), 100_000),
        ("generate", {**_config(maxOutputTokens=1), "generation_config": {"max_output_tokens": 9000}}, 9000),
        ("generate", {"request": _config(maxOutputTokens=1), **_config(maxOutputTokens=900)}, 900),
    ],
)
def test_an_answer_may_be_as_large_as_all_that_the_request_states_together(wire: str, body: Json, output: int) -> None:
    assert Estimator().estimate(_sent(wire, body)).output == output


def test_one_cache_for_an_hour_may_be_spelled_with_escapes() -> None:
    block = b'{"cache_control":{"type":"ephemeral","ttl":"\\u0031h"}}'
    assert Estimator().estimate(request(plain=block)).caches_for_an_hour


def test_requests_full_of_blanks_do_not_teach_that_text_costs_nothing() -> None:
    estimator = Estimator()
    for _ in range(8):
        estimator.learn(estimator.estimate(request(1_000_000)), Usage(input=10))
    assert estimator.estimate(request(900_000)).input == 90_001


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(os.urandom(30_000)).decode(),
        os.urandom(30_000).hex(),
        f'<img src="data:image/png;base64,{_picture("png", 30_000)}">',
        "see " + _picture("jpeg", 30_000),
        "iVBORw0KGgo is how they begin",
    ],
    ids=["base64", "hex", "html", "in a sentence", "short"],
)
def test_what_only_looks_like_a_picture_counts_as_text(text: str) -> None:
    asked = _build_request({"type": "text", "text": text})
    assert Estimator().estimate(asked).input == len(asked.plain) // 3 + 1


@pytest.mark.parametrize(
    ("asked", "configured", "output"),
    [
        (None, None, DEFAULT_MAX_OUTPUT_TOKENS),
        (None, 4000, 4000),
        (500, None, 500),
        (500, 4000, 500),
        (64_000, None, 64_000),
        (64_000, 4000, 4000),
    ],
)
def test_an_answer_is_as_large_as_the_request_or_the_user_allows(
    asked: int | None, configured: int | None, output: int
) -> None:
    assert Estimator(largest_answer=configured).estimate(request(max_output=asked)).output == output


def test_what_calls_took_is_learnt_with_a_margin_and_the_largest_of_the_last_counts() -> None:
    estimator = Estimator()
    for tokens in (2000, 1000):
        estimator.learn(estimator.estimate(request(10_000)), Usage(cache_read=tokens - 10, input=10, output=99))
    assert estimator.estimate(request(20_000)).input == int(20_000 * 0.2 * 1.15) + 1
    for _ in range(8):
        estimator.learn(estimator.estimate(request(10_000)), Usage(input=1000))
    assert estimator.estimate(request(20_000)).input == int(20_000 * 0.1 * 1.15) + 1


def test_what_a_provider_adds_to_a_small_request_says_nothing_of_larger_ones() -> None:
    estimator = Estimator()
    estimator.learn(estimator.estimate(request(100)), Usage(input=4000))
    assert estimator.estimate(request(3000)).input == 1001


def test_pictures_do_not_spoil_what_is_learnt_of_text() -> None:
    estimator = Estimator()
    asked = _build_request(_image(_picture("png")), {"type": "text", "text": "y" * 9000})
    learnt = estimator.estimate(asked)
    estimator.learn(learnt, Usage(input=1600 + 1800))
    assert estimator.estimate(request(10_000)).input == int(10_000 * 1800 / learnt.text_bytes * 1.15) + 1
