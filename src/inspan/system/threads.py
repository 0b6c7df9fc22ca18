"""Calling what blocks on a thread of its own, so that the caller's loop goes on turning."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from .cancellation import wait_for_end

T = TypeVar("T")
# Threads that compute take the interpreter from the loop in turns: with a second one it waits twice as long, and 50
# runs are started no sooner.
MAX_COMPUTING = 1
MAX_WAITING = 8
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = WeakKeyDictionary()


async def call_in_thread(
    function: Callable[[], T],
    *,
    limit: int | None = MAX_COMPUTING,
    undo: Callable[[T], object] | None = None,
    on_cancel: Callable[[], object] | None = None,
) -> T:
    """What the function gives or raises. However often the caller is cancelled, a call that has begun is waited for;
    `on_cancel` hears of it, and may make the call shorter.

    `undo` then gets what the function gave, in a thread again. In one loop at most `limit` such calls run at
    once, and the others wait for them; those that mostly wait themselves do not take the interpreter from it.
    """
    loop = asyncio.get_running_loop()
    async with _get_slot(loop, limit) if limit else nullcontext():
        called = _call(loop, function)
        try:
            return await wait_for_end(called, on_cancel=on_cancel)
        except asyncio.CancelledError:
            if undo and called.done() and not called.cancelled() and called.exception() is None:
                result = called.result()
                await wait_for_end(_call(loop, lambda: undo(result)))
            raise


async def call_stranger(function: Callable[[], T]) -> T:
    """What a stranger's function gives or raises. It may never return: whoever is cancelled does not wait for it, no
    other call waits for its thread, and nor does the end of the program."""
    return await _call(asyncio.get_running_loop(), partial(copy_context().run, function))


def _get_slot(loop: asyncio.AbstractEventLoop, most: int) -> asyncio.Semaphore:
    return _slots.setdefault(loop, {}).setdefault(most, asyncio.Semaphore(most))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> "asyncio.Future[T]":
    """Not in the loop's own executor: callers that have filled it, and wait there for this, would wait for ever."""
    called: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        try:
            result = function()
        except StopIteration as error:  # No future takes one.
            set_in_loop(called.set_exception, RuntimeError(f"it raised {error!r}"))
        except BaseException as error:  # Whatever it is, the caller gets it.
            set_in_loop(called.set_exception, error)
        else:
            set_in_loop(called.set_result, result)

    def set_in_loop(act: Callable[..., None], value: object) -> None:
        with suppress(RuntimeError):  # The loop is closed: nobody waits for this any more.
            loop.call_soon_threadsafe(lambda: None if called.done() else act(value))

    threading.Thread(target=call, name="inspan-call", daemon=True).start()
    return called
