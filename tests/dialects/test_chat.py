"""Chat Completions, in pieces and whole: what is said, thought and cited, what it took, and how it fails."""

from typing import Any

import pytest

from inspan.dialects.chat import build_chat_dialect
from inspan.protocol.events import (
    Citation,
    CitationsGiven,
    Event,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ToolFailed,
    TurnCompleted,
    TurnFailed,
    Unrecognized,
)
from inspan.protocol.usage import Usage

from .http_calls import STARTED, WHOLE, cut_line, head_line, read_events

USAGE: dict[str, Any] = {
    "prompt_tokens": 30,
    "completion_tokens": 9,
    "total_tokens": 39,
    "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
USED = Usage(input=6, output=9, cache_read=20, cache_write=4, reasoning=5)
NO_END = "The answer broke off: it has no end."


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def end(finish: str = "stop") -> list[Any]:
    return [piece(finish), {"model": "m-1", "choices": [], "usage": USAGE}, "[DONE]", WHOLE]


def read(*frames: Any, partial: bool = False) -> list[Event]:
    return read_events(build_chat_dialect, head_line(), *frames, partial=partial)


def test_a_stream_is_one_text_with_its_usage() -> None:
    events = read(piece(role="assistant", content=""), piece(content="hel"), piece(content="lo\u2028🙂"), *end())
    assert events == [*STARTED, TextSaid(text="hello\u2028🙂"), TurnCompleted(usage=USED)]


def test_pieces_are_told_where_they_are_asked_for() -> None:
    events = read(piece(content="hel"), piece(content="lo"), *end(), partial=True)
    said = [TextDelta(block="0", text="hel"), TextDelta(block="0", text="lo"), TextSaid(text="hello")]
    assert events == [*STARTED, *said, TurnCompleted(usage=USED)]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_beside_the_text_is_told_before_it(field: str) -> None:
    events = read(piece(**{field: "first "}), piece(**{field: "this"}), piece(content="done"), *end(), partial=True)
    said = [ReasoningSaid(text="first this"), TextDelta(block="0", text="done"), TextSaid(text="done")]
    assert events == [*STARTED, *said, TurnCompleted(usage=USED)]


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>\nfirst this</think>\n\ndone"],
        ["<th", "ink>first", " this</thi", "nk>", "\ndone"],
        ["\n<think>", "first this", "</think>", "do", "ne"],
        list("<think>first this</think>done"),
    ],
)
def test_reasoning_in_front_of_the_text_is_told_apart(pieces: list[str]) -> None:
    events = read(*(piece(content=each) for each in pieces), *end())
    assert events == [*STARTED, ReasoningSaid(text="first this"), TextSaid(text="done"), TurnCompleted(usage=USED)]


@pytest.mark.parametrize("text", ["<thin ice>", "a <think>b</think>", "<", " <think", "</think>x"])
def test_a_text_that_only_looks_like_thinking_is_said(text: str) -> None:
    assert read(*(piece(content=each) for each in text), *end())[2:-1] == [TextSaid(text=text)]


def test_thinking_that_never_ends_is_no_text() -> None:
    events = read(piece(content="<think>on and on</thi"), *end())
    assert events == [*STARTED, ReasoningSaid(text="on and on</thi"), TurnCompleted(usage=USED)]


def test_a_whole_completion_is_read_like_a_stream() -> None:
    message = {"role": "assistant", "content": "hello", "reasoning_content": "hm"}
    body = {"model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}
    events = read(body, WHOLE, partial=True)
    assert events == [*STARTED, ReasoningSaid(text="hm"), TextSaid(text="hello"), TurnCompleted(usage=USED)]


def test_content_in_parts_is_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]
    assert read(piece(content=parts), *end())[2] == TextSaid(text="ab")


@pytest.mark.parametrize(
    ("given", "citations"),
    [
        (
            {"citations": ["https://a.example", "https://b.example"]},
            [Citation(url="https://a.example", number=1), Citation(url="https://b.example", number=2)],
        ),
        (
            {
                "citations": ["https://a.example"],
                "search_results": [{"title": "A", "url": "https://a.example", "date": "2026-01-02"}],
            },
            [Citation(url="https://a.example", title="A", date="2026-01-02", number=1)],
        ),
    ],
)
def test_citations_are_told_once_behind_the_text(given: dict[str, Any], citations: list[Citation]) -> None:
    events = read({**piece(content="see [1]"), **given}, {**piece("stop"), **given, "usage": USAGE}, WHOLE)
    assert events[2:] == [TextSaid(text="see [1]"), CitationsGiven(citations=citations), TurnCompleted(usage=USED)]


def test_annotations_of_the_text_are_citations() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    events = read(piece(content="x", annotations=[cited]), *end())
    assert events[3] == CitationsGiven(citations=[Citation(url="https://a.example", title="A")])


@pytest.mark.parametrize(
    ("usage", "used"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, Usage(input=5, output=7)),
        # Reasoning that is counted beside the answer: the total says so.
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 7,
                "total_tokens": 42,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            Usage(input=5, output=37, reasoning=30),
        ),
        ({"prompt_tokens": "5", "completion_tokens": None, "prompt_tokens_details": []}, Usage()),
    ],
)
def test_tokens_are_counted_as_the_provider_means_them(usage: dict[str, Any], used: Usage) -> None:
    assert read(piece("stop", content="x"), {"usage": usage}, WHOLE)[-1] == TurnCompleted(usage=used)


def test_an_answer_without_usage_is_whole_all_the_same() -> None:
    assert read(piece("stop", content="x"), WHOLE) == [*STARTED, TextSaid(text="x"), TurnCompleted()]


def test_a_stream_that_only_says_done_is_whole() -> None:
    assert read(piece(content="x"), "[DONE]", WHOLE)[-1] == TurnCompleted()


