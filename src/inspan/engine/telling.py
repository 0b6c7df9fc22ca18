"""Calling a stranger's function with each event, apart from the run: a slow one is waited for, a failing one is noted.

A plain function is called in a thread of its own, so that blocking in it blocks nothing else; a coroutine function is
awaited in the caller's loop. Either way events come in order, one at a time, and none is left out.
"""

import asyncio
import inspect
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from inspan.protocol.events import Event

Teller = Callable[[Event], Awaitable[None] | None]
_PATIENCE_S = 10.0
_LOOK_S = 0.05


class Telling:
    """`tell` never waits and never raises; `close` waits for the function as long as it makes progress.

    `on_problem` hears, in the loop, of the first exception; the function goes on being called.
    """

    def __init__(self, function: Teller, *, on_problem: Callable[[str], None]) -> None:
        self._function = function
        self._on_problem = on_problem
        self._loop = asyncio.get_running_loop()
        self._told = 0
        self._heard = 0
        self._failed = False
        self._way: _Coroutine | _Thread = (
            _Coroutine(self._call_and_wait) if inspect.iscoroutinefunction(function) else _Thread(self._call)
        )

    def tell(self, events: Sequence[Event]) -> None:
        self._told += len(events)
        self._way.put(events)

    async def close(self) -> bool:
        """Whether everything was heard; gives up on a function that stays in one call for too long."""
        self._way.end()
        patience_s, heard = _PATIENCE_S, self._heard
        while self._heard < self._told and patience_s > 0:
            await asyncio.sleep(_LOOK_S)
            patience_s = _PATIENCE_S if self._heard != heard else patience_s - _LOOK_S
            heard = self._heard
        self._way.drop()
        return self._heard >= self._told

    def _call(self, event: Event) -> None:
        try:
            self._function(event)
        except Exception as error:  # A stranger's code may raise anything.
            if not self._failed:
                self._loop.call_soon_threadsafe(self._note, error)
        self._heard += 1

    async def _call_and_wait(self, event: Event) -> None:
        try:
            waiting = self._function(event)
            if waiting is not None:
                await waiting
        except Exception as error:  # As above; a cancellation is not caught: it is ours.
            self._note(error)
        self._heard += 1

    def _note(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self._on_problem(f"the event callback raised {error!r}; it goes on being called")


class _Thread:
    def __init__(self, call: Callable[[Event], None]) -> None:
        self._queue: queue.SimpleQueue[Sequence[Event] | None] = queue.SimpleQueue()
        self._call = call
        # A daemon: a function that never returns must not keep its program from leaving.
        threading.Thread(target=self._work, name="inspan-callback", daemon=True).start()

    def put(self, events: Sequence[Event]) -> None:
        self._queue.put(events)

    def end(self) -> None:
        self._queue.put(None)

    def drop(self) -> None:
        pass

    def _work(self) -> None:
        while (events := self._queue.get()) is not None:
            for event in events:
                self._call(event)


class _Coroutine:
    def __init__(self, call: Callable[[Event], Awaitable[None]]) -> None:
        self._waiting: deque[Event] = deque()
        self._more = asyncio.Event()
        self._ended = False
        self._call = call
        self._task = asyncio.get_running_loop().create_task(self._work())

    def put(self, events: Sequence[Event]) -> None:
        self._waiting.extend(events)
        self._more.set()

    def end(self) -> None:
        self._ended = True
        self._more.set()

    def drop(self) -> None:
        self._task.cancel()

    async def _work(self) -> None:
        while self._waiting or not self._ended:
            if self._waiting:
                await self._call(self._waiting.popleft())
                continue
            self._more.clear()
            if not self._ended:
                await self._more.wait()
