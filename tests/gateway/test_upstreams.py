"""The seam: any upstream may stand behind the gateway; each call is reported once, whatever it does."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest

from inspan.gateway import Gateway, ModelCall, Reply, Request
from inspan.protocol.usage import Usage

from .provider import WAIT_S

BODY = json.dumps({"model": "m", "stream": True, "messages": []}).encode()
HEAD = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: t\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
STREAM = {"content-type": "text/event-stream"}


class CallbackUpstream:
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
        (reports_an_error_midway, 200, "error in the answer", "Overloaded"),
    ],
)
def test_an_upstream_that_goes_wrong_is_reported(
    act: Callable[[Request, Reply], Awaitable[None]], status: int, problem: str, message: str
) -> None:
    (call,) = asyncio.run(asyncio.wait_for(_calls(CallbackUpstream(act)), WAIT_S))
    assert (call.status, call.problem) == (status, problem)
    assert message in call.message


def test_a_slow_reader_holds_the_upstream_back() -> None:
    written: list[int] = []

    async def pours(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        for number in range(1000):
            await reply.write(b"x" * 100_000)
            written.append(number)

    (call,) = asyncio.run(asyncio.wait_for(_calls(CallbackUpstream(pours), reads=False), WAIT_S))
    assert call.problem == "client hung up"
    assert len(written) < 1000


def test_what_was_spent_counts_even_if_the_client_leaves_while_it_is_sent() -> None:
    counted = b'data: {"type": "message_delta", "usage": {"output_tokens": 9}}\n\n'
    final = counted + b'data: {"type": "message_stop"}\n\n'

    async def sends_too_much_at_once(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        await reply.write(b": padding\n" * 2_000_000 + final)

    (call,) = asyncio.run(asyncio.wait_for(_calls(CallbackUpstream(sends_too_much_at_once), reads=False), WAIT_S))
    assert (call.usage, call.problem) == (Usage(output=9), "")


def test_an_upstream_that_falls_silent_is_noticed_by_the_clock() -> None:
    async def falls_silent(request: Request, reply: Reply) -> None:
        await reply.start(200, STREAM)
        await asyncio.sleep(3600)

    stalls: list[ModelCall] = []
    (call,) = asyncio.run(asyncio.wait_for(_calls(CallbackUpstream(falls_silent), stalls=stalls), WAIT_S))
    assert [stall.problem for stall in stalls] == ["stalled"]
    assert call.problem == "stalled"


async def _calls(
    upstream: CallbackUpstream, *, reads: bool = True, stalls: list[ModelCall] | None = None
) -> list[ModelCall]:
    """What one request leads to; the client leaves at a stall, or, unless it reads, at once."""
    calls: asyncio.Queue[ModelCall] = asyncio.Queue()
    listener = socket.create_server(("127.0.0.1", 0))
    reader, writer = await asyncio.open_connection(*listener.getsockname(), limit=1000)

    def on_stall(call: ModelCall) -> None:
        assert stalls is not None
        stalls.append(call)
        writer.close()

    timeout_s = None if stalls is None else 1.0
    gateway = Gateway(
        token="t", upstream=upstream, on_call=calls.put_nowait, stall_timeout_s=timeout_s, on_stall=on_stall
    )
    await gateway.open(listener)
    writer.write(HEAD + BODY)
    await (reader.readuntil(b"\r\n\r\n") if reads else reader.readexactly(1))
    if not reads:
        writer.close()
    found = [await calls.get()]
    writer.close()
    await gateway.close()
    return found + [calls.get_nowait() for _ in range(calls.qsize())]
