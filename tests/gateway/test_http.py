"""The server on a plain socket: what older, impatient and thrifty clients may do with one connection."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import pytest

from inspan.framing.http import RequestHead
from inspan.gateway.http.server import HttpReply, HttpServer, Limits

from .provider import WAIT_S, chunk

Handle = Callable[[RequestHead, bytes, HttpReply], Awaitable[None]]
HOST = b"host: x\r\n"


async def echo(head: RequestHead, body: bytes, reply: HttpReply) -> None:
    """Says what was asked, in a body without a length."""
    await reply.start(200, {"X-Kind": "echo"})
    await reply.write(f"{head.method} {head.target} ".encode())
    await reply.write(b"")
    await reply.write(body)
    await reply.finish()


async def count(head: RequestHead, body: bytes, reply: HttpReply) -> None:
    await reply.start(200, {"Content-Length": "5"})
    await reply.write(b"he")
    await reply.write(b"llo")
    await reply.finish()


@contextmanager
def run_server(handle: Handle, *, limits: Limits | None = None) -> Generator[socket.socket]:
    """A client's end of a connection to a server."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = HttpServer(lambda head: head, handle, limits=limits)
    asyncio.run_coroutine_threadsafe(server.open(listener), loop).result(WAIT_S)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            yield client
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


def bodies(data: bytes) -> list[bytes]:
    return [part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 ")[1:]]


def test_requests_that_come_together_are_answered_in_turn() -> None:
    first = b"POST /a?b=1 HTTP/1.1\r\n" + HOST + b"content-length: 3\r\n\r\none"
    second = b"GET /c HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n"
    with run_server(echo) as client:
        client.sendall(first + second)
        told = bodies(read_all(client))
    assert told == [chunk(b"POST /a?b=1 ") + chunk(b"one") + chunk(b""), chunk(b"GET /c ") + chunk(b"")]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_in_chunks_and_pieces_is_put_together(size: int) -> None:
    sent = b"POST /a HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n" + HOST + b"\r\n"
    sent += chunk(b"one") + chunk(b"two") + b"0\r\nx-trailer: 1\r\n\r\n"
    with run_server(echo) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), size):
            client.sendall(sent[at : at + size])
        told = bodies(read_all(client))
    assert told == [chunk(b"POST /a ") + chunk(b"onetwo") + chunk(b"")]


def test_an_old_client_gets_a_body_that_ends_with_the_connection() -> None:
    with run_server(echo) as client:
        client.sendall(b"POST / HTTP/1.0\r\ncontent-length: 3\r\n\r\none")
        told = read_all(client)
    assert bodies(told) == [b"POST / one"]
    assert b"chunked" not in told


def test_a_body_of_known_length_is_sent_bare() -> None:
    with run_server(count) as client:
        client.sendall(b"GET / HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n")
        told = read_all(client)
    assert bodies(told) == [b"hello"]
    assert b"content-length: 5" in told.lower()


def test_the_answer_to_a_head_has_no_body() -> None:
    with run_server(count) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nconnection: close\r\n" + HOST + b"\r\n")
        assert bodies(read_all(client)) == [b""]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"content-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\nx\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"bad header: 1\r\n\r\n",
    ],
)
def test_what_could_be_understood_in_two_ways_is_refused(request_: bytes) -> None:
    with run_server(echo) as client:
        client.sendall(request_)
        assert read_all(client).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "headers",
    [{"x": "a\r\ny: 1"}, {"x\r\ny": "1"}, {"x y": "1"}],
)
def test_a_header_that_smuggles_another_one_never_goes_out(headers: dict[str, str]) -> None:
    problems: list[Exception] = []

    async def smuggle(head: RequestHead, body: bytes, reply: HttpReply) -> None:
        try:
            await reply.start(200, headers)
        except Exception as error:
            problems.append(error)

    with run_server(smuggle) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert read_all(client) == b""
    assert len(problems) == 1


@pytest.mark.parametrize("body", [b"longer than five", b"less"])
def test_a_body_of_another_length_than_it_says_is_a_mistake(body: bytes) -> None:
    problems: list[Exception] = []

    async def miscount(head: RequestHead, asked: bytes, reply: HttpReply) -> None:
        try:
            await reply.start(200, {"content-length": "5"})
            await reply.write(body)
            await reply.finish()
        except Exception as error:
            problems.append(error)

    with run_server(miscount) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        read_all(client)
    assert len(problems) == 1


def test_a_head_goes_out_although_nothing_follows_it_yet() -> None:
    may_end = threading.Event()

    async def hesitate(head: RequestHead, body: bytes, reply: HttpReply) -> None:
        await reply.start(200, {})
        await asyncio.to_thread(may_end.wait, WAIT_S)
        await reply.finish()

    with run_server(hesitate) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        may_end.set()
        assert client.recv(1000) == chunk(b"")
