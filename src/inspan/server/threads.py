"""What blocks, in threads of its own: so many at once, and the loop goes on turning."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from inspan.system.threads import call_stranger

T = TypeVar("T")


class Threads:
    """The calls of one kind; those that are one too many wait."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)

    async def call(self, function: Callable[[], T]) -> T:
        """What the function gives or raises. The end of the server does not wait for it."""
        async with self._room:
            return await call_stranger(function)
