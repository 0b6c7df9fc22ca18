"""How long the gateway's reader of HTTP takes for a request and for a stream, against h11 on the same bytes."""

import time
from collections.abc import Callable
from importlib.metadata import version

import h11

from bench.stage.rows import Row, at_most
from inspan.framing.http import AnswerReader, RequestReader

_HEADERS = {
    "Host": "127.0.0.1:4000",
    "User-Agent": "agent/2.1 (external, cli)",
    "x-api-key": "run-token-0123456789abcdef",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "one-2025-01-01,two-2025-01-01,three-2025-01-01",
    "x-stainless-os": "Linux",
    "x-stainless-lang": "js",
    "x-stainless-runtime": "node",
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "gzip, br",
}
_BODY = b"x" * 46_000
_REQUEST = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in _HEADERS.items()).encode()
    + b"content-length: %d\r\n\r\n" % len(_BODY)
    + _BODY
)
_EVENT = (
    b'event: delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}\n\n'
)
_EVENTS = 200
_ANSWER = [
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nrequest-id: req_1\r\n\r\n",
    *[b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)] * _EVENTS,
    b"0\r\n\r\n",
]


def measure(*, quick: bool = False) -> list[Row]:
    """The least CPU time of several rounds."""
    times = 20 if quick else 200
    note = f"least CPU time of 15 rounds of {times}; peer: h11 {version('h11')}"
    request = [_least_us(read, times) for read in (_read_request, _read_request_with_h11)]
    answer = [_least_us(read, times) for read in (_read_answer, _read_answer_with_h11)]
    return [
        at_most("http_request_vs_h11", *request, bar=0.5, unit="us", note=f"a head and 46 kB; {note}"),
        at_most("http_stream_vs_h11", *answer, bar=0.5, unit="us", note=f"{_EVENTS} events in chunks; {note}"),
    ]


def _least_us(read: Callable[[], None], times: int) -> float:
    rounds: list[float] = []
    for _ in range(15):
        began = time.process_time()
        for _ in range(times):
            read()
        rounds.append(time.process_time() - began)
    return min(rounds) / times * 1e6


def _read_request() -> None:
    reader = RequestReader()
    reader.feed(_REQUEST)
    assert reader.is_done


def _read_request_with_h11() -> None:
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(_REQUEST)
    while type(parser.next_event()) is not h11.EndOfMessage:
        pass


def _read_answer() -> None:
    reader = AnswerReader("POST")
    for piece in _ANSWER:
        reader.feed(piece)
    assert reader.is_done


def _read_answer_with_h11() -> None:
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    parser.send(h11.EndOfMessage())
    for piece in _ANSWER:
        parser.receive_data(piece)
        while (event := parser.next_event()) is not h11.NEED_DATA and type(event) is not h11.EndOfMessage:
            pass
