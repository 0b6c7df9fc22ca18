"""One connection to an upstream: a request goes out, its answer comes in piece by piece, one after the other."""

import asyncio
import select
from typing import cast

from inspan.framing.http import AnswerHead, AnswerReader

BUFFER_BYTES = 64 * 1024
_SLICE_BYTES = 256 * 1024
_PENDING_LIMIT_BYTES = 256 * 1024
_NO_BYTES = memoryview(b"")


class ConnectionCut(Exception):
    """The connection ended before the answer did; the text says how."""


class Connection(asyncio.BufferedProtocol):
    """Whoever asks on it reads the answer to its end, or aborts it. One reader, and one question at a time.

    The buffer may be shared by the connections of one loop: what arrives is taken out at once. Without it, every
    reading would make room for 256 KiB first, which takes longer than the rest.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(buffer)
        self._waiter: asyncio.Future[None] | None = None
        self._unsent = _NO_BYTES
        self._is_writable = True
        self._reads_paused = False
        self._reader: AnswerReader | None = None
        self._pieces: list[bytes] = []
        self._pending_bytes = 0
        self._problem = ""
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self.has_answered = False
        self.idle_since = 0.0
        self.lost = self._loop.create_future()

    @property
    def is_free(self) -> bool:
        """Whether a question may be asked: there was none, or the last answer is whole and both sides left it clean."""
        if self.is_lost or self.transport is None or self.transport.is_closing() or self._pieces:
            return False
        return self._reader is None or self._is_reusable(self._reader)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has arrived that the loop has not seen yet: its end, or something that nobody asked for."""
        plug = None if self.transport is None else self.transport.get_extra_info("socket")
        if plug is None:
            return True
        poll = select.poll()
        poll.register(plug.fileno(), select.POLLIN)
        return not poll.poll(0)

    def send_request(self, head: bytes, body: bytes, *, method: str) -> None:
        """Begins to send a request; the body follows as the upstream takes it."""
        self.reset()
        self._reader = AnswerReader(method)
        small = len(body) <= _SLICE_BYTES
        self._unsent = _NO_BYTES if small else memoryview(body)
        self._write(head + body if small else head)
        self._send_pending()

    def reset(self) -> None:
        """Forgets the last answer, as if nothing had been asked."""
        self._reader, self._problem, self.has_answered = None, "", False
        self._pieces.clear()
        self._pending_bytes = 0

    async def head(self) -> AnswerHead:
        """The head of the answer, as soon as it is there; raises `ConnectionCut`."""
        while self._reader is None or self._reader.head is None:
            self._raise_if_lost()
            await self._wait()
        return self._reader.head

    async def read(self) -> bytes:
        """What has come of the body since the last time, empty at its end; raises `ConnectionCut`. Safe to cancel."""
        while not self._pieces:
            if self._reader is not None and self._reader.is_done:
                return b""
            self._raise_if_lost()
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._pending_bytes = 0
        if self._reads_paused:
            self._reads_paused = False
            if self.transport is not None and not self.is_lost:
                self.transport.resume_reading()
        return data

    def abort(self) -> None:
        """Drops the connection at once, whatever it was doing."""
        self._problem = self._problem or "it was given up"
        self._unsent = _NO_BYTES
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # Some loops' transports only behave like one.

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._problem = self._problem or "the connection was closed" + (" by force" if exc else "")
        if not self.lost.done():
            self.lost.set_result(None)
        self._wake()

    def eof_received(self) -> None:
        if self._reader is not None:
            self._reader.feed_eof()
            self._wake()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._send_pending()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        self.has_answered = True
        if self._reader is None:
            self._fail("came unasked")
        else:
            self._receive(self._reader, data)
        self._wake()

    def _is_reusable(self, reader: AnswerReader) -> bool:
        is_whole = reader.is_done and not reader.has_surplus and not reader.ends_with_connection
        is_sent = not self._unsent and self.transport is not None and not self.transport.get_write_buffer_size()
        return is_whole and is_sent and reader.head is not None and reader.head.keeps_alive

    def _receive(self, reader: AnswerReader, data: bytes) -> None:
        piece = reader.feed(data)
        if reader.problem:
            self._fail(reader.problem)
        if not piece:
            return
        self._pieces.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes > _PENDING_LIMIT_BYTES and not self._reads_paused and self.transport is not None:
            self._reads_paused = True
            self.transport.pause_reading()

    def _fail(self, problem: str) -> None:
        self._problem = f"its answer {problem}"
        self.abort()

    def _send_pending(self) -> None:
        while self._unsent and self._is_writable and not self.is_lost:
            piece, self._unsent = self._unsent[:_SLICE_BYTES], self._unsent[_SLICE_BYTES:]
            self._write(piece)

    def _write(self, data: bytes | memoryview) -> None:
        if self.transport is not None and not self.is_lost:
            self.transport.write(data)

    def _raise_if_lost(self) -> None:
        if self._problem or self.is_lost:
            raise ConnectionCut(self._problem or "the connection was closed")

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
