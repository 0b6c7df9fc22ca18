"""The log of one run as blocks of whole lines, each found by the number of its first record and read when it is wanted.

A follower reads from where it stands; what several of them read at about the same time is formatted once.
"""

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from inspan.errors import LogBroken, LogTooNew
from inspan.protocol.wire import SCHEMA, BrokenRecord, Record, decode_record, is_last, schema_of
from inspan.stores.paths import open_nonblocking, state_error
from inspan.stores.run_folder import RunFolder

from .frames import Frame, build_frame

_BLOCK_BYTES = 32 * 1024
_READ_BYTES = 1 << 20


class FrameCache:
    """The blocks that were formatted last, of all logs together: so many bytes of them and no more."""

    def __init__(self, *, most_bytes: int = 8 << 20) -> None:
        self._most_bytes = most_bytes
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()
        self._bytes = 0

    def get(self, path: str, index: int) -> "_Block":
        """The block, as far as it was formatted; an empty one where it was not, or is forgotten."""
        block = self._blocks.setdefault((path, index), _Block())
        self._blocks.move_to_end((path, index))
        return block

    def count(self, more: int) -> None:
        """Takes note that a block has grown, and forgets those that nobody has asked for the longest time."""
        self._bytes += more
        while self._bytes > self._most_bytes and len(self._blocks) > 1:
            self._bytes -= self._blocks.popitem(last=False)[1].size

    def forget(self, path: str) -> None:
        """Drops what belongs to a log that nobody follows any more."""
        for key in [key for key in self._blocks if key[0] == path]:
            self._bytes -= self._blocks.pop(key).size


class _Block:
    __slots__ = ("frames", "offset", "size")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.offset = -1
        self.size = 0


