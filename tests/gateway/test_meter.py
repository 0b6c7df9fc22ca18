"""What a meter makes of answers: which end counts, how events may be cut up, and how much of them it keeps."""

import json
from typing import Any

import pytest

from inspan.gateway.model_call import ModelCall
from inspan.gateway.usage_meter import Room, UsageMeter
from inspan.gateway.wires import BY_NAME
from inspan.protocol.usage import Usage
from inspan.spending.estimates import Estimate
from inspan.spending.settlement import compute_settlement

from .gateway_client import GatewayClient
from .provider import Provider, full_response, says, stream

Json = dict[str, Any]
_STREAM = {"content-type": "text/event-stream"}
_WORDS = "some words " * 700


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _fed(wire: str, *pieces: bytes, kind: str = "text/event-stream", status: int = 200) -> UsageMeter:
    meter = UsageMeter(BY_NAME[wire])
    meter.start(status, {"content-type": kind})
    for piece in pieces:
        meter.feed(piece)
    meter.finish()
    return meter


def _opening(output: int = 1) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": output}
    return _event({"type": "message_start", "message": {"usage": usage}})


_CLOSING = _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 500}})
_STOP = _event({"type": "message_stop"})
_DELTA = _event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": _WORDS}})
_CHAT = _event({"choices": [{"delta": {"content": _WORDS}}], "usage": {"prompt_tokens": 10, "completion_tokens": 1}})
_PART = _event(
    {
        "candidates": [{"content": {"parts": [{"text": _WORDS}]}}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 1},
    }
)
_RESPONSES = _event({"type": "response.output_text.delta", "delta": _WORDS})
_FAILED: Json = {"message": "Overloaded", "type": "overloaded_error"}
# Answers that state next to nothing of their output and then end: in an error, or without the rest of their usage.
_ENDED_EARLY: dict[str, tuple[str, tuple[bytes, ...], bool]] = {
    "messages error": ("messages", (_opening(), _DELTA, _event({"type": "error", "error": _FAILED})), True),
    "messages stop": ("messages", (_opening(), _DELTA, _STOP), False),
    "messages input": (
        "messages",
        (_opening(), _DELTA, _event({"type": "x", "usage": {"input_tokens": 9}}), _STOP),
        False,
    ),
    "messages done": ("messages", (_opening(), _DELTA, b"data: [DONE]\n\n"), False),
    "responses error": ("responses", (_RESPONSES, _event({"type": "error", "message": "x", "error": _FAILED})), True),
    "responses failed": (
        "responses",
        (
            _RESPONSES,
            _event(
                {
                    "type": "response.failed",
                    "response": {
                        "status": "failed",
                        "error": _FAILED,
                        "usage": {"input_tokens": 10, "output_tokens": 1},
                    },
                }
            ),
        ),
        True,
    ),
    "chat error": ("chat", (_CHAT, _event({"error": _FAILED}), b"data: [DONE]\n\n"), True),
    "chat reason": ("chat", (_CHAT, _event({"choices": [{"finish_reason": "error"}], "error": _FAILED})), True),
    "generate error": ("generate", (_PART, _event({"error": _FAILED})), True),
    "generate without usage": ("generate", (_PART, _event({"candidates": [{"finishReason": "STOP"}]})), False),
}


@pytest.mark.parametrize("name", _ENDED_EARLY)
def test_an_answer_that_ends_in_an_error_or_without_its_usage_is_not_whole(name: str) -> None:
    wire, pieces, fails = _ENDED_EARLY[name]
    meter = _fed(wire, *pieces)
    assert (meter.has_ended, meter.has_failed, meter.is_whole) == (True, fails, False)
    assert not fails or meter.message == "Overloaded"


@pytest.mark.parametrize("name", _ENDED_EARLY)
def test_what_came_of_it_counts_by_its_bytes(name: str) -> None:
    wire, pieces, fails = _ENDED_EARLY[name]
    path = "/v1beta/models/m:streamGenerateContent?alt=sse" if wire == "generate" else f"/v1/{_PATHS[wire]}"
    with Provider(says(stream(*pieces))) as provider, GatewayClient(provider.url) as front:
        front.ask(path, body=b'{"model": "m", "stream": true, "max_tokens": 5000}')
        call = front.next_call()
    assert (call.whole, call.problem) == (False, "error in the answer" if fails else "")
    charged = _charged(call)
    assert charged and charged.output > len(_WORDS) // 4


_PATHS = {"messages": "messages", "responses": "responses", "chat": "chat/completions"}


def _charged(call: ModelCall) -> Usage | None:
    estimate = Estimate(input=20, output=5000, text_bytes=60, pictures=0, caches_for_an_hour=False, streams=True)
    return compute_settlement(call, estimate).charged


