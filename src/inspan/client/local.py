"""The client of this machine: operations are carried out in threads, logs are followed where they lie."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from inspan.errors import RunNotFound, StateUnusable
from inspan.protocol.wire import Record
from inspan.runs.find import find_run_folder, refresh_summary
from inspan.runs.follow_async import follow_records
from inspan.stores.event_log import LogReader
from inspan.stores.paths import open_nonblocking
from inspan.stores.run_folder import RunFolder, active_runs, is_locked
from inspan.system.threads import MAX_WAITING, call_in_thread, call_stranger

from .checks import refuse_future
from .operations import find_operation
from .place import Place
from .runs import stop_run
from .values import OutputPiece, RunRecord, StartedRun, StopRequest

_POLL_S = 0.2
_PIECE_BYTES = 64 * 1024


class LocalBackend:
    """Does it here."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"state={self._place.state!r}"

    async def call(self, name: str, params: msgspec.Struct) -> Any:
        operation = find_operation(name)
        if not operation.creates:
            return await call_stranger(lambda: operation.act(self._place, params))
        # Whoever is cancelled meanwhile would not know what was started.
        return await call_in_thread(lambda: operation.act(self._place, params), limit=MAX_WAITING, undo=self._undo)

    async def follow(self, run: str, *, after: int, kinds: Sequence[str]) -> AsyncIterator[Record]:
        folder = await self._find(run)
        await asyncio.to_thread(_check_number, folder, after)
        async for record in follow_records(self._place.state, folder, from_number=after + 1):
            if not kinds or record.kind in kinds:
                yield record

    async def follow_all(self, runs: Sequence[str], *, kinds: Sequence[str]) -> AsyncIterator[RunRecord]:
        """What is new from now on in these runs, until they have ended; or in all of them, for ever."""
        chosen = [await self._find(run) for run in runs]
        readers = {each.run_id: await self._open(each) for each in chosen or active_runs(self._place.state)}
        while True:
            for folder in () if chosen else active_runs(self._place.state):
                if folder.run_id not in readers:
                    readers[folder.run_id] = LogReader(folder.log)
            for run_id, reader in readers.items():
                for record in await asyncio.to_thread(_read, reader):
                    if not kinds or record.kind in kinds:
                        yield RunRecord(run_id, record)
            living = [each for each in chosen if not readers[each.run_id].ended and os.path.exists(each.path)]
            if chosen and not living:
                return
            await asyncio.to_thread(self._declare_lost, living)
            await asyncio.sleep(_POLL_S)

    async def output(self, run: str, name: str, *, offset: int) -> AsyncIterator[OutputPiece]:
        """A file of an agent's output from an offset on, as it grows, until the run has ended."""
        folder = await self._find(run)
        size = await asyncio.to_thread(measure_file, folder.file(name))
        refuse_future("offset", offset, size, of=f"{name} of run {folder.run_id} has {size} bytes")
        while True:
            living = await asyncio.to_thread(is_locked, folder)
            data = await asyncio.to_thread(_read_piece, folder.file(name), offset)
            if data:
                yield OutputPiece(offset, data)
                offset += len(data)
            elif not living:
                return
            else:
                await asyncio.sleep(_POLL_S)

    async def _find(self, run: str) -> RunFolder:
        return await call_stranger(lambda: find_run_folder(self._place.state, run))

    async def _open(self, folder: RunFolder) -> LogReader:
        reader = LogReader(folder.log)
        await asyncio.to_thread(_read, reader)
        return reader

    def _undo(self, started: StartedRun) -> None:
        stop_run(self._place, StopRequest(run=started.run_id, now=True))

    def _declare_lost(self, folders: Sequence[RunFolder]) -> None:
        for folder in folders:
            if not is_locked(folder):
                with suppress(StateUnusable):  # It was deleted meanwhile, or cannot be read.
                    refresh_summary(self._place.state, folder)


def measure_file(path: str) -> int:
    """How many bytes a file of a run has now; one that is not there yet has none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _check_number(folder: RunFolder, after: int) -> None:
    reader = LogReader(folder.log)
    reader.skip(after)
    last = reader.last_number
    refuse_future("after", after, last, of=f"run {folder.run_id} has {last} events")


def _read(reader: LogReader) -> list[Record]:
    """What is new; of a run that was deleted or damaged meanwhile, what comes before that."""
    found: list[Record] = []
    with suppress(StateUnusable):
        for record in () if reader.ended else reader.read():
            found.append(record)
    return found


def _read_piece(path: str, offset: int) -> bytes:
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            file.seek(offset)
            return file.read(_PIECE_BYTES)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            raise RunNotFound(f"The run of {path} was deleted.", next_step="`inspan ps -a` lists the runs.") from None
        return b""