def test_an_answer_that_breaks_off_behind_its_last_word_is_whole() -> None:
    assert read(piece("stop", content="x"), cut_line())[-1] == TurnCompleted()


@pytest.mark.parametrize(
    ("frames", "failure", "message"),
    [
        ([cut_line("it went away")], "network", "The answer broke off: it went away."),
        ([piece(content="half"), cut_line("it went away")], "network", "The answer broke off: it went away."),
        ([piece(content="half"), WHOLE], "network", NO_END),
        ([WHOLE], "network", NO_END),
        ([{"error": {"message": "Overloaded, try later", "code": 529}}, WHOLE], "overloaded", "Overloaded, try later"),
        ([{"error": {"message": "no idea"}}, WHOLE], "unknown", "no idea"),
        ([{"error": "Rate limit reached"}, WHOLE], "rate_limit", "Rate limit reached"),
        (
            [piece("length", content="half"), "[DONE]", WHOLE],
            "invalid_response",
            "The model stopped at its largest number of tokens, so the answer is incomplete.",
        ),
        ([piece("content_filter"), WHOLE], "refused", "The provider's filter stopped the answer."),
        ([piece("stop", refusal="I will not."), WHOLE], "refused", "I will not."),
    ],
)
def test_an_answer_that_is_none_is_a_failed_turn(frames: list[Any], failure: Any, message: str) -> None:
    events = read(*frames)
    assert events[-1] == TurnFailed(failure=failure, message=message, status=200)
    assert [event for event in events if isinstance(event, TurnCompleted)] == []


def test_what_was_said_before_it_broke_off_is_kept() -> None:
    assert read(piece(content="half"), cut_line())[2] == TextSaid(text="half")


@pytest.mark.parametrize("garbage", ["{nonsense", "\x00\x01", "[1, 2]", "7", '{"choices":[{"delta":{"content":'])
def test_garbage_is_kept_and_the_turn_fails_even_if_the_rest_is_fine(garbage: str) -> None:
    events = read(piece(content="x"), garbage, *end())
    kept = events[2]
    assert isinstance(kept, Unrecognized)
    assert kept.raw == garbage
    failed = events[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.failure, failed.status, failed.usage) == ("invalid_response", 200, USED)
    assert failed.message.startswith("The answer cannot be read: ")


def test_an_answer_that_is_no_json_fails() -> None:
    events = read({"http": {"text": "<html>Hello</html>"}}, WHOLE)
    message = "The answer cannot be read: no JSON: <html>Hello</html>."
    assert events[-1] == TurnFailed(failure="invalid_response", message=message, status=200)


def test_a_frame_that_is_not_known_is_kept_and_harms_nothing() -> None:
    events = read({"object": "ping"}, piece(content="x"), {"choices": [{"delta": 7}]}, *end())
    kept = [event.raw for event in events if isinstance(event, Unrecognized)]
    assert kept == ['{"object":"ping"}', '{"choices":[{"delta":7}]}']
    assert events[-2:] == [TextSaid(text="x"), TurnCompleted(usage=USED)]


def test_a_tool_that_nobody_offered_is_denied() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
    events = read(piece(tool_calls=[call]), piece(tool_calls=[{"index": 0, "function": {"arguments": "x"}}]), *end())
    denied = ToolFailed(id="call_1", name="bash", output="no tool was offered", denied=True)
    message = "The model wants to use bash; it has no tools."
    failed = TurnFailed(failure="tool_permission", message=message, status=200, usage=USED)
    assert events == [*STARTED, denied, failed]


@pytest.mark.parametrize(
    ("status", "body", "failure", "message"),
    [
        (401, {"error": {"message": "Invalid API key."}}, "authentication", "401: Invalid API key."),
        (403, {"error": {"message": "no"}}, "authentication", "403: no"),
        (
            400,
            {"error": "Incorrect API key provided", "code": "x"},
            "authentication",
            "400: Incorrect API key provided",
        ),
        (404, {"error": {"message": "gone"}}, "model_not_found", "404: gone"),
        (400, {"error": {"message": "Invalid model 'x'."}}, "model_not_found", "400: Invalid model 'x'."),
        (413, {"message": "large"}, "context_too_long", "413: large"),
        (400, {"detail": "maximum context length is 5"}, "context_too_long", "400: maximum context length is 5"),
        (422, {"detail": {"message": "field x"}}, "unknown", "422: field x"),
        (429, {"error": {"message": "slow down"}}, "rate_limit", "429: slow down"),
        (500, {"odd": 1}, "overloaded", '500: {"odd":1}'),
        (529, {"error": {"message": "Overloaded"}}, "overloaded", "529: Overloaded"),
        (502, "<html>", "overloaded", "502: <html>"),
        (302, {"http": {"text": "elsewhere"}}, "unknown", "302: elsewhere"),
        (503, None, "overloaded", "The provider answered 503."),
    ],
)
def test_a_refusal_is_told_by_its_kind(status: int, body: Any, failure: Any, message: str) -> None:
    frames = [head_line(status), *([] if body is None else [body]), WHOLE]
    wanted = [*STARTED, TurnFailed(failure=failure, message=message, status=status)]
    assert read_events(build_chat_dialect, *frames) == wanted


def test_who_cannot_be_reached_is_a_failed_turn() -> None:
    events = read_events(build_chat_dialect, {"http": {"unreachable": "http://h:1: Connection refused"}})
    assert events == [*STARTED, TurnFailed(failure="network", message="http://h:1: Connection refused.")]


def test_nothing_is_told_behind_the_end() -> None:
    events = read(piece("stop", content="x"), WHOLE, WHOLE, cut_line())
    assert events[-1] == TurnCompleted()
    assert events.count(TurnCompleted()) == 1
