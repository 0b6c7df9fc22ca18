"""Following a run's log without blocking the loop."""

import asyncio
from collections.abc import AsyncIterator

from inspan.engine.runs import settle
from inspan.protocol.events import Event
from inspan.stores.folder import RunFolder, is_locked
from inspan.stores.log import LogReader
from inspan.stores.watch import FolderWatch

_LOOK_S = 0.5
_CLOSE_S = 5.0
_CLOSE_LOOK_S = 0.002


async def events_of(state: str, folder: RunFolder, *, from_number: int) -> AsyncIterator[Event]:
    """Events from a number on until the run's last; a run that has lost its owner is given its honest end."""
    reader = LogReader(folder.log)
    with FolderWatch(folder.path) as watch:
        while True:
            idle = True
            for record in reader.read():
                idle = False
                if record.number >= from_number:
                    yield record.event
            if reader.ended:
                await _owner_gone(folder)
                return
            if idle and not is_locked(folder):
                await asyncio.to_thread(settle, state, folder)
                continue
            await watch.wait_apart(_LOOK_S)


async def _owner_gone(folder: RunFolder) -> None:
    """The owner has written its last record and still has a few files to close: after this, it is done."""
    for _ in range(round(_CLOSE_S / _CLOSE_LOOK_S)):
        if not is_locked(folder):
            return
        await asyncio.sleep(_CLOSE_LOOK_S)
