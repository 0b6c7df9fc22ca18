"""HTTP messages: read as h11 reads them, or refused; never in a third way."""

from collections.abc import Iterable

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.framing.http import AnswerReader, RequestReader
from tests.soak import rounds

NAMES = st.sampled_from(["X-A", "content-type", "accept", "Authorization", "User-Agent", "Retry-After"])
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
# Where, how much is taken out, and what is put there.
DAMAGE = st.tuples(st.integers(0, 200), st.integers(0, 3), st.binary(max_size=3))
Read = tuple[str, str, dict[str, str], bytes]
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\n"
# Shapes that parsers disagree about: one that lets them pass can be made to see another message than its neighbour.
NASTY_REQUESTS = [
    HEAD + b"Transfer-Encoding: \xa0chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: identity, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n",
    HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 5,\r\n\r\nhello",
    HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    HEAD + b"Content-Length: 5, 6\r\n\r\nhello",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    HEAD + b"Content-Length: +5\r\n\r\nhello",
    HEAD + b"Content-Length: 0x5\r\n\r\nhello",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length:\r\n\r\n",
    HEAD + b"Content-Length: 5 5\r\n\r\nhello",
    HEAD + b"Content-Length: 99999999999999999999\r\n\r\nhello",
    HEAD + b"Content Length: 5\r\n\r\nhello",
    HEAD + b"Content-Length : 5\r\n\r\nhello",
    HEAD + b"X: a\r\n Content-Length: 5\r\n\r\nhello",
    HEAD + b"X: a\nY: b\r\n\r\n",
    HEAD + b"X: a\rY: b\r\n\r\n",
    HEAD + b"X: a\x00b\r\n\r\n",
    HEAD + b": 1\r\n\r\n",
    HEAD + b"no colon\r\n\r\n",
    HEAD + b"Host: y\r\n\r\n",
    HEAD + b"Host: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    CHUNKED.replace(b"Host", b"Upgrade: h2c\r\nConnection: upgrade\r\nHost") + b"5\r\nhello\r\n0\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    b"GET / HTTP/0.9\r\nHost: x\r\n\r\n",
    b"GET / RTSP/1.0\r\nHost: x\r\n\r\n",
    b"GET / http/1.1\r\nHost: x\r\n\r\n",
    b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b" GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5;a=\x01\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5;a=\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5\r\nhelloXX0\r\n\r\n",
    CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"0\r\nX : 1\r\n\r\n",
    CHUNKED + b"0\r\nX: 1\n\n",
    CHUNKED + b"0\r\nTransfer-Encoding: 1\r\n\r\n",
    CHUNKED + b"0\r\nContent-Length: 1\r\n\r\n",
]
NASTY_ANSWERS = [
    ANSWER + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ANSWER + b"Content-Length: 5, 6\r\n\r\nhello",
    ANSWER + b"Content-Length: 5,\r\n\r\nhello",
    ANSWER + b"Content-Length: x\r\n\r\n",
    ANSWER + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ANSWER + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ANSWER + b"Transfer-Encoding: chunked, identity\r\n\r\nhello",
    ANSWER + b"Transfer-Encoding: \xa0chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ANSWER + b"Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ANSWER + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    ANSWER + b"X: a\r\n folded\r\n\r\n",
    ANSWER + b"X: a\nY: b\r\n\r\n",
    ANSWER + b"X : a\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 099 OK\r\n\r\n",
    b"HTTP/1.1  200 OK\r\n\r\n",
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"RTSP/1.0 200 OK\r\n\r\n",
    b"ICE/1.0 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\nX: 1\n\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def draw_message(draw: st.DrawFn, start: bytes, *, ends: bytes) -> bytes:
    """A message with this start, in one of the ways in which bodies end."""
    rows = "".join(f"{name}: {value}\r\n" for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=6)))
    start += rows.encode()
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["length", "chunks", "none"]))
    if framing == "length":
        return start + b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == "none":
        return start + b"\r\n" + (body if ends else b"")
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    trailer = draw(st.sampled_from([b"", b"X-T: 1\r\n"]))
    extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b c"']))
    written = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece)
    return start + b"transfer-encoding: chunked\r\n\r\n" + written + b"0\r\n" + trailer + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["POST", "GET", "DELETE"]))
    target = draw(st.sampled_from(["/", "/v1/messages?beta=true", "/v1beta/models/m:generateContent?key=%20"]))
    return draw_message(draw, f"{method} {target} HTTP/1.1\r\nHost: x\r\n".encode(), ends=b"")


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([200, 204, 304, 404, 529]))
    return draw_message(draw, f"HTTP/1.1 {status} Words\r\n".encode(), ends=b"connection")


