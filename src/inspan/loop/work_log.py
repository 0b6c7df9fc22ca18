"""The log of work that has runs of its own: what is written there is on the disk before anything follows from it."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from inspan.protocol.events import Event, RunEnded
from inspan.protocol.wire import Record
from inspan.redaction import Gate
from inspan.stores.event_log import RunLog
from inspan.stores.paths import state_error

_BEAT_S = 5.0
_LEAST_BEAT_S = 0.2
_BEATS_OF_LIMIT = 20


class WorkLog:
    """Writes events through the gate; `add` takes each record, as it was meant, into what is known."""

    def __init__(self, path: str, log: RunLog, *, gate: Gate, add: Callable[[Record], None]) -> None:
        self._path = path
        self._log = log
        self._gate = gate
        self._add = add

    def record(self, event: Event, *, synced: bool = True) -> None:
        """Puts an event on the disk; without `synced`, only out of this process. Raises `StateUnusable`."""
        number = self._log.append(self._gate.encode_event(event))
        try:
            if synced:
                self._log.sync()
            else:
                self._log.flush()
        except OSError as error:
            raise state_error(self._path, error) from error
        self._add(Record(number, time.time(), event))

    @asynccontextmanager
    async def keep_alive(self, *, limit_s: float | None) -> AsyncGenerator[None]:
        """Within it, the file's time says how long this process was there: it writes nothing while a run or a check is
        at work, and whoever goes on after its death has what is left of the limit."""
        beating = asyncio.create_task(
            self._beat(_BEAT_S if limit_s is None else min(_BEAT_S, limit_s / _BEATS_OF_LIMIT))
        )
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait({beating})

    async def _beat(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(max(every_s, _LEAST_BEAT_S))
            with suppress(OSError):  # Of a log that somebody has removed.
                os.utime(self._path)

    def record_on_full_disk(self, event: RunEnded) -> None:
        """Writes the last event into the room that was kept for it; raises `OSError` if not even that can be."""
        self._log.write_last_record(self._gate.encode_event(event))
