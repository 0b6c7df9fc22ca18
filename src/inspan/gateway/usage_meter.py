"""Reads what passes: usage, whether the answer was whole, the provider's error text. It keeps no answer that it can
read."""

import re
import time
from collections.abc import Callable, Mapping

import msgspec

from inspan.framing.retry_after import find_reset_in_headers
from inspan.gateway.resets import (
    find_reset_in_error,
    is_account_limit_in_error,
    is_account_limit_in_headers,
)
from inspan.gateway.wires.arrays import ArrayReader
from inspan.gateway.wires.wire import Json, Wire, get_object
from inspan.protocol.http_status import is_error_status
from inspan.protocol.usage import Usage
from inspan.protocol.wire import DECODE_ERRORS

# Most of a stream: pieces of text and of arguments, which state neither usage nor an end on any wire.
_DELTA = re.compile(rb'\{"type": ?"(?:content_block_delta|response\.[a-z_.]+\.delta)"')
_MAX_BODY_BYTES = 16 * 1024 * 1024
_ALL_KEPT_BYTES = 64 * 1024 * 1024
_KEPT_HEAD_BYTES = 16 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Room:
    """How much of their answers meters may keep at the same time, all together."""

    def __init__(self, size: int = _ALL_KEPT_BYTES) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        """Whether there was room for so much more; a negative size gives it back."""
        if size > self.left:
            return False
        self.left -= size
        return True


