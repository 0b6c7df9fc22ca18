"""Calling strangers' functions with each event, apart from the run: a slow one is waited for, a failing one is noted.

A plain function is called in a thread of its own, so that blocking in it blocks nothing else; a coroutine function is
awaited in the caller's loop. Either way events come in order, one at a time, and none is left out.
"""

import asyncio
import inspect
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import cast

from inspan.protocol.events import Event

EventCallback = Callable[[Event], object]
"""A function, or one that gives something to wait for; what else it gives back does not matter."""
EventCallbacks = EventCallback | tuple[EventCallback, ...]
CALLBACK_TIMEOUT_S = 30.0
"""How long a function may stay in one call once its run has ended."""


class CallbackDispatcher:
    """`dispatch` never waits and never raises; `close` waits for each function as long as it makes progress.

    None of several functions waits for another. `on_problem` hears, in the loop, of the first exception of each, and
    the loop's exception handler gets it whole; the function is still called.
    """

    def __init__(
        self, functions: EventCallbacks, *, on_problem: Callable[[str], None], timeout_s: float | None = None
    ) -> None:
        self._timeout_s = CALLBACK_TIMEOUT_S if timeout_s is None else timeout_s
        each = (functions,) if callable(functions) else functions
        self._runners = [
            (_LoopRunner if inspect.iscoroutinefunction(one) else _ThreadRunner)(one, on_problem=on_problem)
            for one in each
        ]

    def dispatch(self, events: Sequence[Event]) -> None:
        for hearing in self._runners:
            hearing.put(events)

    async def close(self) -> bool:
        """Whether everything was heard; gives up on a function that stays in one call for too long, and says so."""
        for hearing in self._runners:
            hearing.end()
        return all([await hearing.finish(self._timeout_s) for hearing in self._runners])


class _CallbackRunner:
    """One function, and what it has heard so far. All of it but `_call` happens in the loop."""

    def __init__(self, function: EventCallback, *, on_problem: Callable[[str], None]) -> None:
        self._function = function
        self._on_problem = on_problem
        self._loop = asyncio.get_running_loop()
        # What the caller has set for its own logging should hold in its function too.
        self._context = copy_context()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._queued_count = 0
        self._handled_count = 0
        self._failed = False
        self._dropped = False

    def put(self, events: Sequence[Event]) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    async def finish(self, timeout_s: float) -> bool:
        while not self._done.done():
            heard = self._handled_count
            await asyncio.wait({self._done}, timeout=timeout_s)
            if self._handled_count == heard and not self._done.done():
                self._drop(timeout_s)
                return False
        return True

    def _drop(self, timeout_s: float) -> None:
        self._dropped = True
        missed = self._queued_count - self._handled_count - 1
        message = f"inspan: the event callback stays in one call for {timeout_s:g} s and more: it is left alone"
        self._loop.call_exception_handler({"message": f"{message}, and {missed} events were not delivered to it"})

    def _report_error(self, error: BaseException) -> None:
        if self._failed:
            return
        self._failed = True
        self._on_problem(f"the event callback raised {error!r}; it is still called")
        self._loop.call_exception_handler({"message": "inspan: the event callback raised", "exception": error})

    def _set_done(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class _ThreadRunner(_CallbackRunner):
    def __init__(self, function: EventCallback, *, on_problem: Callable[[str], None]) -> None:
        super().__init__(function, on_problem=on_problem)
        self._queue: queue.SimpleQueue[Sequence[Event] | None] = queue.SimpleQueue()
        # A daemon: a function that never returns must not keep its program from leaving.
        threading.Thread(target=self._context.run, args=(self._work,), name="inspan-callback", daemon=True).start()

    def put(self, events: Sequence[Event]) -> None:
        self._queued_count += len(events)
        self._queue.put(events)

    def end(self) -> None:
        self._queue.put(None)

    def _work(self) -> None:
        while (events := self._queue.get()) is not None:
            for event in events:
                if self._dropped:
                    return
                self._call(event)
        self._call_in_loop(self._set_done)

    def _call(self, event: Event) -> None:
        try:
            waiting = self._function(event)
            if waiting is not None and inspect.isawaitable(waiting):
                # A plain function that gives something to wait for, as a lambda around a coroutine function does.
                error = asyncio.run_coroutine_threadsafe(_await_result(waiting), self._loop).result()
                if error:
                    self._call_in_loop(self._report_error, error)
        except BaseException as error:  # A stranger's code may raise anything, SystemExit too.
            self._call_in_loop(self._report_error, error)
        self._handled_count += 1

    def _call_in_loop(self, act: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # The loop is closed: nobody waits for this any more.
            self._loop.call_soon_threadsafe(act, *arguments)


class _LoopRunner(_CallbackRunner):
    def __init__(self, function: EventCallback, *, on_problem: Callable[[str], None]) -> None:
        super().__init__(function, on_problem=on_problem)
        self._waiting: deque[Event] = deque()
        self._ended = False
        self._worker: asyncio.Task[None] | None = None

    def put(self, events: Sequence[Event]) -> None:
        self._queued_count += len(events)
        self._waiting.extend(events)
        self._schedule()

    def end(self) -> None:
        self._ended = True
        self._schedule()

    def _schedule(self, worked: "asyncio.Task[None] | None" = None) -> None:
        """Has a task while there is something to tell: one that stood idle would be cancelled by a loop that shuts
        down, and so may one that has only just begun be; then another takes its place."""
        if self._worker is not worked:
            return
        self._worker = None
        if self._waiting and not self._dropped:
            self._worker = self._loop.create_task(self._work(), context=self._context)
            self._worker.add_done_callback(self._schedule)
        elif self._ended:
            self._set_done()

    def _drop(self, timeout_s: float) -> None:
        super()._drop(timeout_s)
        if self._worker:
            self._worker.cancel()

    async def _work(self) -> None:
        function = cast(Callable[[Event], Awaitable[object]], self._function)
        while self._waiting and not self._dropped:
            try:
                await function(self._waiting.popleft())
            except (Exception, asyncio.CancelledError, SystemExit) as error:
                # A cancellation that is not ours is the function's own, or that of a loop that shuts down. An exit that
                # left its task would stop the loop under all that run in it.
                if not self._dropped:
                    self._report_error(error)
            self._handled_count += 1


async def _await_result(waiting: Awaitable[object]) -> SystemExit | None:
    """Gives back an exit: one that left its task would stop the loop under all that run in it."""
    try:
        await waiting
    except SystemExit as error:
        return error
    return None
