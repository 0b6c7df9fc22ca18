"""One followed run: its folder watched and its log read once, for all who follow it.

All who have heard everything so far get the same bytes. New records are handed on as soon as the last ones have been:
the more followers there are, the longer that takes, and the more records go out together.
"""

import asyncio
import logging
import os
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from inspan.errors import InspanError, LogBroken, LogTooNew, RunNotFound, StateUnusable
from inspan.runs.find import refresh_summary
from inspan.runs.follow import POLL_S
from inspan.stores.paths import open_nonblocking
from inspan.stores.run_folder import RunFolder, is_locked
from inspan.stores.watch import FolderWatch
from inspan.system.threads import call_stranger

from .frames import End, Frame, format_event, join_frames
from .log_blocks import FrameCache, LogBlocks
from .values import StreamedText

logger = logging.getLogger("inspan.server")

Wake = Callable[[], None]
Kinds = frozenset[str] | None
OUTPUTS = ("stdout", "stderr")
# What one follower is sent at once: it waits for room before it gets more.
CHUNK_BYTES = 16 * 1024
_LONGEST_REST_S = 0.1
_CLOSE_S = 5.0
_CLOSE_POLL_S = 0.01
_MOST_CHUNKS = 64


class Chunk(NamedTuple):
    """What a follower gets next, and the number up to which it has then heard everything."""

    data: bytes
    upto: int


class Text(NamedTuple):
    """What comes next of an output file, and the offset behind it."""

    data: bytes
    upto: int