_WHOLE: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "messages": ("messages", (_opening(), _DELTA, _CLOSING, _STOP)),
    "chat": (
        "chat",
        (
            _event({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
            _event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 500}}),
            b"data: [DONE]\n\n",
        ),
    ),
    "responses": (
        "responses",
        (_event({"type": "response.incomplete", "response": {"usage": {"input_tokens": 10, "output_tokens": 500}}}),),
    ),
    "generate": (
        "generate",
        (
            _PART,
            _event(
                {
                    "candidates": [{"finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 500},
                }
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", _WHOLE)
def test_an_answer_with_its_end_and_its_usage_is_whole(name: str) -> None:
    wire, pieces = _WHOLE[name]
    meter = _fed(wire, *pieces)
    assert (meter.is_whole, meter.usage) == (True, Usage(input=10, output=500))


def _split_lines(data: bytes) -> bytes:
    """The same events with their data over several lines, as the standard allows between any two tokens."""
    return data.replace(b', "', b',\ndata: "')


@pytest.mark.parametrize("name", _WHOLE)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_an_event_may_have_several_lines_of_data_and_any_end_of_line(name: str, end: bytes, size: int) -> None:
    wire, pieces = _WHOLE[name]
    sent = b"\xef\xbb\xbf" + b"".join(_split_lines(piece) for piece in pieces if piece != _DELTA).replace(b"\n", end)
    meter = _fed(wire, *(sent[at : at + size] for at in range(0, len(sent), size)))
    assert (meter.is_whole, meter.usage) == (True, Usage(input=10, output=500))


def test_a_line_that_is_no_event_does_not_spoil_the_next_one() -> None:
    meter = _fed("messages", _opening(), b"data: what?\n\n", _CLOSING, _STOP)
    assert (meter.is_whole, meter.usage) == (True, Usage(input=10, output=500))


@pytest.mark.parametrize("wire", BY_NAME)
@pytest.mark.parametrize("opening", [b"[", b'{"usage":'])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_that_is_nested_too_deeply_is_passed_on_and_not_read(wire: str, opening: bytes, kind: str) -> None:
    deep = b'{"a":' + opening * 100_000
    meter = _fed(wire, b"data: " + deep + b"\n\n" if "event" in kind else deep, kind=kind)
    assert (meter.usage, meter.is_whole) == (None, False)


def test_of_an_answer_in_which_nothing_can_be_read_its_beginning_is_kept() -> None:
    page = b"<html>" + b"x" * 1_000_000
    for kind in ("text/html", "text/event-stream"):
        meter = _fed("messages", page, kind=kind)
        assert (meter.message[:7], len(meter.message)) == ("<html>x", 16 * 1024)


def test_a_run_outlives_an_answer_that_is_nested_too_deeply() -> None:
    deep = b'{"usage":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    faults: list[Exception] = []
    with Provider(says(full_response(deep))) as provider, GatewayClient(provider.url, on_fault=faults.append) as front:
        response = front.ask()
        call = front.next_call()
    assert (response.status, response.body, call.problem, faults) == (200, deep, "garbage", [])


def _told(size: int) -> bytes:
    body = {"type": "message", "content": "x" * size, "stop_reason": "end_turn"}
    return json.dumps({**body, "usage": {"input_tokens": 10, "output_tokens": 5}}).encode()


def test_all_answers_together_keep_no_more_than_there_is_room_for() -> None:
    room = Room(1_000_000)
    meters = [UsageMeter(BY_NAME["messages"], room=room) for _ in range(10)]
    body = _told(400_000)
    for meter in meters:
        meter.start(200, {"content-type": "application/json"})
        meter.feed(body[:-100])
    assert sum(len(meter.__dict__["_pending"]) for meter in meters) <= 1_000_000
    for meter in meters:
        meter.feed(body[-100:])
        meter.finish()
        meter.close()
    assert [meter.usage is not None for meter in meters] == [True] * 2 + [False] * 8
    assert [meter.is_unread for meter in meters] == [False] * 2 + [True] * 8
    assert room.left == 1_000_000


@pytest.mark.parametrize(
    ("wire", "kind", "piece"),
    [
        ("messages", "application/json", b"x" * 1000),
        ("messages", "text/event-stream", b"data: x" + b"x" * 1000),
        ("messages", "text/event-stream", b"data: " + b"x" * 1000 + b"\n"),
        ("generate", "application/json", b'[{"a":"' + b"x" * 1000),
    ],
    ids=["body", "line", "lines of one event", "element"],
)
def test_no_kind_of_answer_is_kept_without_room(wire: str, kind: str, piece: bytes) -> None:
    room = Room(50_000)
    meter = UsageMeter(BY_NAME[wire], room=room)
    meter.start(200, {"content-type": kind})
    meter.feed(piece)
    for _ in range(200):
        meter.feed(piece.replace(b"[{", b"  "))
        assert room.left >= 0
    meter.finish()
    meter.close()
    assert (meter.usage, room.left) == (None, 50_000)


def test_a_stream_is_read_on_behind_a_line_that_was_too_long() -> None:
    meter = UsageMeter(BY_NAME["messages"], room=Room(20_000))
    meter.start(200, _STREAM)
    for piece in (_opening(), b"data: " + b"x" * 30_000, b"x" * 30_000 + b"\n\n", _CLOSING, _STOP):
        meter.feed(piece)
    meter.finish()
    assert (meter.is_whole, meter.usage) == (True, Usage(input=10, output=500))


def test_answers_that_were_given_up_make_room_again() -> None:
    large = says(full_response(_told(100_000)))
    with Provider(large) as provider, GatewayClient(provider.url, answers_room=Room(150_000)) as front:
        for _ in range(5):
            assert front.ask().status == 200
            assert front.next_call().usage == Usage(input=10, output=5)


def test_an_answer_without_room_reaches_the_agent_and_says_that_it_was_not_read() -> None:
    body = _told(100_000)
    with Provider(says(full_response(body))) as provider, GatewayClient(provider.url, answers_room=Room(1000)) as front:
        response = front.ask()
        call = front.next_call()
    assert (response.body, call.usage, call.problem) == (body, None, "too large to be read")