def join(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def lower_coding(headers: dict[str, str]) -> dict[str, str]:
    """Only h11 writes it in lower case."""
    coding = headers.get("transfer-encoding")
    return headers if coding is None else {**headers, "transfer-encoding": coding.lower()}


def read_by_h11(data: bytes, *, server: bool) -> Read | None:
    """The first whole message, or None when it does not accept one."""
    parser = h11.Connection(h11.SERVER if server else h11.CLIENT)
    if not server:
        parser.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        parser.send(h11.EndOfMessage())
    parser.receive_data(data)
    if not server:
        parser.receive_data(b"")
    start, headers, body = "", dict[str, str](), b""
    try:
        while True:
            match parser.next_event():
                case h11.Request() as head:
                    start, headers = f"{head.method.decode()} {head.target.decode()}", join(head.headers)
                case h11.Response() as head:
                    start, headers = f"answer {head.status_code}", join(head.headers)
                case h11.InformationalResponse() as head if head.status_code != 101:
                    continue
                case h11.Data() as piece:
                    body += piece.data
                case h11.EndOfMessage():
                    first, _, second = start.partition(" ")
                    return first, second, headers, body
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None


def spoil(data: bytes, damage: tuple[int, int, bytes]) -> bytes:
    at, taken, put = damage
    return data[:at] + put + data[at + taken :]


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read_request(pieces: list[bytes]) -> Read | None:
    reader, body = RequestReader(), b""
    for piece in pieces:
        if reader.is_done:
            break
        body += reader.feed(piece)
        if reader.problem:
            return None
    head = reader.head
    return (head.method, head.target, lower_coding(head.headers), body) if head and reader.is_done else None


def read_answer(pieces: list[bytes]) -> Read | None:
    reader, body = AnswerReader("GET"), b""
    for piece in pieces:
        body += reader.feed(piece)
        if reader.problem:
            return None
    reader.feed_eof()
    head = reader.head
    if head is None or not reader.is_done:
        return None
    cookies = {"set-cookie": ", ".join(head.cookies)} if head.cookies else {}
    return "answer", str(head.status), {**lower_coding(head.headers), **cookies}, body


@settings(max_examples=rounds(300))
@given(data=requests(), size=st.integers(1, 40))
def test_a_request_is_read_as_h11_reads_it_however_it_is_split(data: bytes, size: int) -> None:
    assert read_request(cut(data, size)) == read_by_h11(data, server=True)


@settings(max_examples=rounds(300))
@given(data=answers(), size=st.integers(1, 40))
def test_an_answer_is_read_as_h11_reads_it_however_it_is_split(data: bytes, size: int) -> None:
    assert read_answer(cut(data, size)) == read_by_h11(data, server=False)


@settings(max_examples=rounds(600))
@given(
    sent=requests(), at=st.integers(0, 200), gone=st.integers(0, 3), put=st.binary(max_size=3), size=st.integers(1, 400)
)
def test_a_damaged_request_is_read_as_h11_reads_it_or_refused(
    sent: bytes, at: int, gone: int, put: bytes, size: int
) -> None:
    data = sent[:at] + put + sent[at + gone :]
    ours = read_request(cut(data, size))
    assert ours is None or ours == read_by_h11(data.lstrip(b"\r\n"), server=True)


@settings(max_examples=rounds(600))
@given(
    sent=answers(), at=st.integers(0, 200), gone=st.integers(0, 3), put=st.binary(max_size=3), size=st.integers(1, 400)
)
def test_a_damaged_answer_is_read_as_h11_reads_it_or_refused(
    sent: bytes, at: int, gone: int, put: bytes, size: int
) -> None:
    data = sent[:at] + put + sent[at + gone :]
    ours = read_answer(cut(data, size))
    assert ours is None or ours == read_by_h11(data, server=False)


@pytest.mark.parametrize("data", NASTY_REQUESTS)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_request_that_could_be_understood_in_two_ways_is_refused(data: bytes, size: int) -> None:
    assert read_request(cut(data, size)) is None


@pytest.mark.parametrize("data", NASTY_ANSWERS)
@pytest.mark.parametrize("size", [1, 1000])
def test_an_answer_that_could_be_understood_in_two_ways_is_refused(data: bytes, size: int) -> None:
    assert read_answer(cut(data, size)) is None


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("framing", ["length", "chunks", "none"])
def test_what_follows_a_request_is_kept_for_the_next_one(framing: str, size: int) -> None:
    body = b"one\r\n\r\ntwo\r\n"
    bodies = {
        "length": b"content-length: %d\r\n\r\n" % len(body) + body,
        "chunks": b"transfer-encoding: chunked\r\n\r\n" + chunk(body) + chunk(b"\r\n\r\n") + b"0\r\nX: 1\r\n\r\n",
        "none": b"\r\n",
    }
    sent = HEAD + bodies[framing]
    reader, fed = RequestReader(), 0
    for piece in cut(sent + b"GET /next", size):
        reader.feed(piece)
        fed += len(piece)
        if reader.is_done:
            break
    assert (reader.problem, fed - len(reader.rest)) == ("", len(sent))
    assert b"GET /next".startswith(reader.rest)


def test_empty_lines_before_a_request_are_read_over() -> None:
    reader = RequestReader()
    reader.feed(b"\r\n\r\nGET / HTTP/1.0\r\n\r\nrest")
    assert (reader.head, reader.rest) == (("GET", "/", {}, False), b"rest")


@pytest.mark.parametrize("size", [1000, 100_000])
def test_a_head_without_an_end_is_refused(size: int) -> None:
    reader = RequestReader()
    for piece in cut(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000, size):
        reader.feed(piece)
        if reader.problem:
            break
    assert reader.problem == "has a head without an end"


@pytest.mark.parametrize("sent", [b"5;a=%b\r\nhello\r\n" % (b"x" * 10_000) * 10, b"0\r\n" + b"x: y\r\n" * 20_000])
def test_what_stands_around_chunks_has_a_limit(sent: bytes) -> None:
    reader = RequestReader()
    reader.feed(CHUNKED)
    for piece in cut(sent, 5000):
        reader.feed(piece)
        if reader.problem:
            break
    assert reader.problem == "has more around its chunks than in them"


def test_chunks_of_one_byte_are_fine() -> None:
    reader = RequestReader()
    reader.feed(CHUNKED)
    body = b"".join(reader.feed(piece) for piece in cut(chunk(b"x") * 50_000 + chunk(b""), 1000))
    assert (len(body), reader.is_done, reader.problem) == (50_000, True, "")


def test_what_came_of_an_answer_before_it_broke_is_given() -> None:
    reader = AnswerReader("GET")
    body = reader.feed(ANSWER + b"transfer-encoding: chunked\r\n\r\n" + chunk(b"good") + b"worse")
    assert (body, reader.is_done) == (b"good", False)
    assert reader.problem == "has broken chunks: invalid character in chunk size"


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("CONNECT", b"HTTP/1.1 200 Connection established\r\n\r\n"),
        ("GET", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_ends_with_its_head(method: str, head: bytes) -> None:
    reader = AnswerReader(method)
    assert reader.feed(head) == b""
    assert (reader.is_done, reader.problem, reader.has_surplus) == (True, "", False)


@pytest.mark.parametrize(
    "body", [b"content-length: 2\r\n\r\nhi", b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
def test_what_comes_after_an_answer_is_noticed(body: bytes) -> None:
    reader = AnswerReader("GET")
    assert reader.feed(ANSWER + body + b"more") == b"hi"
    assert (reader.is_done, reader.has_surplus) == (True, True)
