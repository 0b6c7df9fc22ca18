"""One HTTP/1.1 server on a socket that it is given: whole requests in, answers out piece by piece."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import h11

BODY_LIMIT_BYTES = 64 * 1024 * 1024
_CLOSE_TIMEOUT_S = 2.0


class ClientHungUp(ConnectionError):
    """The client closed the connection before the answer was complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpRequest:
    """One whole request; header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class HttpReply:
    """Writes one answer; every write waits until the client keeps up."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection = connection
        self.started = False

    @property
    def client_is_gone(self) -> bool:
        return self._connection.is_lost

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        lines = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await self._connection.send(h11.Response(status_code=status, headers=lines))

    async def write(self, data: bytes) -> None:
        await self._connection.send(h11.Data(data=data))

    async def finish(self) -> None:
        await self._connection.send(h11.EndOfMessage())

    def cut(self) -> None:
        self._connection.close()

    def note(self, problem: str) -> None:
        """Nobody reports what goes out here as it is."""


Handler = Callable[[HttpRequest, HttpReply], Awaitable[None]]


class HttpServer:
    """Hands each request to `handle`, one at a time for each connection; owns connections and their tasks."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def open(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self._handle, self._connections), sock=listener)

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


@dataclass(kw_only=True, slots=True)
class _Incoming:
    head: h11.Request
    body: bytearray = field(default_factory=bytearray)

    def whole(self) -> HttpRequest:
        path, _, query = self.head.target.decode("latin-1").partition("?")
        headers: dict[str, str] = {}
        for raw, value in self.head.headers:
            name, text = raw.decode("ascii"), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        method = self.head.method.decode("ascii")
        return HttpRequest(method=method, path=path, query=query, headers=headers, body=bytes(self.body))


class _Connection(asyncio.Protocol):
    def __init__(self, handle: Handler, connections: "set[_Connection]") -> None:
        self._handle = handle
        self._connections = connections
        self._parser = h11.Connection(h11.SERVER)
        self._incoming: _Incoming | None = None
        self._writable = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
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

    def data_received(self, data: bytes) -> None:
        self._parser.receive_data(data)
        self._advance()

    async def send(self, event: h11.Event) -> None:
        if self.is_lost or self._transport is None or self._transport.is_closing():
            raise ClientHungUp
        data = self._parser.send(event)
        if data:
            self._transport.write(data)
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> None:
        """Takes what has arrived, up to the end of one request; the next waits until that one is answered."""
        try:
            while self.task is None and self._take(self._parser.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)

    def _take(self, event: object) -> bool:
        """Whether there may be more to take."""
        match event:
            case h11.Request():
                self._incoming = _Incoming(head=event)
                self._invite_body()
            case h11.Data() if self._incoming is not None:
                self._incoming.body += event.data
                if len(self._incoming.body) > BODY_LIMIT_BYTES:
                    self._refuse(413)
                    return False
            case h11.EndOfMessage() if self._incoming is not None:
                self.task = asyncio.get_running_loop().create_task(self._serve(self._incoming.whole()))
                self._incoming = None
            case _:
                return False
        return True

    def _invite_body(self) -> None:
        if self._parser.they_are_waiting_for_100_continue and self._transport is not None:
            going_on = h11.InformationalResponse(status_code=100, headers=[])
            self._transport.write(self._parser.send(going_on) or b"")

    def _refuse(self, status: int) -> None:
        if self._transport is None or self.task is not None:
            return self.abort()
        head = h11.Response(status_code=status, headers=[("content-length", "0"), ("connection", "close")])
        self._transport.write((self._parser.send(head) or b"") + (self._parser.send(h11.EndOfMessage()) or b""))
        return self.close()

    async def _serve(self, request: HttpRequest) -> None:
        try:
            await self._handle(request, HttpReply(self))
        except ClientHungUp:
            pass
        finally:
            self.task = None
            self._go_on()

    def _go_on(self) -> None:
        """Serves the next request on this connection, or closes it when the last answer was not whole."""
        if self.is_lost:
            self._connections.discard(self)
            return
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
            self._advance()
        else:
            self.close()
