"""An answer of the server on its way to the client: its head, how its body is framed, and where it ends."""

import re
from collections.abc import Mapping
from typing import Protocol

from inspan.framing.http import RequestHead, parse_content_length

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    413: "Content Too Large",
    426: "Upgrade Required",
}
_HEADERS = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*")

_OWN_HEADERS = ("connection", "transfer-encoding")


class ClientHungUp(ConnectionError):
    """The client closed the connection before the answer was complete."""


class ClientConnection(Protocol):
    """What an answer needs of its connection. Both ways of sending raise `ClientHungUp`, and wait for slow clients."""

    is_lost: bool

    async def send_soon(self, data: bytes) -> None:
        """Sends it with the next data, or, if none comes at once, alone."""
        ...

    async def send(self, data: bytes) -> None: ...

    def close(self) -> None:
        """After what was sent."""
        ...


class HttpReply:
    """Writes one answer; every write waits until the client keeps up.

    A head is sent together with what follows it, if that follows at once. One that could be understood in two ways,
    and a body of another length than it says, are a `ValueError`.
    """

    def __init__(self, connection: ClientConnection, head: RequestHead) -> None:
        self._connection = connection
        self._has_no_body = head.method == "HEAD"
        self._is_modern = head.is_http11
        self._keeps_alive = head.keeps_alive
        self._left: int | None = None
        self._is_chunked = False
        self._is_finished = False
        self.started = False

    @property
    def client_is_gone(self) -> bool:
        return self._connection.is_lost

    @property
    def leaves_connection_usable(self) -> bool:
        return self._is_finished and self._keeps_alive

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        headers = {name.lower(): value for name, value in headers.items()}
        self._left = parse_content_length(headers)
        self._has_no_body = self._has_no_body or status in (204, 304)
        self._is_chunked = self._left is None and self._is_modern and not self._has_no_body
        self._keeps_alive = self._keeps_alive and (self._is_chunked or self._left is not None or self._has_no_body)
        lines = [f"{name}: {value}\r\n" for name, value in headers.items() if name not in _OWN_HEADERS]
        lines += ["transfer-encoding: chunked\r\n"] if self._is_chunked else []
        lines += [] if self._keeps_alive else ["connection: close\r\n"]
        text = "".join(lines)
        if text.count("\n") != len(lines) or not _HEADERS.fullmatch(text):
            raise ValueError("The answer has a header that is none.")
        line = f"HTTP/1.1 {status} {REASONS.get(status, '')}\r\n"
        await self._connection.send_soon(f"{line}{text}\r\n".encode("latin-1"))

    async def write(self, data: bytes) -> None:
        if self._has_no_body or not data:
            return await self._connection.send(b"")
        if self._is_chunked:
            return await self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))
        self._count(len(data))
        return await self._connection.send(data)

    async def finish(self) -> None:
        if self._left and not self._has_no_body:
            raise ValueError(f"The answer ended {self._left} bytes too early.")
        self._is_finished = True
        await self._connection.send(b"0\r\n\r\n" if self._is_chunked else b"")

    def cut(self) -> None:
        self._connection.close()

    def note(self, problem: str) -> None:
        """Nobody reports what goes out here as it is."""

    def _count(self, length: int) -> None:
        if self._left is None:
            return
        if length > self._left:
            raise ValueError(f"The answer is {length - self._left} bytes longer than it says.")
        self._left -= length
