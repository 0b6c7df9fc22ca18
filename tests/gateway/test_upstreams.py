"""The seam: any upstream may stand behind the gateway; each call is reported once, whatever it does."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest

from inspan.gateway import Gateway, ModelCall, Reply, Request

BODY = json.dumps({"model": "m", "stream": True, "messages": []}).encode()
HEAD = (
    f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: t\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
)
STREAM = {"content-type": "text/event-stream"}


class Acting:
    """An upstream that does what a test says."""

    def __init__(self, act: Callable[[Request, Reply], Awaitable[None]]) -> None:
        self._act = act

    async def answer(self, request: Request, reply: Reply) -> None:
        await self._act(request, reply)


async def breaks_at_once(request: Request, reply: Reply) -> None:
    raise ConnectionRefusedError("provider is down")


async def breaks_midway(request: Request, reply: Reply) -> None:
    await reply.start(200, STREAM)
    raise KeyError("oops")


async def forgets_to_finish(request: Request, reply: Reply) -> None:
    await reply.start(200, STREAM)
    await reply.write(b'data: {"type": "message_start"}\n\n')


async def ends_early(request: Request, reply: Reply) -> None:
    await forgets_to_finish(request, reply)
    await reply.finish()


async def reports_an_error_midway(request: Request, reply: Reply) -> None:
    await reply.start(200, STREAM)
    await reply.write(b'data: {"type": "error", "error": {"mess')
    await reply.write(b'age": "Overloaded"}}\r\n\r\n')
    await reply.finish()


@pytest.mark.parametrize(
    ("act", "status", "problem", "message"),
    [
        (
            breaks_at_once,
            500,
            "gateway broke: ConnectionRefusedError('provider is down')",
            "could not answer",
        ),
        (breaks_midway, 200, "gateway broke: KeyError('oops')", ""),
        (forgets_to_finish, 200, "cut", ""),
        (ends_early, 200, "cut", ""),
        (reports_an_error_midway, 200, "", "Overloaded"),
    ],
)
def test_an_upstream_that_goes_wrong_is_reported(
    act: Callable[[Request, Reply], Awaitable[None]], status: int, problem: str, message: str
) -> None:
    (call,) = asyncio.run(asyncio.wait_for(_calls(Acting(act)), timeout=20))
    assert (call.status, call.problem) == (status, problem)
    assert message in call.message


def test_a_slow_reader_holds_the_upstream_back() -> None:
    written: list[int] = []

    async def pours(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        for number in range(1000):
            await reply.write(b"x" * 100_000)
            written.append(number)

    (call,) = asyncio.run(asyncio.wait_for(_calls(Acting(pours), reads=False), timeout=20))
    assert call.problem == "client hung up"
    assert len(written) < 1000


async def _calls(upstream: Acting, *, reads: bool = True) -> list[ModelCall]:
    """What one request leads to, with a client that reads the answer's head, or hangs up on its first byte."""
    calls: asyncio.Queue[ModelCall] = asyncio.Queue()
    gateway = Gateway(token="t", upstream=upstream, on_call=calls.put_nowait)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await gateway.open(listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    writer.write(HEAD + BODY)
    await (reader.readuntil(b"\r\n\r\n") if reads else reader.readexactly(1))
    if not reads:
        writer.close()
    found = [await calls.get()]
    writer.close()
    await gateway.close()
    return found + [calls.get_nowait() for _ in range(calls.qsize())]
