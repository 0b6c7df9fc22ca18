"""The ledger for a run's loop: written by one thread of its own, so that a busy file holds nobody up."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from inspan.errors import StateUnusable
from inspan.stores.ledger import Ledger

T = TypeVar("T")
_CLOSE_S = 15.0


class Books:
    """Does the work that it is given one after the other. Whoever made it closes it.

    What it is told and cannot write at once it owes: it is tried again before any other work, and a last time in
    `close`. `on_trouble` hears, on the loop, of the first failure and of what was still owed at the end. After `close`,
    nothing can be asked any more, and what is told is lost.
    """

    def __init__(self, open_ledger: Callable[[], Ledger], *, on_trouble: Callable[[str], None]) -> None:
        self._open_ledger = open_ledger
        self._on_trouble = on_trouble
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._ledger: Ledger | None = None
        self._owed: deque[Callable[[Ledger], object]] = deque()
        self._in_trouble = False
        self._closing: Future[None] | None = None

    async def ask(self, work: Callable[[Ledger], T]) -> T:
        """What the work gives; raises what it raises, `StateUnusable` where the ledger cannot be used."""
        if self._closing is not None:
            raise StateUnusable("The ledger of this run is closed.", next_step="Start another run.")
        return await asyncio.wrap_future(self._thread.submit(self._do, work))

    def tell(self, work: Callable[[Ledger], object]) -> None:
        """The same without waiting; it is done before anything that is asked after it."""
        if self._closing is None:
            self._thread.submit(self._owe, work)

    async def close(self) -> None:
        """Writes what is owed and closes the ledger; bounded and idempotent."""
        if self._closing is None:
            self._closing = self._thread.submit(self._finish)
            self._thread.shutdown(wait=False)
        await asyncio.wait([asyncio.wrap_future(self._closing)], timeout=_CLOSE_S)

    def _do(self, work: Callable[[Ledger], T]) -> T:
        self._pay()
        return work(self._opened())

    def _owe(self, work: Callable[[Ledger], object]) -> None:
        self._owed.append(work)
        self._pay()

    def _pay(self) -> None:
        while self._owed:
            try:
                self._owed[0](self._opened())
            except StateUnusable as error:
                return self._complain(str(error))
            except Exception as error:  # Work that breaks, in whatever way, must not keep the rest from being written.
                self._complain(f"An entry of the ledger is lost: {error!r}.")
            self._owed.popleft()
        self._in_trouble = False
        return None

    def _complain(self, trouble: str) -> None:
        if not self._in_trouble:
            self._in_trouble = True
            self._loop.call_soon_threadsafe(self._on_trouble, trouble)

    def _finish(self) -> None:
        self._pay()
        if self._owed:
            lost = f"The ledger could not be written at the end of the run; entries that are lost: {len(self._owed)}."
            self._loop.call_soon_threadsafe(self._on_trouble, lost)
        if self._ledger:
            self._ledger.close()

    def _opened(self) -> Ledger:
        self._ledger = self._ledger or self._open_ledger()
        return self._ledger
