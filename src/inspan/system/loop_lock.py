"""A lock between coroutines, whatever loop each of them runs in; `asyncio.Lock` wakes only those of its own."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future


class LoopLock:
    """Had by one coroutine at a time, in the order in which they came: `async with lock`. No loop is held up.

    Whoever is cancelled while it waits, or whose loop is closed, loses its place, and never the others theirs.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._had = False
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._guard:
            if not self._had:
                self._had = True
                return
            turn: Future[None] = Future()
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except BaseException:  # A cancellation; or the end of a loop that was closed without one.
            if not turn.cancel():
                self._pass_on()  # It had just been given.
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._had = False
