"""Opens connections to an upstream: name, TCP, a proxy's tunnel, TLS. What fails says so in words."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from inspan.errors import BadInput
from inspan.gateway.http.connection import BUFFER_BYTES, Connection, ConnectionCut
from inspan.gateway.http.routes import Origin, Proxy

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_TIMEOUT_S = 10.0
# A peer that vanished without a word is noticed after two minutes, however long the model thinks.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class Unreachable(Exception):
    """No connection came about, or none that gave an answer; the text names the origin and the reason."""


class Connector:
    """Opens connections to one origin, which whoever asked for them closes."""

    def __init__(
        self,
        origin: Origin,
        *,
        proxy: Proxy | None = None,
        ca_files: Iterable[str] = (),
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.origin = origin
        self.proxy = proxy
        self._ca_files = tuple(ca_files)
        self._timeout_s = timeout_s
        self._context: SSLContext | None = None
        self._buffer = bytearray(BUFFER_BYTES)

    async def connect(self) -> Connection:
        """Raises `Unreachable`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._open()
        except TimeoutError:
            raise self.unreachable_error(f"no connection came about within {self._timeout_s:g} s") from None
        except (OSError, BadInput, ConnectionCut, ImportError) as error:
            raise self.unreachable_error(_describe_error(error)) from error

    def unreachable_error(self, reason: str) -> Unreachable:
        through = f" through the proxy {self.proxy.origin}" if self.proxy else ""
        return Unreachable(f"{self.origin} cannot be reached{through}: {reason}.")

    async def _open(self) -> Connection:
        nearest = self.proxy.origin if self.proxy else self.origin
        connection = await _open_socket(nearest, buffer=self._buffer, timeout_s=self._timeout_s)
        try:
            if self.origin.scheme == "https":
                await self._secure(connection)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _secure(self, connection: Connection) -> None:
        from inspan.gateway.http.tls import client_context, secure  # A process that speaks no TLS does not load it.

        if self._context is None:
            self._context = client_context(self._ca_files)
        if self.proxy:
            await self._open_tunnel(connection, self.proxy)
        await secure(connection, self._context, host=self.origin.host)

    async def _open_tunnel(self, connection: Connection, proxy: Proxy) -> None:
        target = f"{self.origin.host_in_url}:{self.origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
        lines += [f"proxy-authorization: {proxy.authorization}"] if proxy.authorization else []
        connection.send_request("\r\n".join([*lines, "", ""]).encode("ascii"), b"", method="CONNECT")
        head = await connection.head()
        if head.status // 100 != 2:
            raise ConnectionCut(f"the proxy answered {head.status}")
        connection.reset()


async def _open_socket(origin: Origin, *, buffer: bytearray, timeout_s: float) -> Connection:
    """Tries the addresses of a host in turn, each with its share of the time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    addresses = await resolve_addresses(origin)
    for number, address in enumerate(addresses, start=1):
        share_s = (deadline - loop.time()) / (len(addresses) - number + 1)
        try:
            async with asyncio.timeout(share_s):
                _, connection = await loop.create_connection(lambda: Connection(buffer), address, origin.port)
        except OSError:  # That its share of the time is over is one, too.
            if number == len(addresses):
                raise
        else:
            _enable_keepalive(connection)
            return connection
    raise socket.gaierror(socket.EAI_NONAME, "no address")


def _enable_keepalive(connection: Connection) -> None:
    plug = connection.transport.get_extra_info("socket") if connection.transport else None
    if plug is None:
        return
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def resolve_addresses(origin: Origin) -> Sequence[str]:
    """Asks on a thread of its own: one that waits for a dead name server must not hold up the end of the process."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, origin.host)
        except OSError:
            continue
        return (origin.host,)
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str], error: OSError | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def look_up() -> None:
        addresses: list[str] = []
        problem: OSError | None = None
        try:
            rows = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except UnicodeError as error:
            problem = socket.gaierror(socket.EAI_NONAME, str(error))
        except OSError as error:
            problem = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, addresses, problem)

    threading.Thread(target=look_up, name="look up a host", daemon=True).start()
    return await found


def _describe_error(error: Exception) -> str:
    for kind, words in _ERROR_TEXTS.items():
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error).rstrip(".") or "the connection was closed"


_ERROR_TEXTS: dict[type[Exception], str] = {
    socket.gaierror: "the name of the host is not known",
    ConnectionRefusedError: "the connection was refused",
    ConnectionResetError: "the connection was reset",
    ConnectionAbortedError: "the connection was closed",
    ImportError: "TLS is not available in this process",
}
