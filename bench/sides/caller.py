"""Many streams of answers at once, each on a connection that is kept. Its one argument is a `Wanted` as JSON.

Prints, for each route, how long the first byte of each answer took and how old each event was when it was read.
"""

import random
import selectors
import socket
import sys
import time
from typing import Any

import msgspec

from bench.sides.spent import tell
from bench.stage.exchange import Reading, request

_LONGEST_S = 100.0
_SEND_BUFFER_BYTES = 128 * 1024  # A whole request fits, so sending never waits.


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A way to the provider."""

    name: str
    port: int
    path: str = "/v1/messages"
    key: str = "bench-0123456789"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """`streams` at once, each asking `requests` times on every route, by turns; they begin within `spread_s`.

    The first request on each connection warms it up and is not counted.
    """

    routes: list[Route]
    streams: int
    requests: int
    events: int
    gap_ms: int
    spread_s: float = 0.0


class _Seen:
    def __init__(self) -> None:
        self.first_us: list[float] = []
        self.chunk_us: list[float] = []


class _Line:
    """One connection on one route."""

    def __init__(self, route: Route, wanted: Wanted, seen: _Seen) -> None:
        self._request = request(route.path, port=route.port, key=route.key, events=wanted.events, gap_ms=wanted.gap_ms)
        self._events = wanted.events
        self._seen = seen
        self._is_warm = False
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", route.port))

    def begin(self) -> None:
        self._reading = Reading()
        self._ages: list[float] = []
        self._first_us = 0.0
        self._began_ns = time.monotonic_ns()
        self.socket.sendall(self._request)

    def read(self) -> bool:
        """Takes what is there; whether the answer is whole."""
        data = self.socket.recv(65536)
        now_ns = time.monotonic_ns()
        if not self._first_us:
            self._first_us = (now_ns - self._began_ns) / 1000
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"answered {data[:500]!r}")
        if not data:
            raise RuntimeError("the connection was closed within an answer")
        self._ages += self._reading.ages_us(data, now_ns)
        if self._reading.is_done:
            self._count()
        return self._reading.is_done

    def _count(self) -> None:
        if len(self._ages) != self._events:
            raise RuntimeError(f"{len(self._ages)} of {self._events} events came")
        if self._is_warm:
            self._seen.first_us.append(self._first_us)
            self._seen.chunk_us += self._ages
        self._is_warm = True


def main(wanted: Wanted) -> None:
    seen = {route.name: _Seen() for route in wanted.routes}
    selector = selectors.DefaultSelector()
    streams = [[_Line(route, wanted, seen[route.name]) for route in wanted.routes] for _ in range(wanted.streams)]
    began = time.monotonic()
    due = [(began + wanted.spread_s * number / wanted.streams, lines) for number, lines in enumerate(streams)]
    while due or selector.get_map():
        now = time.monotonic()
        if now - began > _LONGEST_S:
            raise TimeoutError(f"{len(due)} streams not begun, {len(selector.get_map())} not ended")
        while due and due[0][0] <= now:
            _go_on(selector, _turns(due.pop(0)[1], wanted.requests))
        for key, _ in selector.select(max(0.0, due[0][0] - now) if due else 1.0):
            line, rest = key.data
            if line.read():
                selector.unregister(line.socket)
                _go_on(selector, rest)
    told: dict[str, Any] = {name: {"first_us": each.first_us, "chunk_us": each.chunk_us} for name, each in seen.items()}
    tell(**told)


def _turns(lines: list[_Line], requests: int) -> list[_Line]:
    """Each line once in every turn, in an order that changes: what comes before a request has a share in its time."""
    chance = random.Random(3)
    return [line for _ in range(requests + 1) for line in chance.sample(lines, k=len(lines))]


def _go_on(selector: selectors.BaseSelector, lines: list[_Line]) -> None:
    """The next request of a stream, if there is one."""
    if lines:
        selector.register(lines[0].socket, selectors.EVENT_READ, (lines[0], lines[1:]))
        lines[0].begin()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Wanted))
