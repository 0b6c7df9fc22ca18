"""One connection to an upstream: a request goes out, its answer comes in piece by piece, one after the other."""

import asyncio

from inspan.gateway.http.bodies import Body, body_of_answer
from inspan.gateway.http.heads import AnswerHead, NotHttp, split_answer

BUFFER_BYTES = 64 * 1024
_SLICE_BYTES = 256 * 1024
_PENDING_LIMIT_BYTES = 256 * 1024
_NO_BYTES = memoryview(b"")


class Cut(Exception):
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
        self._method = ""
        self._begun = b""
        self._head: AnswerHead | None = None
        self._body: Body | None = None
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
        if self.is_lost or self.transport is None or self.transport.is_closing():
            return False
        return not self._method if self._head is None else self._is_done(self._head)

    def ask(self, head: bytes, body: bytes, *, method: str) -> None:
        """Begins to send a request; the body follows as the upstream takes it."""
        self.renew()
        self._method = method
        small = len(body) <= _SLICE_BYTES
        self._unsent = _NO_BYTES if small else memoryview(body)
        self._write(head + body if small else head)
        self._pour()

    def renew(self) -> None:
        """Forgets the last answer, as if nothing had been asked."""
        self._method, self._head, self._body = "", None, None
        self._begun, self._problem, self.has_answered = b"", "", False

    async def head(self) -> AnswerHead:
        """The head of the answer, as soon as it is there; raises `Cut`."""
        while self._head is None:
            self._check()
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        """What has come of the body since the last time, empty at its end; raises `Cut`. Safe to cancel."""
        while not self._pieces:
            if self._body is not None and self._body.is_done:
                return b""
            self._check()
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
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._problem = self._problem or "the connection was closed" + (" by force" if exc else "")
        if not self.lost.done():
            self.lost.set_result(None)
        self._wake()

    def eof_received(self) -> None:
        if self._body is not None and self._body.ends_with_connection:
            self._body.is_done = True
            self._wake()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._pour()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        self.has_answered = True
        try:
            if self._body is None:
                self._take_head(data)
            else:
                self._take_body(self._body, data)
        except NotHttp as error:
            self._give_up(str(error))
        self._wake()

    def _is_done(self, head: AnswerHead) -> bool:
        is_whole = self._body is not None and self._body.is_done and not self._body.rest
        is_sent = not self._unsent and self.transport is not None and not self.transport.get_write_buffer_size()
        return is_whole and is_sent and head.keeps_alive

    def _take_head(self, data: bytes) -> None:
        if not self._method:
            raise NotHttp("came unasked")
        split = split_answer(self._begun + data)
        while split is not None and split[0].status < 200:
            if split[0].status == 101:
                raise NotHttp("wants to speak another protocol")
            self._begun, data = b"", split[1]
            split = split_answer(data) if data else None
        if split is None:
            self._begun += data
            return
        head, rest = split
        self._body = body_of_answer(head, method=self._method)
        self._head = head
        if rest:
            self._take_body(self._body, rest)

    def _take_body(self, body: Body, data: bytes) -> None:
        piece = body.take(data)
        if body.problem:
            self._give_up(body.problem)
        if not piece:
            return
        self._pieces.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes > _PENDING_LIMIT_BYTES and not self._reads_paused and self.transport is not None:
            self._reads_paused = True
            self.transport.pause_reading()

    def _give_up(self, problem: str) -> None:
        self._problem = f"its answer {problem}"
        self.abort()

    def _pour(self) -> None:
        while self._unsent and self._is_writable and not self.is_lost:
            piece, self._unsent = self._unsent[:_SLICE_BYTES], self._unsent[_SLICE_BYTES:]
            self._write(piece)

    def _write(self, data: bytes | memoryview) -> None:
        if self.transport is not None and not self.is_lost:
            self.transport.write(data)

    def _check(self) -> None:
        if self._problem or self.is_lost:
            raise Cut(self._problem or "the connection was closed")

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
