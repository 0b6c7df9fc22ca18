"""The limit on run time that several living runs use up together."""

import asyncio
from collections.abc import Callable

from inspan.errors import StateUnusable
from inspan.protocol.amounts import Denial
from inspan.stores.ledger import Ledger, TimeLeft

from .books import Books

_LONGEST_LOOK_S = 2.0
_SHORTEST_LOOK_S = 0.02


async def watch_run_time(books: Books, run_id: str, *, on_end: Callable[[Denial], None]) -> None:
    """Returns when the time of the run, or of a node above it, is used up and `on_end` has heard of it; else never.

    Returns at once where no budget is in time. To be cancelled when the run ends.
    """
    while True:
        left = await _look(books, run_id)
        if left is None:
            return
        if left.denial:
            on_end(left.denial)
            return
        await asyncio.sleep(next_look_s(left))


def next_look_s(left: TimeLeft) -> float:
    """How long nothing can have happened: each living run uses the time, and others may start meanwhile."""
    return min(max(left.seconds / max(1, left.living), _SHORTEST_LOOK_S), _LONGEST_LOOK_S)


async def _look(books: Books, run_id: str) -> TimeLeft | None:
    while True:
        try:
            return await books.ask(lambda ledger: _left(ledger, run_id))
        except StateUnusable:
            # The next call to a model says so; time alone is no reason to end a run that could not be looked up.
            await asyncio.sleep(_LONGEST_LOOK_S)


def _left(ledger: Ledger, run_id: str) -> TimeLeft | None:
    left = ledger.time_left(run_id)
    if left is not None:
        ledger.touch(run_id)
    return left
