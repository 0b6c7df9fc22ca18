"""A small HTTP/1.1 client for one origin: connections are kept, answers come piece by piece, nothing is re-encoded."""

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType

from inspan.gateway.http.connecting import CONNECT_TIMEOUT_S, Connector, Unreachable
from inspan.gateway.http.connection import Connection, Cut
from inspan.gateway.http.heads import AnswerHead
from inspan.gateway.http.routes import Origin, proxy_for

MOST_CONNECTIONS = 256
_IDLE_LIMIT_S = 55.0
_CLOSE_TIMEOUT_S = 1.0
# A kept connection that was closed meanwhile is told so within the time that a request takes to get there.
STALE_S = 2.0

__all__ = ["Client", "Cut", "Exchange", "Unreachable"]


class Client:
    """Owns its connections, at most `most_connections` of them; whoever asks for more waits. To be closed."""

    def __init__(
        self,
        origin: Origin,
        *,
        proxies: Mapping[str, str] | None = None,
        ca_files: Iterable[str] = (),
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        most_connections: int = MOST_CONNECTIONS,
        stale_s: float = STALE_S,
    ) -> None:
        proxy = proxy_for(origin, proxies or {})
        self._connector = Connector(origin, proxy=proxy, ca_files=ca_files, timeout_s=connect_timeout_s)
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._room = asyncio.Semaphore(most_connections)
        self._prefix, self._extra = _absolute_form(self._connector)
        self._is_closed = False
        self.stale_s = stale_s

    async def send(self, method: str, target: str, *, headers: Mapping[str, str], body: bytes = b"") -> "Exchange":
        """Sends a request, with `host` and `content-length` added; raises `Unreachable`. Close what it gives."""
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"host: {self._connector.origin.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}"] if body or method not in ("GET", "HEAD") else []
        lines += self._extra
        text = "\r\n".join([*lines, "", ""])
        if text.count("\n") != len(lines) + 1:
            raise ValueError("A header of the request has a line break in it.")
        head = text.encode("latin-1")
        exchange = Exchange(self, method, head, body)
        await self._room.acquire()
        try:
            await exchange.begin()
        except BaseException:
            self._room.release()
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

    async def take(self, *, fresh: bool) -> tuple[Connection, bool]:
        """A connection that is free, and whether it was used before: the one that was used last, or a new one."""
        oldest_good = asyncio.get_running_loop().time() - _IDLE_LIMIT_S
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.is_free and connection.idle_since > oldest_good:
                return connection, True
            connection.abort()
        if self._is_closed:
            raise self.unreachable("the gateway is closing")
        connection = await self._connector.connect()
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection, False

    def give_back(self, connection: Connection) -> None:
        """Ends the use of a connection: it is kept for the next one if it can be, else dropped."""
        self._room.release()
        self._keep(connection)

    def _keep(self, connection: Connection) -> None:
        if self._is_closed or not connection.is_free:
            return connection.abort()
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
        while self._idle[0].idle_since < connection.idle_since - _IDLE_LIMIT_S:
            self._idle.pop(0).abort()
        return None

    def unreachable(self, reason: str) -> Unreachable:
        return self._connector.unreachable(reason)


class Exchange:
    """One request on its way, and its answer. Closing it before the end drops the connection."""

    def __init__(self, client: Client, method: str, head: bytes, body: bytes) -> None:
        self._client = client
        self._method = method
        self._head = head
        self._body = body
        self._connection: Connection | None = None
        self._is_reused = False
        self._is_closed = False
        self._asked_at = 0.0

    async def begin(self, *, fresh: bool = False) -> None:
        self._connection, self._is_reused = await self._client.take(fresh=fresh)
        self._asked_at = asyncio.get_running_loop().time()
        self._connection.ask(self._head, self._body, method=self._method)

    async def head(self) -> AnswerHead:
        """The head of the answer; raises `Unreachable` when none comes. Safe to cancel.

        A kept connection may have been closed while the request was on its way to it: it is sent once more, then. One
        that is closed later may have been asked already, and asking again would be paid for twice.
        """
        assert self._connection is not None
        try:
            return await self._connection.head()
        except Cut as error:
            if self._connection.has_answered:
                raise self._client.unreachable(str(error)) from error
            if not self._is_reused or asyncio.get_running_loop().time() - self._asked_at > self._client.stale_s:
                raise self._client.unreachable(f"{error} before an answer came") from error
            self._connection.abort()
        await self.begin(fresh=True)
        return await self.head()

    async def read(self) -> bytes:
        """The next piece of the body, empty at its end; raises `Cut`. Safe to cancel."""
        assert self._connection is not None
        return await self._connection.read()

    def close(self) -> None:
        """Idempotent."""
        if self._connection is not None and not self._is_closed:
            self._is_closed = True
            self._client.give_back(self._connection)

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
