"""One HTTP/1.1 server on a socket that it is given: heads are checked first, then bodies are read, answers go out.

Whoever is turned away by its head alone costs no more than that head. Everything a client may hold open has a limit.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from inspan.framing.http import RequestHead, RequestReader, parse_content_length
from inspan.gateway.http.reply import REASONS, ClientHungUp, HttpReply

__all__ = ["ClientHungUp", "HttpReply", "HttpServer", "Limits", "ShortAnswer", "log_fault"]

_BUFFER_BYTES = 64 * 1024
_CLOSE_TIMEOUT_S = 2.0
_EXPIRY_CHECK_S = 1.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Checked = TypeVar("Checked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What clients may hold open, and for how long.

    `new_s`: without a word after connecting; `head_s` and `body_s`: until a head and a body are whole, from their
    first byte; `idle_s`: between two requests; `linger_s` and `linger_bytes`: how much one that was turned away
    may go on sending, which nobody keeps. `body_bytes` is for one request, `bodies_bytes` for all that are under way;
    `waiting_bytes` is what a client may send ahead of its answer.
    """

    new_s: float = 30.0
    head_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 300.0
    linger_s: float = 2.0
    linger_bytes: int = 1024 * 1024
    body_bytes: int = 64 * 1024 * 1024
    bodies_bytes: int = 256 * 1024 * 1024
    waiting_bytes: int = 1024 * 1024
    connections: int = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortAnswer:
    """The answer to a request of which nothing but the head was looked at."""

    status: int
    body: bytes = b""
    is_unauthenticated: bool = False


Check = Callable[[RequestHead], Checked | ShortAnswer]
Handler = Callable[[Checked, bytes, HttpReply], Awaitable[None]]
OnFault = Callable[[Exception], None]


def log_fault(error: Exception) -> None:
    """Tells the running loop's exception handler, as it is told of what breaks in a task that nobody waits for."""
    asyncio.get_running_loop().call_exception_handler({"message": "inspan: the gateway broke", "exception": error})


