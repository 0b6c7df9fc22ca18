"""One HTTP/1.1 server on a socket that it is given: whole requests in, answers out piece by piece."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from inspan.gateway.http.bodies import Body, body_of_request
from inspan.gateway.http.heads import NotHttp, RequestHead, split_request
from inspan.gateway.http.reply import REASONS, ClientHungUp, HttpReply

__all__ = ["BODY_LIMIT_BYTES", "ClientHungUp", "HttpReply", "HttpRequest", "HttpServer"]

BODY_LIMIT_BYTES = 64 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024
_CLOSE_TIMEOUT_S = 2.0
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpRequest:
    """One whole request; header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


Handler = Callable[[HttpRequest, HttpReply], Awaitable[None]]


class HttpServer:
    """Hands each request to `handle`, one at a time for each connection; owns connections and their tasks."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._buffer = bytearray(_BUFFER_BYTES)

    async def open(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=listener)

    async def close(self) -> None:
        """Stops listening, cancels what runs and drops every connection; bounded and idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
        connections = list(self._connections)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S)
        for connection in connections:
            connection.abort()

    def _connection(self) -> "_Connection":
        return _Connection(self._handle, self._connections, self._buffer)


@dataclass(kw_only=True, slots=True)
class _Incoming:
    head: RequestHead
    framing: Body
    pieces: list[bytes] = field(default_factory=list[bytes])
    size: int = 0

    def take(self, data: bytes) -> None:
        piece = self.framing.take(data)
        self.pieces.append(piece)
        self.size += len(piece)

    def whole(self) -> HttpRequest:
        path, _, query = self.head.target.partition("?")
        body = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        return HttpRequest(method=self.head.method, path=path, query=query, headers=self.head.headers, body=body)


class _Connection(asyncio.BufferedProtocol):
    """The buffer is that of all connections: what arrives is taken out at once."""

    def __init__(self, handle: Handler, connections: "set[_Connection]", buffer: bytearray) -> None:
        self._handle = handle
        self._connections = connections
        self._buffer = memoryview(buffer)
        self._unread = b""
        self._held = b""
        self._incoming: _Incoming | None = None
        self._writable = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # asyncio does this only where the listener's protocol is named; else small events wait 40 ms for the last one.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._writable.set()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._writable.set()
        if self.task is not None:
            self.task.cancel()  # It may go on for a moment, and whoever closes the server waits for it.
        else:
            self._connections.discard(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if self.task is None:
            self._advance(data)
        elif len(self._unread) + nbytes > BODY_LIMIT_BYTES:
            self.abort()
        else:
            self._unread += data

    async def hold(self, data: bytes) -> None:
        """Sends it with the next data, or, if none comes at once, alone."""
        self._check()
        self._held = data
        asyncio.get_running_loop().call_soon(self._flush)
        await self._writable.wait()

    async def send(self, data: bytes) -> None:
        self._check()
        self._write(data)
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _check(self) -> None:
        if self.is_lost or self._transport is None or self._transport.is_closing():
            raise ClientHungUp

    def _write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        if data and self._transport is not None:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._held and not self.is_lost:
            self._write(b"")

    def _advance(self, data: bytes) -> None:
        """Takes what has arrived, up to the end of one request; the next waits until that one is answered."""
        try:
            if self._incoming is None:
                data = self._begin(data)
            if self._incoming is not None:
                self._go_on_taking(self._incoming, data)
        except NotHttp:
            self._refuse(400)

    def _begin(self, data: bytes) -> bytes:
        """What follows the head, once that is there."""
        split = split_request(self._unread + data)
        if split is None:
            self._unread += data
            return b""
        head, rest = split
        self._unread = b""
        if head.is_modern and "host" not in head.headers:
            raise NotHttp("has no host")
        self._incoming = _Incoming(head=head, framing=body_of_request(head))
        if head.headers.get("expect", "").lower() == "100-continue" and not rest:
            self._write(_GO_ON)
        return rest

    def _go_on_taking(self, incoming: _Incoming, data: bytes) -> None:
        if data:
            incoming.take(data)
        if incoming.framing.problem:
            raise NotHttp(incoming.framing.problem)
        if incoming.size > BODY_LIMIT_BYTES:
            return self._refuse(413)
        if incoming.framing.is_done:
            self._unread = incoming.framing.rest
            self._incoming = None
            self.task = asyncio.get_running_loop().create_task(self._serve(incoming))
        return None

    def _refuse(self, status: int) -> None:
        self._incoming = None
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self._write(head.encode())
        self.close()

    async def _serve(self, incoming: _Incoming) -> None:
        reply = HttpReply(self, incoming.head)
        try:
            await self._handle(incoming.whole(), reply)
        except ClientHungUp:
            pass
        finally:
            self.task = None
            self._go_on(usable=reply.leaves_connection_usable)

    def _go_on(self, *, usable: bool) -> None:
        """Serves the next request on this connection, or closes it when the last answer was not whole."""
        if self.is_lost:
            self._connections.discard(self)
            return
        if not usable:
            self.close()
        elif self._unread:
            unread, self._unread = self._unread, b""
            self._advance(unread)
