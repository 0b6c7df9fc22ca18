"""One client that follows: it is sent what is there, waits for more, and is heard of no more once it has left.

What it has not taken is not kept for it: it has a place in a log, and reads on from there when there is room again.
"""

import asyncio
from contextlib import suppress
from types import TracebackType

from starlette.types import Scope, Send

from .connection import Connection, connection_of
from .frames import HEARTBEAT, OPENING
from .token_file import TOKEN_OF_SCOPE

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Left(Exception):
    """The client is gone, or the server is: nothing more is to be sent."""


class Follower:
    """A context manager; `wake` may be called by anybody in the loop, as often as they like. `token` is what let it
    in."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self.token: str = scope[TOKEN_OF_SCOPE]
        self._connection: Connection = connection_of(scope)
        self._woken = asyncio.Event()
        self._is_gone = False
        self._is_silent = True
        self._wants_beat = False
        self._sending_since = 0.0
        self.wake = self._woken.set

    @property
    def is_one_too_many(self) -> bool:
        """Whether its connection is to be left to requests."""
        return self._connection.is_one_too_many

    async def begin(self) -> None:
        """The head of the answer, and how soon a browser should come back."""
        self._connection.narrow()
        await self._pass({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.send(OPENING)

    async def wait_for_room(self) -> None:
        """Waits while the client has not taken what it got: whoever waits here holds nothing for it. Raises `Left`."""
        if self._connection.flow.write_paused:
            self._sending_since = asyncio.get_running_loop().time()
            await self._connection.flow.drain()
            self._sending_since = 0.0
        if self._is_gone:
            raise Left

    async def send(self, data: bytes) -> None:
        """Hands data over, and waits for room where there was none. Raises `Left`."""
        self._is_silent = False
        await self._pass({"type": "http.response.body", "body": data, "more_body": True})
        if self._is_gone:
            raise Left

    async def beat_or_wait(self) -> None:
        """Waits until it is woken; where nothing was sent for a while sends a comment first, so that whoever stands
        between keeps the connection. Raises `Left`."""
        if self._wants_beat:
            self._wants_beat = False
            await self.send(HEARTBEAT)
        await self._woken.wait()
        self._woken.clear()
        if self._is_gone:
            raise Left

    async def end(self) -> None:
        """Ends the answer as it should end."""
        with suppress(Left):
            await self._pass({"type": "http.response.body", "body": b"", "more_body": False})

    def tick(self, now: float, *, beats: bool, longest_s: float) -> None:
        """Looked after by the hub: a client that takes nothing for too long is let go of."""
        if self._sending_since and now - self._sending_since > longest_s:
            self._connection.abort()
        elif beats:
            self._wants_beat = self._is_silent
            self._is_silent = True
            if self._wants_beat:
                self.wake()

    def dismiss(self) -> None:
        """The server ends, or has another token: so does this, at once where the client does not read."""
        if self._sending_since:
            self._connection.abort()
        self._leave()

    async def _pass(self, message: dict[str, object]) -> None:
        self._sending_since = asyncio.get_running_loop().time()
        await self._send(message)
        self._sending_since = 0.0

    def _leave(self) -> None:
        self._is_gone = True
        self._woken.set()

    def __enter__(self) -> "Follower":
        self._connection.on_lost = self._leave
        if self._connection.is_lost:  # While it was looked up what is to be followed.
            self._leave()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.on_lost = None
