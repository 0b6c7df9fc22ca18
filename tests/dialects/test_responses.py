"""Responses, in events and whole: what is said, thought, searched and cited, what it took, and how it fails."""

from typing import Any

import pytest

from inspan.dialects.responses import build_responses_dialect
from inspan.protocol.events import (
    Citation,
    CitationsGiven,
    Event,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    Unrecognized,
)
from inspan.protocol.usage import Usage

from .http_calls import STARTED, WHOLE, cut_line, head_line, read_events

USAGE: dict[str, Any] = {
    "input_tokens": 30,
    "output_tokens": 9,
    "total_tokens": 39,
    "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4},
    "output_tokens_details": {"reasoning_tokens": 5},
}
USED = Usage(input=6, output=9, cache_read=20, cache_write=4, reasoning=5)
CREATED: dict[str, Any] = {
    "type": "response.created",
    "response": {"model": "m-1", "status": "in_progress", "output": []},
}
A = {"id": 1, "title": "A", "url": "https://a.example", "date": "2026-01-02", "snippet": "…", "source": "web"}
B = {"id": 2, "title": "B", "url": "https://b.example", "snippet": "…"}
CITED = CitationsGiven(
    citations=[
        Citation(url="https://a.example", title="A", date="2026-01-02", number=1),
        Citation(url="https://b.example", title="B", number=2),
    ]
)


def message(*texts: str, **more: Any) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, **more} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def completed(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    response = {"object": "response", "model": "m-1", "status": status, "output": list(output), "usage": USAGE, **more}
    return {"type": f"response.{status}", "response": response}


def delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": text}


def done(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": text}


def read(*frames: Any, partial: bool = False) -> list[Event]:
    return read_events(build_responses_dialect, head_line(), CREATED, *frames, partial=partial)


def test_the_stream_of_another_api_is_no_answer() -> None:
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    ended = read_events(build_responses_dialect, head_line(), chunk, "[DONE]", WHOLE)[-1]
    assert isinstance(ended, TurnFailed)
    assert ended.failure == "invalid_response"
    assert ended.message.startswith("Nothing in the answer is a part of one, beginning with ")


def test_a_stream_is_told_once_though_its_end_holds_it_all_again() -> None:
    item = message("hello")
    events = read(
        {"type": "response.output_item.added", "item": {**item, "content": []}},
        delta("hel"),
        delta("lo"),
        done("hello"),
        {"type": "response.content_part.done", "part": item["content"][0]},
        {"type": "response.output_item.done", "item": item},
        completed(item),
        WHOLE,
    )
    assert events == [*STARTED, TextSaid(text="hello"), TurnCompleted(usage=USED)]


def test_pieces_are_told_where_they_are_asked_for() -> None:
    events = read(delta("hel"), delta("lo"), done("hello"), completed(message("hello")), WHOLE, partial=True)
    said = [TextDelta(block="1.0", text="hel"), TextDelta(block="1.0", text="lo"), TextSaid(text="hello")]
    assert events == [*STARTED, *said, TurnCompleted(usage=USED)]


@pytest.mark.parametrize("output", [[message("hello")], []])
def test_a_text_that_came_in_pieces_alone_is_told_at_the_end(output: list[Any]) -> None:
    events = read(delta("hel"), delta("lo"), completed(*output), WHOLE)
    assert events == [*STARTED, TextSaid(text="hello"), TurnCompleted(usage=USED)]


def test_a_whole_response_is_read_like_a_stream() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
    events = read_events(
        build_responses_dialect, head_line(), completed(reasoning, message("a", "b"))["response"], WHOLE
    )
    said = [ReasoningSaid(text="hm"), TextSaid(text="a"), TextSaid(text="b")]
    assert events == [*STARTED, *said, TurnCompleted(usage=USED)]


def test_reasoning_is_told_once() -> None:
    item = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}]}
    events = read(
        {"type": "response.reasoning_summary_text.delta", "delta": "h"},
        {"type": "response.reasoning_text.done", "text": "hm"},
        {"type": "response.output_item.done", "item": item},
        completed(item, message("x")),
        WHOLE,
    )
    assert events == [*STARTED, ReasoningSaid(text="hm"), TextSaid(text="x"), TurnCompleted(usage=USED)]


def test_a_search_of_the_web_is_a_tool_and_its_results_are_citations() -> None:
    item = {"type": "search_results", "queries": ["one", "two"], "results": [A, B]}
    cost = {"currency": "USD", "input_cost": 0.001, "output_cost": 0.002, "total_cost": 0.0125}
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 1},
        "tool_calls_details": {"search_web": {"invocation": 1}},
        "cost": cost,
    }
    events = read(
        {"type": "response.reasoning.started", "thought": "I look it up."},
        {"type": "response.reasoning.search_queries", "queries": ["one", "two"]},
        {"type": "response.reasoning.search_results", "results": [A, B]},
        {"type": "response.reasoning.stopped"},
        {"type": "response.output_item.done", "item": item},
        done("So it is [1][2]."),
        completed(item, message("So it is [1][2]."), usage=usage),
        WHOLE,
    )
    assert events == [
        *STARTED,
        ReasoningSaid(text="I look it up."),
        ToolStarted(id="web_search-1", name="web_search", input={"query": "one; two"}),
        ToolCompleted(id="web_search-1", name="web_search", output="A https://a.example\nB https://b.example"),
        TextSaid(text="So it is [1][2]."),
        CITED,
        TurnCompleted(usage=Usage(input=5, output=5, cache_read=4, cache_write=1), cost_usd=0.0125),
    ]


