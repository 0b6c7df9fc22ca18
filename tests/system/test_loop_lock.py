"""A lock between coroutines of any loop: one at a time, in order, and never lost."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from inspan.system.loop_lock import LoopLock
from tests.cli_env import WAIT_S


def test_coroutines_of_many_loops_have_it_one_at_a_time() -> None:
    lock, inside, seen = LoopLock(), list[int](), list[int]()

    async def work() -> None:
        for _ in range(20):
            async with lock:
                inside.append(1)
                await asyncio.sleep(0)
                seen.append(len(inside))
                inside.pop()

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(3)))

    _in_threads(several, several, several, several)
    assert seen == [1] * 240


def test_those_of_one_loop_have_it_in_the_order_in_which_they_came() -> None:
    lock, order = LoopLock(), list[int]()

    async def work(number: int) -> None:
        async with lock:
            await asyncio.sleep(0)
            order.append(number)

    async def scene() -> None:
        await asyncio.gather(*(work(number) for number in range(5)))

    asyncio.run(scene())
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("given", [False, True], ids=["while it waits", "when it has just been given"])
def test_one_that_is_cancelled_is_passed_over(given: bool) -> None:
    lock = LoopLock()

    async def wait() -> None:
        async with lock:
            raise AssertionError("it was cancelled")

    async def scene() -> None:
        async with lock:
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            if not given:
                waiting.cancel()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        async with lock:
            pass

    asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def test_one_whose_loop_is_closed_without_a_word_is_passed_over() -> None:
    lock = LoopLock()

    async def wait() -> None:
        async with lock:
            raise AssertionError("its loop is closed")

    async def scene() -> None:
        async with lock:
            waiting = wait()
            waiting.send(None)  # As far as a loop that stops here would have brought it.
            waiting.close()
        async with lock:
            pass

    asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def _in_threads(*scenes: Callable[[], Coroutine[Any, Any, None]]) -> None:
    threads = [threading.Thread(target=asyncio.run, args=(scene(),), daemon=True) for scene in scenes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
