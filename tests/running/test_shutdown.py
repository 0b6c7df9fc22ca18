"""How long an agent is given to leave: counted in slices, so that nobody loses it to a machine that stands still."""

import asyncio
import time

import pytest

from inspan.running.shutdown import wait_for_first


@pytest.mark.parametrize("which", [0, 1])
def test_the_first_of_them_ends_the_wait(which: int) -> None:
    async def scene() -> list[bool]:
        ends: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
        asyncio.get_running_loop().call_soon(ends[which].set_result, None)
        await wait_for_first(*ends, seconds=3600.0)
        return [end.done() for end in ends]

    assert asyncio.run(scene()) == [which == 0, which == 1]


def test_the_wait_is_over_when_nobody_comes() -> None:
    async def scene() -> bool:
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await wait_for_first(end, seconds=0.2)
        return end.done()

    assert not asyncio.run(scene())


def test_time_for_which_the_machine_stands_still_does_not_count() -> None:
    async def scene() -> bool:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()

        def stand_still() -> None:
            time.sleep(3.5)
            # What would have come meanwhile comes after it.
            loop.call_later(0.05, end.set_result, None)

        loop.call_soon(stand_still)
        await wait_for_first(end, seconds=3.0)
        return end.done()

    assert asyncio.run(scene())