class LogBlocks:
    """`last` is the number of the last whole record, `ended` whether it is a run's last. Not for several threads."""

    def __init__(self, folder: RunFolder, cache: FrameCache) -> None:
        self._folder = folder
        self._cache = cache
        self._numbers, self._offsets = [1], [0]
        self._end = 0
        self._schema = SCHEMA
        self._damage: LogBroken | None = None
        self.last = 0
        self.ended = False

    def scan(self) -> bool:
        """Takes up the whole lines that are new; says whether there were any. Raises `StateUnusable`; no file is no
        error."""
        before = self.last
        if self._damage:
            raise self._damage
        try:
            with open(self._folder.log, "rb", opener=open_nonblocking) as file:
                if os.fstat(file.fileno()).st_size > self._end:
                    self._scan(file.fileno())
        except LogBroken:
            if self.last == before:
                raise
        except FileNotFoundError:
            return False
        except OSError as error:
            raise state_error(self._folder.log, error) from error
        return self.last > before

    def iter_frames(self, after: int, *, last: int) -> Iterator[Frame]:
        """The records behind one number, up to another, in order. Raises `StateUnusable`."""
        while after < last:
            index = bisect_right(self._numbers, after + 1) - 1
            frames = self._read_block(index, upto=last)
            start = after + 1 - self._numbers[index]
            found = frames[start : last + 1 - self._numbers[index]]
            if not found:
                raise self._damage_error(f"record {after + 1} is missing", after)
            yield from found
            after = found[-1].number

    def _scan(self, fd: int) -> None:
        size = _READ_BYTES
        while True:
            data = os.pread(fd, size, self._end)
            whole = data.rfind(b"\n") + 1
            if not whole and len(data) == size:
                size *= 2  # A line that is longer than what was read.
                continue
            is_rest = len(data) < size
            if (whole and not self._take(data, whole, is_rest=is_rest)) or is_rest:
                return

    def _take(self, data: bytes, whole: int, *, is_rest: bool) -> bool:
        """Enters the lines that are whole, and says whether more can be; a broken one at the very end may still be
        written to, and is left."""
        start = data.rfind(b"\n", 0, whole - 1) + 1
        if self._end == 0:
            self._check_schema(data[: data.find(b"\n")])
        due = self.last + data.count(b"\n", 0, whole)
        try:
            record = self._decode(data[start : whole - 1], due)
        except LogBroken as error:
            if not (is_rest and whole == len(data)) or self._is_sound(data[start : whole - 1]):
                self._enter_good(data, whole)
                raise self._damage or error from error
            self._enter_blocks(data, start)
            return False
        self._enter_blocks(data, whole)
        self.ended = is_last(record.event)
        return True

    def _enter_good(self, data: bytes, whole: int) -> None:
        """The lines before the damage are heard; it is raised when there is nothing else."""
        good = 0
        for number, line in enumerate(data[: whole - 1].split(b"\n"), self.last + 1):
            try:
                self._decode(line, number)
            except LogBroken as error:
                self._damage = error
                break
            good += len(line) + 1
        self._enter_blocks(data, good)

    def _is_sound(self, line: bytes) -> bool:
        try:
            decode_record(line, schema=self._schema)
        except BrokenRecord:
            return False
        return True

    def _enter_blocks(self, data: bytes, whole: int) -> None:
        done = 0
        while True:
            least = self._offsets[-1] + _BLOCK_BYTES - self._end
            cut = data.find(b"\n", max(least - 1, done), whole) + 1 if least <= whole else 0
            if not cut:
                break
            self.last += data.count(b"\n", done, cut)
            done = cut
            self._numbers.append(self.last + 1)
            self._offsets.append(self._end + cut)
        self.last += data.count(b"\n", done, whole)
        self._end += whole

    def _read_block(self, index: int, *, upto: int) -> list[Frame]:
        """What is known of a block, formatted at least up to a number that is in it, or to its end."""
        block = self._cache.get(self._folder.log, index)
        wanted = min(upto, self._numbers[index + 1] - 1 if index + 1 < len(self._numbers) else upto)
        have = self._numbers[index] + len(block.frames) - 1
        if have < wanted:
            if block.offset < 0:
                block.offset = self._offsets[index]
            end = self._offsets[index + 1] if index + 1 < len(self._offsets) else self._end
            self._format(block, end=end, number=have + 1)
        return block.frames

    def _format(self, block: _Block, *, end: int, number: int) -> None:
        size = 0
        for line in self._read_lines(block.offset, end):
            frame = build_frame(self._folder.run_id, self._decode(line, number))
            block.frames.append(frame)
            number += 1
            size += len(frame.body)
        block.offset = end
        block.size += size
        self._cache.count(size)

    def _read_lines(self, start: int, end: int) -> Iterator[bytes]:
        try:
            with open(self._folder.log, "rb", opener=open_nonblocking) as file:
                file.seek(start)
                data = file.read(end - start)
        except OSError as error:
            raise state_error(self._folder.log, error) from error
        lines = data.split(b"\n")
        return islice(lines, len(lines) - 1)

    def _decode(self, line: bytes, number: int) -> Record:
        try:
            record = decode_record(line, schema=self._schema)
        except BrokenRecord as error:
            raise self._damage_error(str(error), number - 1) from error
        if record.number != number:
            raise self._damage_error(f"record {record.number} stands where {number} is due", number - 1)
        return record

    def _check_schema(self, line: bytes) -> None:
        try:
            self._schema = schema_of(line)
        except BrokenRecord:
            return  # It may still be written to; if it stays so, it is found when it is read.
        if self._schema > SCHEMA:
            raise LogTooNew(
                f"{self._folder.log} has schema {self._schema}; this inspan reads up to {SCHEMA}.",
                next_step="Upgrade inspan to read this run.",
            )

    def _damage_error(self, problem: str, good: int) -> LogBroken:
        return LogBroken(
            f"{self._folder.log} is damaged after record {good}: {problem}.",
            next_step="The records before it are good; the file was changed by something other than inspan.",
        )
