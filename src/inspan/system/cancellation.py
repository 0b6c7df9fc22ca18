"""Waiting for work that has to come to its end, whoever is cancelled meanwhile: only here it is known how hosts cancel.

`task.cancel()`, `asyncio.timeout` and a loop that shuts down cancel once. A cancel scope of anyio cancels again at each
turn of the loop until its task has left, so that whoever merely waits on would spin. A second Ctrl-C leaves the loop in
the middle of whatever it was doing: what was to wake somebody is lost, and a wait for that would never end.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from typing import Any, Self, TypeVar

T = TypeVar("T")
# How long work is still waited for once its loop was interrupted, and how long once it was cancelled for that.
_INTERRUPTED_S, _LAST_S = 5.0, 1.0


def create_hidden_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> "asyncio.Task[T]":
    """A task that only its maker finds: a loop that shuts down cancels each task that it knows, some programs do so
    until there is none left, and either waits without end for one whose next step was lost."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    asyncio._unregister_task(task)  # pyright: ignore[reportPrivateUsage]  what those who extend asyncio are to call
    return task


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Does a bounded piece of work to its end; a caller that is cancelled meanwhile gets its cancellation after that.

    Nobody else finds the task that does it.
    """
    return await wait_for_end(create_hidden_task(work))


async def wait_for_end(work: "asyncio.Future[T]", *, on_cancel: Callable[[], object] | None = None) -> T:
    """What the work comes to. A caller that is cancelled meanwhile gets its cancellation once the work has ended.

    `on_cancel` hears of it, once, and may make the work shorter. The work is a task or future of its own, so no
    cancellation of the caller reaches it, and it has to be bounded in time. Only where its loop was interrupted, it is
    left alone after some seconds.
    """
    loop_run = _identify_loop_run()
    cancelled = await _wait(work)
    if cancelled is None:
        return work.result()
    if on_cancel:
        on_cancel()
    with _shield():
        cancelled = await _wait_after_cancellation(work, loop_run) or cancelled
    if work.done() and not work.cancelled():
        work.exception()  # Looked at: the caller hears of its cancellation, and of nothing else.
    raise cancelled


async def _wait_after_cancellation(work: "asyncio.Future[Any]", loop_run: object) -> asyncio.CancelledError | None:
    """Waits for the end of the work, however often the caller is cancelled, and gives the last cancellation."""
    cancelled, interrupted_at = None, None
    while not work.done():
        # In slices: no cancellation tells a task that nobody else finds of an interruption.
        cancelled = await _wait(work, seconds=_LAST_S) or cancelled
        if _identify_loop_run() is loop_run:
            continue
        interrupted_at = interrupted_at or time.monotonic()
        if time.monotonic() - interrupted_at > _INTERRUPTED_S:
            work.cancel()
            return await _wait(work, seconds=_LAST_S) or cancelled
    return cancelled


async def _wait(work: "asyncio.Future[Any]", *, seconds: float | None = None) -> asyncio.CancelledError | None:
    """Waits, and gives the cancellation that cut it short."""
    if work.done():
        return None
    loop = asyncio.get_running_loop()
    waiter = _Waiter(loop=loop)
    timer = None if seconds is None else loop.call_later(seconds, waiter.wake)
    work.add_done_callback(waiter.wake)
    try:
        await waiter
    except asyncio.CancelledError as error:
        return error
    finally:
        waiter.left = True
        work.remove_done_callback(waiter.wake)
        if timer:
            timer.cancel()
    return None


class _Waiter(asyncio.Future[None]):
    """What one task waits for. Where an interrupt has lost the step by which that task was to go on, the next
    cancellation makes up for it; with a future of asyncio, a loop that shuts down would wait for that task for ever.

    Nothing that asyncio calls while the task begins to wait is overridden: an interrupt in there would lose more.
    """

    left = False
    _steps: "Sequence[tuple[Callable[[Self], object], Context]]" = ()

    def wake(self, _: object = None) -> None:
        if not self.done():
            self._keep_steps()
            self.set_result(None)

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            # Behind the step that the first cancellation has asked for, if that is still to come.
            self.get_loop().call_soon(self._repeat_steps)
        else:
            self._keep_steps()
        return super().cancel(msg)

    def _keep_steps(self) -> None:
        self._steps = tuple(self._callbacks or ())  # The only place where the step of the task is told.

    def _repeat_steps(self) -> None:
        steps, self._steps = self._steps, ()
        for step, context in steps if not self.left else ():
            context.run(step, self)


def _identify_loop_run() -> object:
    """What is another object once the loop was left and entered again: each entry sets these hooks anew."""
    return sys.get_asyncgen_hooks().firstiter


def _shield() -> AbstractContextManager[object]:
    """Keeps the scopes around the caller from cancelling it; whoever has such a scope has loaded anyio."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return scope(shield=True) if scope else nullcontext()
