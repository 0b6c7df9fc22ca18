"""A provider on loopback that streams as many events as a request wants, at its pace; every one says when it left.

Prints its port, serves until its stdin closes.
"""

import asyncio
import re
import sys

from bench.sides.listener import listener
from bench.stage.exchange import closing, opening, stamped, wish

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Answering(asyncio.Protocol):
    """One connection, one request after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._seen = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        end = self._seen.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        length = _LENGTH.search(self._seen, 0, end)
        if length is None:
            # What a proxy asks by itself while it starts.
            self._seen.clear()
            return self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        if len(self._seen) < end + int(length[1]):
            return None
        events, gap_s = wish(bytes(self._seen[end:]))
        self._seen.clear()
        self._transport.write(opening())
        self._at = self._loop.time()
        return self._wait(events, gap_s)

    def _wait(self, events: int, gap_s: float) -> None:
        self._at += gap_s
        self._timer = self._loop.call_at(self._at, self._go_on, events, gap_s)

    def _go_on(self, events: int, gap_s: float) -> None:
        if not events:
            return self._transport.write(closing())
        self._transport.write(stamped())
        return self._wait(events - 1, gap_s)


async def main() -> None:
    accepting = listener()
    await asyncio.get_running_loop().create_server(_Answering, sock=accepting)
    print(accepting.getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
