"""A server whose opening is cancelled, at every step that the opening takes, can still be closed with its socket."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

import pytest

from inspan.gateway.egress import PortForward
from inspan.gateway.http.server import HttpServer

from .test_http import echo


class Server(Protocol):
    async def open(self, listener: socket.socket) -> None: ...
    async def close(self) -> None: ...


SERVERS: dict[str, Callable[[], Server]] = {
    "http": lambda: HttpServer(lambda head: head, echo),
    "forward": lambda: PortForward("127.0.0.1", 9),
}


async def _cancel_opening(server: Server, listener: socket.socket, *, steps: int) -> bool:
    """True where the opening was still under way."""
    opening = asyncio.create_task(server.open(listener))
    for _ in range(steps):
        await asyncio.sleep(0)
    cancelled = opening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await opening
    await server.close()
    return cancelled


@pytest.mark.parametrize("kind", SERVERS)
def test_an_opening_that_is_cancelled_leaves_no_open_socket(kind: str) -> None:
    async def scene() -> None:
        steps, cancelled = 1, True
        while cancelled:  # Until the opening is over before the cancel comes.
            with socket.create_server(("127.0.0.1", 0)) as listener:
                cancelled = await _cancel_opening(SERVERS[kind](), listener, steps=steps)
                assert listener.fileno() == -1
            steps += 1
        assert steps > 2

    asyncio.run(scene())
