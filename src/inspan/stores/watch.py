"""Waiting for a file to grow: inotify where the system has it, a short poll elsewhere."""

import os
import select
from types import TracebackType

from inspan.system.platform import open_folder_watch

_POLL_S = 0.05


class FolderWatch:
    """Wakes when something in a folder is written. A context manager; `wait` never blocks longer than told."""

    def __init__(self, path: str) -> None:
        self._fd = open_folder_watch(path)
        self._poll = select.poll()
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)

    def wait(self, timeout_s: float) -> None:
        """Returns on a change, or after `timeout_s`, or a little earlier."""
        if self._fd < 0:
            self._poll.poll(min(timeout_s, _POLL_S) * 1000)
        elif self._poll.poll(timeout_s * 1000):
            os.read(self._fd, 64 * 1024)

    async def wait_async(self, timeout_s: float) -> None:
        """The same without blocking the running loop."""
        import asyncio  # Start-up time: the command line waits by itself.

        if self._fd < 0:
            await asyncio.sleep(min(timeout_s, _POLL_S))
            return
        loop = asyncio.get_running_loop()
        changed = loop.create_future()
        loop.add_reader(self._fd, lambda: changed.done() or changed.set_result(None))
        try:
            await asyncio.wait({changed}, timeout=timeout_s)
        finally:
            loop.remove_reader(self._fd)
        if changed.done():
            os.read(self._fd, 64 * 1024)

    def __enter__(self) -> "FolderWatch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