class HttpServer(Generic[Checked]):
    """Gives each head to `check`, and what that lets in to `handle` with its body, one at a time for each connection.

    Owns connections and their tasks. `on_fault` hears of what breaks in here, in `check` or in `handle`; to its client
    that is a connection that was closed.
    """

    def __init__(
        self,
        check: Check[Checked],
        handle: Handler[Checked],
        *,
        limits: Limits | None = None,
        on_fault: OnFault = log_fault,
    ) -> None:
        self._shared = _ServerState(check, handle, limits or Limits(), on_fault)
        self._server: asyncio.Server | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        return len(self._shared.connections)

    async def open(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        # In two steps: whoever is cancelled while it begins to serve still finds a server that can be closed.
        self._server = await loop.create_server(lambda: _Connection(self._shared), sock=listener, start_serving=False)
        await self._server.start_serving()
        self._drop_expired(loop)

    async def close(self) -> None:
        """Stops listening, cancels what runs and drops every connection; bounded and idempotent."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        connections = list(self._shared.connections)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S)
        for connection in connections:
            connection.abort()

    def _drop_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drops connections whose time is over; one timer for all costs less than one for each."""
        now = loop.time()
        for connection in [each for each in self._shared.connections if each.deadline <= now]:
            connection.abort()
        shortest_s = min(self._shared.limits.new_s, self._shared.limits.head_s, _EXPIRY_CHECK_S)
        self._expiry_timer = loop.call_later(shortest_s, self._drop_expired, loop)


class _ServerState(Generic[Checked]):
    """What all connections of a server have in common; the oldest connection comes first."""

    def __init__(self, check: Check[Checked], handle: Handler[Checked], limits: Limits, on_fault: OnFault) -> None:
        self.check = check
        self.handle = handle
        self.limits = limits
        self.on_fault = on_fault
        self.connections: dict[_Connection[Checked], None] = {}
        self.buffer = bytearray(_BUFFER_BYTES)
        self.bodies_bytes = 0


class _Connection(asyncio.BufferedProtocol, Generic[Checked]):
    """The buffer is that of all connections: what arrives is taken out at once."""

    def __init__(self, shared: _ServerState[Checked]) -> None:
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(shared.buffer)
        self._reader = RequestReader()
        self._checked: Checked | None = None
        self._pieces: list[bytes] = []
        self._queued = bytearray()
        self._unsent_head = b""
        self._writable = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._is_lingering = False
        self._discarded_bytes = 0
        self._is_authenticated = False
        self.deadline = self._loop.time() + shared.limits.new_s
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # Some loops' transports only behave like one.
        self._writable.set()
        if len(self._shared.connections) >= self._shared.limits.connections and not self._evict_oldest():
            return self.abort()
        self._shared.connections[self] = None
        try:
            # asyncio does this only where the listener's protocol is named; else small events wait 40 ms for the last.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except Exception as error:  # Whatever a loop of somebody else's gives for a socket.
            self._on_error(error)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._writable.set()
        if self.task is not None:
            self.task.cancel()  # It may go on for a moment, and whoever closes the server waits for it.
        else:
            self._unregister()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_lingering:
            self._discarded_bytes += nbytes
            return self.abort() if self._discarded_bytes > self._shared.limits.linger_bytes else None
        data = bytes(self._buffer[:nbytes])
        if self.task is None:
            try:
                self._process_data(data)
            except Exception as error:  # A fault of ours, which the loop would only log.
                self._on_error(error)
        elif len(self._queued) + nbytes > self._shared.limits.waiting_bytes:
            self.abort()
        else:
            self._queued += data
        return None

    async def send_soon(self, data: bytes) -> None:
        """Sends it with the next data, or, if none comes at once, alone."""
        self._check_open()
        self._unsent_head = data
        self._loop.call_soon(self._flush)
        await self._writable.wait()

    async def send(self, data: bytes) -> None:
        self._check_open()
        self._write(data)
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _on_error(self, error: Exception) -> None:
        self._shared.on_fault(error)
        self.abort()

    def _check_open(self) -> None:
        if self.is_lost or self._transport is None or self._transport.is_closing():
            raise ClientHungUp

    def _write(self, data: bytes) -> None:
        if self._unsent_head:
            data, self._unsent_head = self._unsent_head + data, b""
        if data and self._transport is not None:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._unsent_head and not self.is_lost:
            self._write(b"")

    def _process_data(self, data: bytes) -> None:
        """Takes what has arrived, request by request; one that is let in holds up those behind it."""
        while data and self.task is None and not self._is_lingering:
            data = self._process_request(data)

    def _process_request(self, data: bytes) -> bytes:
        """What came behind the end of a request that has its answer already."""
        reader = self._reader
        had_begun, had_head = reader.has_begun, reader.head is not None
        piece = reader.feed(data)
        if reader.problem:
            self._reject(ShortAnswer(status=400))
        elif reader.head is None:
            self._set_deadline(self._shared.limits.head_s if reader.has_begun and not had_begun else None)
        elif not had_head and (short := self._admit(reader.head)):
            return self._send_short_answer(short)
        else:
            self._add_body(piece)
        return b""

    def _set_deadline(self, seconds: float | None) -> None:
        if seconds is not None:
            self.deadline = self._loop.time() + seconds

    def _admit(self, head: RequestHead) -> ShortAnswer | None:
        """What is answered at once, where a head may not go on."""
        checked = self._shared.check(head)
        if isinstance(checked, ShortAnswer):
            self._is_authenticated = self._is_authenticated or not checked.is_unauthenticated
            return checked
        self._is_authenticated = True
        if (parse_content_length(head.headers) or 0) > self._shared.limits.body_bytes:
            return ShortAnswer(status=413)
        self._checked = checked
        self._set_deadline(self._shared.limits.body_s)
        if head.headers.get("expect", "").lower() == "100-continue" and not self._reader.size:
            self._write(_CONTINUE)
        return None

    def _add_body(self, piece: bytes) -> None:
        """Begins to serve the request with the last piece of its body."""
        reader, limits = self._reader, self._shared.limits
        if piece:
            self._pieces.append(piece)
            self._shared.bodies_bytes += len(piece)
        if reader.size > limits.body_bytes or self._shared.bodies_bytes > limits.bodies_bytes:
            self._reject(ShortAnswer(status=413))
        elif reader.is_done:
            assert reader.head is not None and self._checked is not None
            self._reader = RequestReader()
            self.deadline = float("inf")
            self._queued += reader.rest
            self.task = self._loop.create_task(self._serve(reader.head, self._checked, self._join_pieces()))

    def _join_pieces(self) -> bytes:
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._drop_pieces()
        return body

    def _drop_pieces(self) -> None:
        self._shared.bodies_bytes -= sum(map(len, self._pieces))
        self._pieces = []

    def _send_short_answer(self, answer: ShortAnswer) -> bytes:
        """What came behind the request, where the connection can be used again."""
        reader = self._reader
        if answer.is_unauthenticated or not reader.is_done or reader.head is None or not reader.head.keeps_alive:
            self._reject(answer)
            return b""
        self._reader = RequestReader()
        self._write(_encode_answer(answer, reader.head, close=False))
        self._set_deadline(self._shared.limits.idle_s)
        return reader.rest

    def _reject(self, answer: ShortAnswer) -> None:
        """Answers, and hears out in vain what the client still sends: closing at once could take the answer away."""
        self._drop_pieces()
        self._is_lingering = True
        self._set_deadline(self._shared.limits.linger_s)
        self._write(_encode_answer(answer, self._reader.head, close=True))
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    async def _serve(self, head: RequestHead, checked: Checked, body: bytes) -> None:
        reply = HttpReply(self, head)
        try:
            await self._shared.handle(checked, body, reply)
        except ClientHungUp:
            pass
        except Exception as error:  # A fault of ours, which nobody would hear of: nobody waits for this task.
            self._shared.on_fault(error)
        finally:
            self.task = None
            self._serve_next(usable=reply.leaves_connection_usable)

    def _serve_next(self, *, usable: bool) -> None:
        """Serves the next request on this connection, or closes it when the last answer was not whole."""
        self._set_deadline(self._shared.limits.idle_s)
        if self.is_lost:
            return self._unregister()
        if not usable:
            return self.close()
        waiting, self._queued = bytes(self._queued), bytearray()
        return self._process_data(waiting)

    def _evict_oldest(self) -> bool:
        """Drops the oldest connection that never showed the token, else the oldest that waits for nothing."""
        others = [each for each in self._shared.connections if each.task is None and each is not self]
        found = next((each for each in others if not each._is_authenticated), None) or next(iter(others), None)
        if found is not None:
            found.abort()
            found._unregister()
        return found is not None

    def _unregister(self) -> None:
        self._drop_pieces()
        self._shared.connections.pop(self, None)


def _encode_answer(answer: ShortAnswer, head: RequestHead | None, *, close: bool) -> bytes:
    has_body = answer.body and (head is None or head.method != "HEAD")
    lines = [
        f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, '')}",
        *(["content-type: application/json"] if answer.body else []),
        f"content-length: {len(answer.body)}",
        *(["connection: close"] if close else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (answer.body if has_body else b"")
