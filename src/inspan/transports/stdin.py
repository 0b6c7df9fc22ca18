"""Writing to an agent that listens: never waits for it, and outlives it."""

import fcntl
import os
import sys
import termios
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable

from inspan.system import forking

LIMIT_BYTES = 64 * 1024 * 1024


class PipeWriter:
    """Our end of an agent's stdin. What it does not take at once is kept for it, in order, up to a limit.

    Over the limit `on_overflow` is called, once, and everything is dropped; so is whatever a dead agent cannot take.
    """

    def __init__(
        self,
        fd: int,
        *,
        loop: AbstractEventLoop,
        on_overflow: Callable[[int], None],
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._fd = fd
        self._loop = loop
        self._on_overflow = on_overflow
        self._limit_bytes = limit_bytes
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._finishing = False
        self._sent_bytes = 0
        self._unread_bytes = 0
        self.written_bytes = 0

    @property
    def closed(self) -> bool:
        """Whether the agent can be told nothing more."""
        return self._fd < 0

    @property
    def consumed_bytes(self) -> int:
        """How much of all that was said (`written_bytes`) the agent has read."""
        return self._sent_bytes - (self._unread_bytes if self.closed else _count_unread(self._fd))

    def write(self, data: bytes) -> None:
        """Writes now what fits, and the rest when the agent reads on."""
        self.written_bytes += len(data)
        if self.closed or self._finishing or not data:
            return
        self._waiting.append(memoryview(data))
        self._waiting_bytes += len(data)
        if len(self._waiting) == 1:
            self._push()
        if self._waiting_bytes > self._limit_bytes:
            behind = self._waiting_bytes
            self.close()
            self._on_overflow(behind)

    def finish(self) -> None:
        """Closes the pipe once all of it is written."""
        self._finishing = True
        if not self._waiting:
            self.close()

    def close(self) -> None:
        """Closes the pipe at once; idempotent."""
        if self.closed:
            return
        self._loop.remove_writer(self._fd)
        self._unread_bytes = _count_unread(self._fd)
        forking.close(self._fd)
        self._fd = -1
        self._waiting.clear()
        self._waiting_bytes = 0

    def _push(self) -> None:
        try:
            while self._waiting:
                self._drop_written(os.write(self._fd, self._waiting[0]))
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._push)
            return
        except OSError:
            self.close()  # It is gone: how it left is told elsewhere.
            return
        self._loop.remove_writer(self._fd)
        if self._finishing:
            self.close()

    def _drop_written(self, count: int) -> None:
        first = self._waiting.popleft()
        self._waiting_bytes -= count
        self._sent_bytes += count
        if count < len(first):
            self._waiting.appendleft(first[count:])


def _count_unread(fd: int) -> int:
    """What lies in a pipe; its reader may be gone."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