class UsageMeter:
    """Fed with one answer, piece by piece; may be asked at any time what it knows. To be closed.

    Only what is not read yet is kept, as long as `room` has room for it. What is not kept cannot be read: of a stream
    that is one event, else the whole answer; `is_unread` is then set. If nothing of an answer can be read, `message` is
    how it begins.
    """

    def __init__(self, wire: Wire, *, room: Room | None = None, clock: Callable[[], float] = time.time) -> None:
        self._wire = wire
        self._room = room or Room()
        self._clock = clock
        self._counts: dict[str, int] = {}
        self.extras: dict[str, int] = {}
        self.bytes_read = 0
        self._head = bytearray()
        self._pending = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._kept_bytes = 0
        self._is_stream = False
        self._is_first_line = True
        self._ends_in_return = False
        self._skips_line = False
        self._array: ArrayReader | None = None
        self._decode: Callable[[bytes], bytes] | None = None
        self._plain_bytes = 0
        self._headers: Mapping[str, str] = {}
        self._body_resets_at: float | None = None
        self._body_limits_account = False
        self._is_output_so_far = False
        self.status: int | None = None
        self.message = ""
        self.has_ended = False
        self.has_failed = False
        self.is_unread = False
        self.events_read = 0

    @property
    def is_whole(self) -> bool:
        """Whether the answer came to its own end and what it stated is of all of it."""
        return self.has_ended and not self.has_failed and not self._is_output_so_far

    @property
    def usage(self) -> Usage | None:
        return Usage(**self._counts) if self._counts else None

    @property
    def resets_at(self) -> float | None:
        """When a failed call may be tried again, in seconds since the epoch."""
        if not is_error_status(self.status):
            return None
        return find_reset_in_headers(self._headers, now=self._clock()) or self._body_resets_at

    @property
    def limits_account(self) -> bool:
        """Whether a failed call met a limit of the whole account."""
        if not is_error_status(self.status):
            return False
        return self._body_limits_account or is_account_limit_in_headers(self._headers)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._is_stream = "text/event-stream" in self._headers.get("content-type", "")
        if encoding := self._headers.get("content-encoding", ""):
            self._decode = _make_decoder(encoding)

    def feed(self, data: bytes) -> None:
        self.bytes_read += len(data)
        if self._decode:
            data = self._decode_chunk(self._decode, data)
        self._plain_bytes += len(data)
        if not self.events_read and len(self._head) < _KEPT_HEAD_BYTES:
            self._head += data[: _KEPT_HEAD_BYTES - len(self._head)]
        if self._is_stream:
            self._feed_lines(data)
        elif self._array is not None or (self._plain_bytes == len(data) and data.lstrip()[:1] == b"["):
            self._array = self._array or ArrayReader()
            for element in self._array.feed(data):
                self._read_payload(element)
        elif not self.is_unread:
            self._pending += data
        self._keep()

    def finish(self) -> None:
        """The answer ended as HTTP sees it."""
        if self._is_stream:
            self._read_line(bytes(self._pending))
            self._read_line(b"")
        elif self._array is None and not self.is_unread:
            self._read_whole(bytes(self._pending))
        if not (self.events_read or self.has_ended or self.is_unread):
            self.message = self.message or self._head.decode("utf-8", "replace")
        self.close()

    def close(self) -> None:
        """Keeps nothing any more; idempotent."""
        self._forget()
        self._keep()

    def _keep(self) -> None:
        """Takes room for what is not read yet, or forgets it."""
        kept_bytes = len(self._pending) + self._data_bytes + (self._array.kept_bytes if self._array else 0)
        if kept_bytes == self._kept_bytes:
            return
        if kept_bytes > _MAX_BODY_BYTES or not self._room.take(kept_bytes - self._kept_bytes):
            self.is_unread = not self._is_stream and self._array is None
            self._skips_line = self._is_stream and bool(self._pending)
            self._forget()
            self._room.take(-self._kept_bytes)
            kept_bytes = 0
        self._kept_bytes = kept_bytes

    def _forget(self) -> None:
        self._head.clear()
        self._pending.clear()
        self._data.clear()
        self._data_bytes = 0
        if self._array is not None:
            self._array.forget()

    def _decode_chunk(self, decode: Callable[[bytes], bytes], data: bytes) -> bytes:
        """What a provider has compressed unasked is passed on so and read all the same, as long as it can be."""
        try:
            return decode(data)
        except ValueError:
            self._decode = _discard
            return b""

    def _feed_lines(self, data: bytes) -> None:
        """Reads the lines that have come to an end by now; a line may end in LF, CR or both."""
        if b"\r" in data or self._ends_in_return:
            data = self._with_line_feeds(data)
        self._pending += data
        if b"\n" not in data:
            return
        *lines, rest = bytes(self._pending).split(b"\n")
        self._pending = bytearray(rest)
        if self._skips_line:
            self._skips_line = False
            lines = lines[1:]
        for line in lines:
            self._read_line(line)

    def _with_line_feeds(self, data: bytes) -> bytes:
        if self._ends_in_return and data.startswith(b"\n"):
            data = data[1:]
        self._ends_in_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read_line(self, line: bytes) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.startswith(b"data:"):
            self._read_data(line[5:].strip())
        elif not line and self._data:
            self._read_payload(b"\n".join(self._data))
            self._data.clear()
            self._data_bytes = 0

    def _read_data(self, payload: bytes) -> None:
        """Read as soon as it makes sense: most events have one line of data, and an empty one may never follow."""
        if not self._data and payload == b"[DONE]":
            self.has_ended = True
        elif not self._data and _DELTA.match(payload):
            self.events_read += 1
        elif self._data or not self._read_payload(payload):
            self._data.append(payload)
            self._data_bytes += len(payload)

    def _read_whole(self, payload: bytes) -> None:
        has_failed = is_error_status(self.status)
        if not self._read_payload(payload) and has_failed:
            self.message = self.message or payload.decode("utf-8", "replace")

    def _read_payload(self, payload: bytes) -> bool:
        """Whether it is an object, as all events and bodies are."""
        decoded = _decode_json(payload)
        if decoded is None:
            return False
        self.events_read += 1
        reading = self._wire.read_event(decoded)
        self._counts.update(reading.counts)
        self._is_output_so_far = reading.so_far if "output" in reading.counts else self._is_output_so_far
        self.extras.update(reading.extras)
        self.has_ended = self.has_ended or reading.final
        self.has_failed = self.has_failed or reading.failed
        self.message = self.message or reading.message
        error = get_object(decoded, "error")
        self._body_resets_at = self._body_resets_at or find_reset_in_error(error, now=self._clock())
        self._body_limits_account = self._body_limits_account or is_account_limit_in_error(error)
        return True


def _decode_json(payload: bytes) -> Json | None:
    try:
        return msgspec.json.decode(payload, type=Json)
    except DECODE_ERRORS:
        return None


def _make_decoder(encoding: str) -> Callable[[bytes], bytes]:
    from inspan.gateway.http.encodings import Decoder  # Start-up time: an answer is asked for as it is.

    try:
        return Decoder(encoding).feed
    except ValueError:
        return _discard


def _discard(data: bytes) -> bytes:
    return b""
