"""The event log of one run: append-only, one checked record per line. It is the truth about the run."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence

from inspan.errors import LogBroken, LogTooNew, RunBusy
from inspan.protocol.wire import SCHEMA, BrokenRecord, Record, decode_event, encode_records, schema_of, unpack_record
from inspan.system.platform import reserve_space

from .paths import open_nonblocking, state_error

SYNC_EVENTS = 256
SYNC_S = 0.2
# Room kept aside so that a full disk can still be told in the log.
_BLOCK_BYTES = 1 << 20
_BEGINS_END = re.compile(rb'\{\s*"kind"\s*:\s*"run_ended"').match
_RESERVE_BYTES = 16 * 1024


class RunLog:
    """The single writer of a log. Whoever makes one holds the run's lock; `close` is idempotent."""

    def __init__(self, path: str, *, number: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._pending: list[bytes] = []
        self._unsynced = 0
        self.number = number
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise state_error(path, error) from error
        self._good_bytes = os.fstat(self._fd).st_size
        try:
            self._reserve()
        except BaseException:
            self.close()
            raise

    def append(self, body: bytes) -> int:
        """Numbers an encoded event and queues it; it is on disk after `flush`."""
        self.extend([body])
        return self.number

    def extend(self, bodies: Sequence[bytes]) -> None:
        """Numbers and queues encoded events that came together."""
        self._pending += encode_records(self.number + 1, self._clock(), bodies)
        self.number += len(bodies)

    def flush(self) -> bool:
        """Hands what is queued to the system; says whether a sync is due. Raises `OSError` on a full disk."""
        if self._pending:
            self._write(b"".join(self._pending))
        return self._unsynced > 0

    @property
    def wants_sync(self) -> bool:
        """Whether enough was written to sync at once."""
        return self._unsynced >= SYNC_EVENTS

    def sync(self) -> None:
        """Puts everything written on the disk."""
        self.flush()
        if self._unsynced:
            os.fdatasync(self._fd)
            self._unsynced = 0

    def write_last_record(self, body: bytes) -> None:
        """Writes one last record on a disk that is full: drops what did not fit and uses the reserve."""
        self.number -= len(self._pending)
        self._pending.clear()
        os.ftruncate(self._fd, self._good_bytes)
        self._release()
        self.append(body)
        self.flush()

    def close(self) -> None:
        if self._fd >= 0:
            self.hand_over()
            self._release()

    def hand_over(self) -> None:
        """Closes the log for another writer to go on with; the room for its last record stays kept."""
        fd, self._fd = self._fd, -1
        os.close(fd)

    def _write(self, data: bytes) -> None:
        view, written = memoryview(data), len(self._pending)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # A follower may have seen the records that got there whole: only half a one is cut off.
            data = data[: data.rfind(b"\n", 0, len(data) - len(view)) + 1]
            written = data.count(b"\n")
            os.ftruncate(self._fd, self._good_bytes + len(data))
            raise
        finally:
            self._good_bytes += len(data)
            self._unsynced += written
            del self._pending[:written]

    def _reserve(self) -> None:
        try:
            fd = os.open(self._path + ".reserve", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise state_error(self._path, error) from error
        try:
            reserve_space(fd, _RESERVE_BYTES)
        except OSError as error:
            raise state_error(self._path, error) from error
        finally:
            os.close(fd)

    def _release(self) -> None:
        try:
            os.unlink(self._path + ".reserve")
        except FileNotFoundError:
            pass


def begin_log(path: str, body: bytes) -> None:
    """Puts the first record of a new log on the disk, for another writer to go on with; raises `StateUnusable`."""
    log = RunLog(path)
    try:
        log.append(body)
        log.sync()
    except OSError as error:
        log.close()
        raise state_error(path, error) from error
    log.hand_over()


def resume_log(path: str) -> RunLog:
    """The log that `begin_log` began, for the writer that goes on with it. The caller holds the run's lock."""
    return RunLog(path, number=1)


class LogReader:
    """Reads a log from its start and again as it grows; a torn last record is not seen until it is whole."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self._schema = SCHEMA
        self._last = 0
        self.ended = False

    def read(self) -> Iterator[Record]:
        """The records that are new since the last call."""
        for number, at, body in self.read_encoded():
            yield Record(number, at, decode_event(body, schema=self._schema))

    def read_encoded(self) -> Iterator[tuple[int, float, bytes]]:
        """The same with events as they are written, in this log's own schema: their number, time and spelling."""
        for line, is_last_line in self._lines():
            try:
                number, at, body = self._check(line)
            except BrokenRecord as error:
                if is_last_line:
                    return
                raise self._damage_error(error) from error
            self._offset += len(line) + 1
            self._last = number
            self.ended = _BEGINS_END(body) is not None
            yield number, at, body

    def skip(self, count: int) -> None:
        """Goes on behind so many records, or the last that is there; what is in them is not looked at."""
        try:
            with open(self._path, "rb", opener=open_nonblocking) as file:
                self._read_schema(file.readline())
                file.seek(0)
                while self._last < count and (line := file.readline()).endswith(b"\n"):
                    self._offset += len(line)
                    self._last += 1
        except FileNotFoundError:
            return
        except OSError as error:
            raise state_error(self._path, error) from error

    @property
    def schema(self) -> int:
        """The schema of what was read."""
        return self._schema

    def _lines(self) -> Iterator[tuple[bytes, bool]]:
        """Each whole line that is new, and whether nothing stands behind it; a log may be larger than the memory."""
        waiting, rest = None, b""
        try:
            with open(self._path, "rb", opener=open_nonblocking) as file:
                file.seek(self._offset)
                while block := file.read(_BLOCK_BYTES):
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        if waiting is not None:
                            yield waiting, False
                        waiting = line
        except FileNotFoundError:
            return
        except OSError as error:
            raise state_error(self._path, error) from error
        if waiting is not None:
            yield waiting, not rest

    @property
    def good_bytes(self) -> int:
        """Where the last whole record ends."""
        return self._offset

    @property
    def last_number(self) -> int:
        return self._last

    def _check(self, line: bytes) -> tuple[int, float, bytes]:
        if self._last == 0:
            self._read_schema(line)
        number, at, body = unpack_record(line)
        if number != self._last + 1:
            raise BrokenRecord(f"record {number} stands where {self._last + 1} is due")
        return number, at, body

    def _read_schema(self, line: bytes) -> None:
        self._schema = schema_of(line)
        if self._schema > SCHEMA:
            raise LogTooNew(
                f"{self._path} has schema {self._schema}; this inspan reads up to {SCHEMA}.",
                next_step="Upgrade inspan to read this run.",
            )

    def _damage_error(self, error: BrokenRecord) -> LogBroken:
        return LogBroken(
            f"{self._path} is damaged after record {self._last}: {error}.",
            next_step=f"The first {self._last} records are good; the file was changed by something other than inspan.",
        )


def iter_log(path: str) -> Iterator[Record]:
    """Every whole record of a log, one at a time."""
    return LogReader(path).read()


def read_log(path: str) -> list[Record]:
    """Every whole record of a log, in memory: for one that is known to be small."""
    return list(iter_log(path))


def reopen_log(path: str) -> RunLog:
    """Takes up a log whose writer is gone: cuts a torn last record. The caller holds the run's lock."""
    reader = LogReader(path)
    for _ in reader.read():
        pass
    if reader.ended:
        raise RunBusy(f"{path} has already ended.", next_step="Read it with `inspan show`.")
    try:
        if os.path.exists(path):
            os.truncate(path, reader.good_bytes)
    except OSError as error:
        raise state_error(path, error) from error
    return RunLog(path, number=reader.last_number)
