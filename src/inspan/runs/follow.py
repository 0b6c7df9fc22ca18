"""Following a run's log until its last record: the steps are the same for whoever blocks and for whoever awaits."""

import time
from collections.abc import Callable, Iterator
from typing import Literal

from inspan.protocol.wire import Record
from inspan.stores.event_log import LogReader
from inspan.stores.run_folder import RunFolder, is_locked
from inspan.stores.watch import FolderWatch

from .find import refresh_summary

POLL_S = 0.5
CLOSE_POLL_S = 0.002
_CLOSE_S = 5.0

Step = Record | Literal["idle", "change", "lost", "closing"]
"""What comes next: a record; nothing new so far; wait for a change in the folder; declare the run lost, for it has no
owner; or wait a moment for the owner, which has written its last record and still has a few files to close."""


def iter_steps(folder: RunFolder) -> Iterator[Step]:
    """What a follower of this run has to do, one step after the other, until the run is over."""
    reader = LogReader(folder.log)
    while not reader.ended:
        idle = True
        for record in reader.read():
            idle = False
            yield record
        if idle:
            yield "idle"
        if not reader.ended:
            yield "lost" if idle and not is_locked(folder) else "change"
    for _ in range(round(_CLOSE_S / CLOSE_POLL_S)):
        if not is_locked(folder):
            return
        yield "closing"


def follow(state: str, folder: RunFolder, *, wait_s: Callable[[], float] | None = None) -> Iterator[Record | None]:
    """Records as they come, until the run's last; `None` when nothing was new for a while.

    `wait_s` says how long that while may be, each time anew.
    """
    with FolderWatch(folder.path) as watch:
        for step in iter_steps(folder):
            if isinstance(step, Record):
                yield step
            elif step == "idle":
                yield None
            elif step == "lost":
                refresh_summary(state, folder)
            elif step == "change":
                watch.wait(min(POLL_S, wait_s()) if wait_s else POLL_S)
            else:
                time.sleep(CLOSE_POLL_S)
