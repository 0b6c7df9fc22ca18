"""Writing to an agent that listens, or does not."""

import asyncio
import os
from collections.abc import Callable

from inspan.transports.stdin import PipeWriter

_MORE_THAN_A_PIPE = 1_000_000


class _PipeWriter:
    """A pipe with a writer on it; what it complained of is in `behind`."""

    def __init__(self, *, limit_bytes: int) -> None:
        self.out, into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.behind: list[int] = []
        self.writer = PipeWriter(
            into, loop=asyncio.get_running_loop(), on_overflow=self.behind.append, limit_bytes=limit_bytes
        )


def _try_write(
    act: Callable[[_PipeWriter], "asyncio.Future[bytes] | None"], *, limit_bytes: int = 1 << 26
) -> tuple[bytes, list[int]]:
    """Acts on a pipe, then reads it until its end; gives what came and the complaints."""

    async def run() -> tuple[bytes, list[int]]:
        ends = _PipeWriter(limit_bytes=limit_bytes)
        act(ends)
        came = await _all_of(ends.out)
        os.close(ends.out)
        return came, ends.behind

    return asyncio.run(run())


async def _all_of(fd: int) -> bytes:
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(fd, 65536)
        except BlockingIOError:
            await asyncio.sleep(0.001)
            continue
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def test_everything_arrives_in_order_before_the_end() -> None:
    pieces = [bytes([number]) * _MORE_THAN_A_PIPE for number in range(5)]

    def act(ends: _PipeWriter) -> None:
        for piece in pieces:
            ends.writer.write(piece)
        ends.writer.finish()

    assert _try_write(act) == (b"".join(pieces), [])


def test_an_end_without_a_word_is_an_end() -> None:
    assert _try_write(lambda ends: ends.writer.finish()) == (b"", [])


def test_nothing_is_said_after_the_last_word() -> None:
    def act(ends: _PipeWriter) -> None:
        ends.writer.write(b"last")
        ends.writer.finish()
        ends.writer.write(b"more")

    assert _try_write(act) == (b"last", [])


def test_an_agent_that_never_reads_is_told_of_once_and_costs_no_more_than_the_limit() -> None:
    def act(ends: _PipeWriter) -> None:
        for _ in range(10):
            ends.writer.write(b"x" * _MORE_THAN_A_PIPE)
        assert ends.writer.closed

    came, behind = _try_write(act, limit_bytes=2 * _MORE_THAN_A_PIPE)
    assert len(behind) == 1
    assert 2 * _MORE_THAN_A_PIPE < behind[0] <= 3 * _MORE_THAN_A_PIPE
    assert len(came) < _MORE_THAN_A_PIPE


def test_a_dead_agent_is_no_error() -> None:
    async def run() -> bool:
        ends = _PipeWriter(limit_bytes=1 << 26)
        ends.writer.write(b"x" * _MORE_THAN_A_PIPE)
        os.close(ends.out)
        for _ in range(5_000):
            if not ends.writer.closed:
                await asyncio.sleep(0.001)
        found_out = ends.writer.closed
        ends.writer.write(b"are you there?")
        ends.writer.finish()
        ends.writer.close()
        return found_out and ends.writer.closed and not ends.behind

    assert asyncio.run(run())


def test_what_was_heard_is_what_left_the_pipe_also_once_the_reader_is_gone() -> None:
    async def run() -> list[tuple[int, int]]:
        ends = _PipeWriter(limit_bytes=1 << 26)
        told: list[tuple[int, int]] = []

        def look() -> None:
            told.append((ends.writer.written_bytes, ends.writer.consumed_bytes))

        ends.writer.write(b"ten bytes.")
        look()
        os.read(ends.out, 4)
        look()
        os.close(ends.out)
        look()
        ends.writer.write(b"to nobody")
        look()
        assert ends.writer.closed
        return told

    assert asyncio.run(run()) == [(10, 0), (10, 4), (10, 4), (19, 4)]
