"""Many followers in one process, by bare sockets: some read, some do not."""

import re
import resource
import selectors
import socket
import time
from collections.abc import Container, Iterable
from types import TracebackType

from tests.cli_env import WAIT_S

from .server_process import PREFIX, ServerProcess

_NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class Crowd:
    """Opens all connections at once; a context manager. Those that are `narrow` have little room of their own, so that
    what they do not read has to wait in the server."""

    def __init__(self, server: ServerProcess, path: str, count: int, *, narrow: Container[int] = ()) -> None:
        _raise_file_limit()
        self.sockets = [_connect(server, is_narrow=number in narrow) for number in range(count)]
        self.received = [b""] * count
        request = f"GET {PREFIX}{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        for each in self.sockets:
            each.sendall(request.encode())

    def read_until(self, mark: bytes, readers: Iterable[int]) -> None:
        """Reads on these until each has seen the mark; the others are left alone."""
        deadline = time.monotonic() + WAIT_S
        with selectors.DefaultSelector() as selector:
            for number in readers:
                if mark not in self.received[number]:
                    selector.register(self.sockets[number], selectors.EVENT_READ, number)
            while selector.get_map():
                assert time.monotonic() < deadline, f"{len(selector.get_map())} have not seen {mark!r}"
                for key, _ in selector.select(1.0):
                    number: int = key.data
                    data = self.sockets[number].recv(1 << 18)
                    assert data, f"{number} was closed"
                    before = self.received[number]
                    self.received[number] = before + data
                    if mark in before[-len(mark) :] + data:
                        selector.unregister(self.sockets[number])

    def numbers(self, reader: int) -> list[int]:
        """The ids that one has seen, in order; what stands across the pieces of the transfer is not counted."""
        return [int(number) for number in _NUMBER.findall(self.received[reader])]

    def close(self) -> None:
        for each in self.sockets:
            each.close()

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connect(server: ServerProcess, *, is_narrow: bool) -> socket.socket:
    made = socket.socket()
    if is_narrow:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    made.settimeout(WAIT_S)
    made.connect(("127.0.0.1", server.port))
    return made


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < min(4096, hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