class Tail:
    """`over` is set once nothing more will come; `tip` is the number that all followers may hear now."""

    def __init__(self, state: str, folder: RunFolder, cache: FrameCache) -> None:
        self.folder = folder
        self.tip = 0
        self.over: End | None = None
        self.wakes: set[Wake] = set()
        self.output_wakes: set[Wake] = set()
        self._state = state
        self._cache = cache
        self._blocks = LogBlocks(folder, cache)
        self._chunks: dict[tuple[int, Kinds, bool], Chunk] = {}
        self._texts: dict[tuple[str, int], Text] = {}
        self._sizes: list[int] = []
        self._looked_at = 0.0

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    @property
    def last(self) -> int:
        """The number of the last record that is known."""
        return self._blocks.last

    async def open(self) -> None:
        """Reads what is there already, however much; raises `StateUnusable`."""
        await call_stranger(self._blocks.scan)
        self.tip = self._blocks.last
        self._sizes = self._measure()
        if self._blocks.ended and not is_locked(self.folder):
            self.over = End(run_id=self.run_id, why="ended")

    async def run(self) -> None:
        """Follows the run until it is over; whatever breaks ends the streams of those who follow it, with a word."""
        try:
            await self._follow()
        except StateUnusable as error:
            self.fail(error)
        except Exception as error:  # A bug in here must not take the other streams with it.
            logger.error("following %s: %r", self.run_id, error, exc_info=error)
            self.fail(StateUnusable("inspan broke while it was following the run."))

    def take(self, after: int, *, kinds: Kinds = None, ids: bool = True) -> Chunk:
        """What comes behind a number: the same bytes for all who ask for the same. Raises `StateUnusable`."""
        if after >= self.tip:
            return Chunk(b"", after)
        key = (after, kinds, ids)
        if (known := self._chunks.get(key)) is not None:
            return known
        chosen, size, upto = list[Frame](), 0, after
        for frame in self._blocks.iter_frames(after, last=self.tip):
            upto = frame.number
            if kinds is None or frame.kind in kinds:
                chosen.append(frame)
                size += len(frame.body)
                if size >= CHUNK_BYTES:
                    break
        if len(self._chunks) >= _MOST_CHUNKS:
            self._chunks.clear()
        chunk = self._chunks[key] = Chunk(join_frames(chosen, ids=ids), upto)
        return chunk

    def read_output(self, name: str, offset: int) -> Text:
        """What comes next of `stdout` or `stderr`, in whole characters, as an event; no file is an empty one."""
        if (known := self._texts.get((name, offset))) is not None:
            return known
        data, piece = b"", self._read_bytes(name, offset)
        text, upto = _decode_whole(piece, offset, is_final=self.over is not None)
        if text:
            raw = piece[: upto - offset]
            spelled = "" if text.encode() == raw else b64encode(raw).decode()
            sent = StreamedText(offset=offset, text=text, base64=spelled)
            data = b"id: %d\n%b" % (upto, format_event("output", sent))
        if len(self._texts) >= _MOST_CHUNKS:
            self._texts.clear()
        found = self._texts[(name, offset)] = Text(data, upto)
        return found

    def measure_output(self, name: str) -> int:
        """How many bytes an output file has now."""
        try:
            return os.stat(self.folder.file(name)).st_size
        except OSError:
            return 0

    def close(self) -> None:
        """Gives back what was kept of the log."""
        self._cache.forget(self.folder.log)

    async def _follow(self) -> None:
        with FolderWatch(self.folder.path) as watch:
            while not self.over:
                if self._blocks.scan():
                    await self._publish()
                elif self._blocks.ended:
                    await self._wait_for_owner()
                    self._end(End(run_id=self.run_id, why="ended"))
                elif not os.path.exists(self.folder.file("run.json")):
                    gone = RunNotFound(f"Run {self.run_id} is gone: its folder was removed.")
                    self._end(self.build_end(gone, why="removed"))
                elif await self._look_for_owner():
                    if self._announce_output():
                        await asyncio.sleep(0)
                    await watch.wait_async(POLL_S)

    async def _publish(self) -> None:
        self.tip = self._blocks.last
        self._chunks.clear()
        self._announce_output()
        loop = asyncio.get_running_loop()
        began = loop.time()
        _wake_all(self.wakes)
        # All who were woken have had their turn when these are over.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(min(loop.time() - began, _LONGEST_REST_S))

    def _announce_output(self) -> bool:
        sizes = self._measure()
        if sizes == self._sizes:
            return False
        self._sizes = sizes
        self._texts.clear()
        _wake_all(self.output_wakes)
        return True

    async def _look_for_owner(self) -> bool:
        """Whether the run may still go on; one that has lost its owner is given its end, as by every follower."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < POLL_S:
            return True
        self._looked_at = now
        if is_locked(self.folder):
            return True
        try:
            await call_stranger(lambda: refresh_summary(self._state, self.folder))
        except (LogBroken, LogTooNew):
            raise
        except InspanError as error:
            logger.warning("run %s cannot be given its end: %s", self.run_id, error)
            return True
        return False

    async def _wait_for_owner(self) -> None:
        """The owner has a few files to close behind its last record; who reads on after the end shall find them."""
        for _ in range(round(_CLOSE_S / _CLOSE_POLL_S)):
            if not is_locked(self.folder):
                return
            await asyncio.sleep(_CLOSE_POLL_S)

    def fail(self, error: StateUnusable) -> None:
        """A follower has found that the log cannot be read on."""
        self._end(self.build_end(error))

    def build_end(self, error: StateUnusable, *, why: str = "unreadable") -> End:
        """The end of a stream that an error ends."""
        return End(run_id=self.run_id, why=why, detail=error.message, code=error.code)

    def _end(self, end: End) -> None:
        self.over = end
        self._texts.clear()
        _wake_all(self.wakes)
        _wake_all(self.output_wakes)

    def _measure(self) -> list[int]:
        return [self.measure_output(name) for name in OUTPUTS]

    def _read_bytes(self, name: str, offset: int) -> bytes:
        with suppress(OSError), open(self.folder.file(name), "rb", opener=open_nonblocking) as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES)
        return b""


def _wake_all(wakes: set[Wake]) -> None:
    for wake in tuple(wakes):
        wake()


def _decode_whole(data: bytes, offset: int, *, is_final: bool) -> tuple[str, int]:
    """The characters that are whole, and the offset behind them; what belongs to none is a mark."""
    cut = len(data)
    if not (is_final and len(data) < CHUNK_BYTES):
        cut -= _count_unfinished(data)
    return data[:cut].decode(errors="replace"), offset + cut


def _count_unfinished(data: bytes) -> int:
    """How many bytes at the end begin a character that is not whole."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needed > back else 0
        if byte < 0x80:
            return 0
    return 0
