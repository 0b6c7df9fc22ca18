"""Following a run's log without blocking the loop."""

import asyncio
from collections.abc import AsyncIterator

from inspan.protocol.events import Event
from inspan.protocol.wire import Record
from inspan.stores.run_folder import RunFolder
from inspan.stores.watch import FolderWatch

from .find import refresh_summary
from .follow import CLOSE_POLL_S, POLL_S, iter_steps


async def follow_events(state: str, folder: RunFolder, *, from_number: int) -> AsyncIterator[Event]:
    """Events from a number on until the run's last; a run that has lost its owner is given its honest end."""
    async for record in follow_records(state, folder, from_number=from_number):
        yield record.event


async def follow_records(
    state: str, folder: RunFolder, *, from_number: int = 1, poll_s: float = POLL_S
) -> AsyncIterator[Record]:
    """The same with their numbers and times. Whether the run still has its owner is looked at every `poll_s`."""
    with FolderWatch(folder.path) as watch:
        for step in iter_steps(folder):
            if isinstance(step, Record):
                if step.number >= from_number:
                    yield step
            elif step == "lost":
                await asyncio.to_thread(refresh_summary, state, folder)
            elif step == "change":
                await watch.wait_async(poll_s)
            elif step == "closing":
                await asyncio.sleep(CLOSE_POLL_S)
