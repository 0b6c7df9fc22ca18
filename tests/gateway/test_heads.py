"""The heads and bodies of requests: read as h11 reads them, or not at all."""

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.gateway.http.bodies import body_of_request
from inspan.gateway.http.heads import NotHttp, RequestHead, split_request

from .provider import chunk

NAMES = st.sampled_from(["X-A", "content-type", "accept", "Authorization", "User-Agent"])
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
Read = tuple[str, str, dict[str, str], bytes]


@st.composite
def sent_requests(draw: st.DrawFn) -> bytes:
    rows = "".join(f"{name}: {value}\r\n" for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=6)))
    method = draw(st.sampled_from(["POST", "GET", "DELETE"]))
    target = draw(st.sampled_from(["/", "/v1/messages?beta=true", "/v1beta/models/m:generateContent?key=%20"]))
    start = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{rows}".encode()
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["length", "chunks", "none"]))
    if framing == "length":
        return start + b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == "none":
        return start + b"\r\n"
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    return start + b"transfer-encoding: chunked\r\n\r\n" + b"".join(map(chunk, [*pieces, b""]))


def as_h11_reads_it(data: bytes) -> Read | None:
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    method, target, headers, body = "", "", dict[str, str](), b""
    try:
        while True:
            match parser.next_event():
                case h11.Request() as request:
                    method, target = request.method.decode(), request.target.decode()
                    for name, value in request.headers:
                        key, text = name.decode("latin-1"), value.decode("latin-1")
                        headers[key] = f"{headers[key]}, {text}" if key in headers else text
                case h11.Data() as piece:
                    body += piece.data
                case h11.EndOfMessage():
                    return method, target, headers, body
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None


def as_we_read_it(pieces: list[bytes]) -> Read | None:
    begun, found, body, framing = b"", None, b"", None
    for piece in pieces:
        if framing is None:
            begun += piece
            split = split_request(begun)
            if split is None:
                continue
            found, piece = split
            framing = body_of_request(found)
        body += framing.take(piece)
        if framing.problem:
            return None
    if found is None or framing is None or not framing.is_done:
        return None
    return found.method, found.target, found.headers, body


@settings(max_examples=300, deadline=None)
@given(data=sent_requests(), size=st.integers(1, 40))
def test_a_request_is_read_as_h11_reads_it_however_it_is_split(data: bytes, size: int) -> None:
    assert as_we_read_it([data[at : at + size] for at in range(0, len(data), size)]) == as_h11_reads_it(data)


@settings(max_examples=300, deadline=None)
@given(sent=sent_requests(), at=st.integers(0, 200), put=st.binary(max_size=3))
def test_a_damaged_request_is_never_read_otherwise_than_h11_reads_it(sent: bytes, at: int, put: bytes) -> None:
    data = sent[:at] + put + sent[at + 1 :]
    theirs = as_h11_reads_it(data)
    try:
        ours = as_we_read_it([data])
    except NotHttp:
        return
    assert theirs is None or ours in (None, theirs)


def test_empty_lines_before_a_request_are_read_over() -> None:
    split = split_request(b"\r\n\r\nGET / HTTP/1.0\r\n\r\nrest")
    assert split == (RequestHead(method="GET", target="/", headers={}, is_modern=False), b"rest")


@pytest.mark.parametrize(
    "line", [b"GET /", b"GET / HTTP/2.0", b"GET  / HTTP/1.1", b"G(T / HTTP/1.1", b"GET /\xff HTTP/1.1"]
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(NotHttp):
        split_request(line + b"\r\nhost: x\r\n\r\n")


def test_a_head_without_an_end_is_refused() -> None:
    with pytest.raises(NotHttp, match="without an end"):
        split_request(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-length": "5", "transfer-encoding": "chunked"},
        {"transfer-encoding": "gzip"},
        {"transfer-encoding": "chunked, identity"},
        {"content-length": "-1"},
        {"content-length": "5, 6"},
        {"content-length": ""},
    ],
)
def test_a_body_that_could_end_in_two_places_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(NotHttp):
        body_of_request(RequestHead(method="POST", target="/", headers=headers))
