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


class LedgerWriter:
    """Does the work that it is given one after the other. Whoever made it closes it.

    What it is told and cannot write at once it owes: it is tried again before any other work, and a last time in
    `close`. `on_problem` hears, on the loop, of the first failure and of what was still owed at the end. After `close`,
    nothing can be asked any more, and what is told is lost.
    """

    def __init__(self, open_ledger: Callable[[], Ledger], *, on_problem: Callable[[str], None]) -> None:
        self._open_ledger = open_ledger
        self._on_problem = on_problem
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._ledger: Ledger | None = None
        self._pending: deque[Callable[[Ledger], object]] = deque()
        self._has_problem = False
        self._closing: Future[None] | None = None

    async def execute(self, work: Callable[[Ledger], T]) -> T:
        """What the work gives; raises what it raises, `StateUnusable` where the ledger cannot be used."""
        if self._closing is not None:
            raise StateUnusable("The ledger of this run is closed.", next_step="Start another run.")
        return await asyncio.wrap_future(self._thread.submit(self._execute, work))

    def submit(self, work: Callable[[Ledger], object]) -> None:
        """The same without waiting; it is done before anything that is asked after it."""
        if self._closing is None:
            self._thread.submit(self._queue, work)

    async def close(self) -> None:
        """Writes what is owed and closes the ledger; bounded and idempotent."""
        if self._closing is None:
            self._closing = self._thread.submit(self._finish)
            self._thread.shutdown(wait=False)
        await asyncio.wait([asyncio.wrap_future(self._closing)], timeout=_CLOSE_S)

    def _execute(self, work: Callable[[Ledger], T]) -> T:
        self._flush()
        return work(self._get_ledger())

    def _queue(self, work: Callable[[Ledger], object]) -> None:
        self._pending.append(work)
        self._flush()

    def _flush(self) -> None:
        while self._pending:
            try:
                self._pending[0](self._get_ledger())
            except StateUnusable as error:
                return self._report_problem(str(error))
            except Exception as error:  # Work that breaks, in whatever way, must not keep the rest from being written.
                self._report_problem(f"An entry of the ledger is lost: {error!r}.")
            self._pending.popleft()
        self._has_problem = False
        return None

    def _report_problem(self, trouble: str) -> None:
        if not self._has_problem:
            self._has_problem = True
            self._loop.call_soon_threadsafe(self._on_problem, trouble)

    def _finish(self) -> None:
        self._flush()
        if self._pending:
            lost = (
                f"The ledger could not be written at the end of the run; entries that are lost: {len(self._pending)}."
            )
            self._loop.call_soon_threadsafe(self._on_problem, lost)
        if self._ledger:
            self._ledger.close()

    def _get_ledger(self) -> Ledger:
        self._ledger = self._ledger or self._open_ledger()
        return self._ledger
