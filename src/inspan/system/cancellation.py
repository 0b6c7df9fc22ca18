"""Waiting for work that has to come to its end, whoever is cancelled meanwhile: only here it is known how hosts cancel.

`task.cancel()`, `asyncio.timeout` and a loop that shuts down cancel once. A cancel scope of anyio cancels again at each
turn of the loop until its task has left, so that whoever merely waits on would spin.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Does a bounded piece of work to its end; a caller that is cancelled meanwhile gets its cancellation after that.

    Nobody else finds the task that does it: a loop that shuts down cancels each task that it knows, and some programs
    do so until there is none left.
    """
    task = asyncio.get_running_loop().create_task(work)
    asyncio._unregister_task(task)  # pyright: ignore[reportPrivateUsage]  what those who extend asyncio are to call
    return await wait_for_end(task)


async def wait_for_end(work: "asyncio.Future[T]", *, on_cancel: Callable[[], object] | None = None) -> T:
    """What the work comes to. A caller that is cancelled meanwhile gets its cancellation once the work has ended.

    `on_cancel` hears of it, once, and may make the work shorter. The work is a task or future of its own, so no
    cancellation of the caller reaches it, and it has to be bounded in time.
    """
    cancelled = await _wait(work)
    if cancelled is None:
        return work.result()
    if on_cancel:
        on_cancel()
    with _shield():
        while not work.done():
            cancelled = await _wait(work) or cancelled
    if not work.cancelled():
        work.exception()  # Looked at: the caller hears of its cancellation, and of nothing else.
    raise cancelled


async def _wait(work: "asyncio.Future[T]") -> asyncio.CancelledError | None:
    """Waits, and gives the cancellation that cut it short."""
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError as error:
        return error
    return None


def _shield() -> AbstractContextManager[object]:
    """Keeps the scopes around the caller from cancelling it; whoever has such a scope has loaded anyio."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return scope(shield=True) if scope else nullcontext()
