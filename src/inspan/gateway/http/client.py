"""A small HTTP/1.1 client for one origin: connections are kept, answers come piece by piece, nothing is re-encoded."""

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType

from inspan.framing.http import AnswerHead
from inspan.gateway.http.connection import Connection, ConnectionCut
from inspan.gateway.http.routes import Origin, proxy_for

from .connector import CONNECT_TIMEOUT_S, Connector, Unreachable

MAX_CONNECTIONS = 256
# Many servers close a connection that was idle for 5 s. A request that meets that on its way is lost, and nobody can
# tell it from one that was read and is paid for: it is not sent again, and must not happen.
IDLE_S = 4.0
_CLOSE_TIMEOUT_S = 1.0

__all__ = ["Client", "ConnectionCut", "Exchange", "Unreachable"]


class Client:
    """Owns its connections, at most `max_connections` of them; whoever asks for more waits. To be closed."""

    def __init__(
        self,
        origin: Origin,
        *,
        proxies: Mapping[str, str] | None = None,
        ca_files: Iterable[str] = (),
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        proxy = proxy_for(origin, proxies or {})
        self._connector = Connector(origin, proxy=proxy, ca_files=ca_files, timeout_s=connect_timeout_s)
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._slots = asyncio.Semaphore(max_connections)
        self._prefix, self._extra = _absolute_form(self._connector)
        self._is_closed = False
        self._idle_s = idle_s

    async def send(self, method: str, target: str, *, headers: Mapping[str, str], body: bytes = b"") -> "Exchange":
        """Sends a request, with `host` and `content-length` added; raises `Unreachable`. Close what it gives."""
        if not target.startswith("/"):
            raise ValueError("A target begins with a slash: behind a proxy it would name another host.")
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"host: {self._connector.origin.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}"] if body or method not in ("GET", "HEAD") else []
        lines += self._extra
        text = "\r\n".join([*lines, "", ""])
        if text.count("\n") != len(lines) + 1:
            raise ValueError("A header of the request has a line break in it.")
        head = text.encode("latin-1")
        exchange = Exchange(self, method, head, body)
        await self._slots.acquire()
        try:
            await exchange.begin()
        except BaseException:
            self._slots.release()
            raise
        return exchange

    async def close(self) -> None:
        """Drops every connection, also those that are in use; bounded and idempotent."""
        self._is_closed = True
        self._idle.clear()
        waits = [connection.lost for connection in self._open]
        for connection in self._open:
            connection.abort()
        if waits:
            await asyncio.wait(waits, timeout=_CLOSE_TIMEOUT_S)

    async def acquire(self) -> Connection:
        """A connection that is free: the one that was used last, or a new one."""
        oldest_good = asyncio.get_running_loop().time() - self._idle_s
        while self._idle:
            connection = self._idle.pop()
            if connection.is_free and connection.is_quiet and connection.idle_since > oldest_good:
                return connection
            connection.abort()
        if self._is_closed:
            raise self.unreachable_error("the gateway is closing")
        connection = await self._connector.connect()
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def release(self, connection: Connection) -> None:
        """Ends the use of a connection: it is kept for the next one if it can be, else dropped."""
        self._slots.release()
        self._keep_idle(connection)

    def _keep_idle(self, connection: Connection) -> None:
        if self._is_closed or not connection.is_free:
            return connection.abort()
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while self._idle[0].idle_since < connection.idle_since - self._idle_s:
            self._idle.pop(0).abort()
        return None

    def unreachable_error(self, reason: str) -> Unreachable:
        return self._connector.unreachable_error(reason)


class Exchange:
    """One request on its way, and its answer. Closing it before the end drops the connection."""

    def __init__(self, client: Client, method: str, head: bytes, body: bytes) -> None:
        self._client = client
        self._method = method
        self._head = head
        self._body = body
        self._connection: Connection | None = None
        self._is_closed = False

    async def begin(self) -> None:
        self._connection = await self._client.acquire()
        self._connection.send_request(self._head, self._body, method=self._method)

    async def head(self) -> AnswerHead:
        """The head of the answer; raises `Unreachable` when none comes. Safe to cancel.

        The request is never sent again: whoever closed the connection may have read it, and would be paid twice.
        """
        assert self._connection is not None
        try:
            return await self._connection.head()
        except ConnectionCut as error:
            when = "" if self._connection.has_answered else " before an answer came"
            raise self._client.unreachable_error(f"{error}{when}") from error

    async def read(self) -> bytes:
        """The next piece of the body, empty at its end; raises `ConnectionCut`. Safe to cancel."""
        assert self._connection is not None
        return await self._connection.read()

    def close(self) -> None:
        """Idempotent."""
        if self._connection is not None and not self._is_closed:
            self._is_closed = True
            self._client.release(self._connection)

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _absolute_form(connector: Connector) -> tuple[str, list[str]]:
    """What stands before the target and after the headers: a proxy for plain HTTP is told where to go."""
    if connector.proxy is None or connector.origin.scheme == "https":
        return "", []
    authorization = connector.proxy.authorization
    return str(connector.origin), [f"proxy-authorization: {authorization}"] if authorization else []