def test_results_of_a_search_in_a_whole_response_are_told_as_well() -> None:
    item = {"type": "search_results", "queries": ["one"], "results": [A, B]}
    events = read_events(build_responses_dialect, head_line(), completed(item, message("x"))["response"], WHOLE)
    searched = events[2:4]
    assert [type(event) for event in searched] == [ToolStarted, ToolCompleted]
    assert events[4:] == [TextSaid(text="x"), CITED, TurnCompleted(usage=USED)]


def test_a_page_that_was_fetched_is_a_tool() -> None:
    events = read(
        {"type": "response.reasoning.fetch_url_queries", "urls": ["https://a.example"]},
        {"type": "response.reasoning.fetch_url_results", "contents": [A]},
        completed(message("x")),
        WHOLE,
    )
    assert events[2:4] == [
        ToolStarted(id="fetch_url-1", name="fetch_url", input={"query": "https://a.example"}),
        ToolCompleted(id="fetch_url-1", name="fetch_url", output="A https://a.example"),
    ]


def test_a_tool_on_the_providers_side_is_told_as_it_ended() -> None:
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    broken = {"type": "code_interpreter_call", "id": "ci_1", "status": "failed"}
    events = read({"type": "response.output_item.done", "item": call}, completed(call, broken, message("x")), WHOLE)
    assert events[2:6] == [
        ToolStarted(id="ws_1", name="web_search", input={"type": "search", "query": "q"}),
        ToolCompleted(id="ws_1", name="web_search"),
        ToolStarted(id="ci_1", name="code_interpreter", input={"query": ""}),
        ToolFailed(id="ci_1", name="code_interpreter"),
    ]


def test_annotations_are_citations_each_source_once() -> None:
    cited = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    events = read(
        {"type": "response.output_text.annotation.added", "annotation": cited},
        completed(message("x", annotations=[cited, {"type": "file"}])),
        WHOLE,
    )
    assert events[3] == CitationsGiven(citations=[Citation(url="https://a.example", title="A")])


def test_a_tool_that_nobody_offered_is_denied() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": "{}"}
    events = read({"type": "response.output_item.done", "item": call}, completed(call), WHOLE)
    denied = ToolFailed(id="call_1", name="bash", output="no tool was offered", denied=True)
    message_ = "The model wants to use bash; it has no tools."
    assert events == [
        *STARTED,
        denied,
        TurnFailed(failure="tool_permission", message=message_, status=200, usage=USED),
    ]


@pytest.mark.parametrize(
    ("frames", "failure", "message_"),
    [
        ([cut_line("it went away")], "network", "The answer broke off: it went away."),
        ([done("x"), WHOLE], "network", "The answer broke off: it has no end."),
        ([{"type": "error", "message": "Overloaded"}, WHOLE], "overloaded", "Overloaded"),
        ([{"error": {"message": "hm", "code": "rate_limit_exceeded"}}, WHOLE], "rate_limit", "hm"),
        (
            [{"type": "response.failed", "error": {"message": "too busy", "code": "x"}}, WHOLE],
            "unknown",
            "too busy",
        ),
        (
            [{"type": "response.failed", "response": {"status": "failed", "error": {"message": "at capacity"}}}, WHOLE],
            "overloaded",
            "at capacity",
        ),
        ([{"type": "response.refusal.done", "refusal": "I will not."}, WHOLE], "refused", "I will not."),
    ],
)
def test_an_answer_that_is_none_is_a_failed_turn(frames: list[Any], failure: Any, message_: str) -> None:
    events = read(*frames)
    assert events[-1] == TurnFailed(failure=failure, message=message_, status=200)
    assert [event for event in events if isinstance(event, TurnCompleted)] == []


@pytest.mark.parametrize(
    ("reason", "failure", "words"),
    [
        ("max_output_tokens", "invalid_response", "The model stopped at its largest number of tokens"),
        ("content_filter", "refused", "The provider's filter stopped the answer."),
        ("weather", "invalid_response", "The answer is incomplete: weather."),
    ],
)
def test_an_answer_that_is_not_whole_keeps_its_words_and_fails(reason: str, failure: Any, words: str) -> None:
    events = read(
        delta("half"), completed(message("half"), status="incomplete", incomplete_details={"reason": reason}), WHOLE
    )
    said, failed = events[2:]
    assert said == TextSaid(text="half")
    assert isinstance(failed, TurnFailed)
    assert (failed.failure, failed.usage) == (failure, USED)
    assert failed.message.startswith(words)


def test_what_is_not_known_is_kept_once_and_harms_nothing() -> None:
    item = {"type": "hologram", "id": "h_1"}
    events = read(
        {"type": "response.sparkled"},
        {"type": "response.output_item.done", "item": item},
        completed(item, message("x")),
        WHOLE,
    )
    kept = [(event.raw, event.note) for event in events if isinstance(event, Unrecognized)]
    assert kept == [
        ('{"type":"response.sparkled"}', "not a part of an answer"),
        ('{"type":"hologram","id":"h_1"}', "item 'hologram'"),
    ]
    assert events[-2:] == [TextSaid(text="x"), TurnCompleted(usage=USED)]
