"""The limit on run time that several living runs use up together."""

import asyncio
from collections.abc import Callable

from inspan.errors import StateUnusable
from inspan.protocol.amounts import Denial
from inspan.stores.ledger import Ledger, TimeLeft

from .ledger_writer import LedgerWriter

_MAX_POLL_S = 2.0
_MIN_POLL_S = 0.02


async def watch_run_time(writer: LedgerWriter, run_id: str, *, on_end: Callable[[Denial], None]) -> None:
    """Returns when the time of the run, or of a node above it, is used up and `on_end` has heard of it; else never.

    Returns at once where no budget is in time. To be cancelled when the run ends.
    """
    while True:
        left = await _read_time_left(writer, run_id)
        if left is None:
            return
        if left.denial:
            on_end(left.denial)
            return
        await asyncio.sleep(next_poll_s(left))


def next_poll_s(left: TimeLeft) -> float:
    """How long nothing can have happened: each living run uses the time, and others may start meanwhile."""
    return min(max(left.seconds / max(1, left.living), _MIN_POLL_S), _MAX_POLL_S)


async def _read_time_left(writer: LedgerWriter, run_id: str) -> TimeLeft | None:
    while True:
        try:
            return await writer.execute(lambda ledger: _touch_run(ledger, run_id))
        except StateUnusable:
            # The next call to a model says so; time alone is no reason to end a run that could not be looked up.
            await asyncio.sleep(_MAX_POLL_S)


def _touch_run(ledger: Ledger, run_id: str) -> TimeLeft | None:
    left = ledger.time_left(run_id)
    if left is not None:
        # Up to the next look: so that what is used up does not shrink when the run is killed before it.
        ledger.touch(run_id, ahead_s=next_poll_s(left))
    return left
