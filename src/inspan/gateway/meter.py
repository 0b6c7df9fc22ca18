"""Reads what passes: usage, whether the answer was whole, the provider's error text. It keeps no answer."""

import re
import time
from collections.abc import Callable, Mapping

import msgspec

from inspan.gateway.resets import reset_in_error, reset_in_headers
from inspan.gateway.wires.arrays import ArrayReader
from inspan.gateway.wires.wire import Json, Wire, inner
from inspan.protocol.usage import Usage

# Most of a stream: pieces of text and of arguments, which state neither usage nor an end on any wire.
_DELTA = re.compile(rb'\{"type": ?"(?:content_block_delta|response\.[a-z_.]+\.delta)"')
_BODY_KEPT_BYTES = 16 * 1024 * 1024


class Meter:
    """Fed with one answer, piece by piece; may be asked at any time what it knows."""

    def __init__(self, wire: Wire, *, clock: Callable[[], float] = time.time) -> None:
        self._wire = wire
        self._clock = clock
        self._counts: dict[str, int] = {}
        self.extras: dict[str, int] = {}
        self.bytes_read = 0
        self._pending = bytearray()
        self._is_stream = False
        self._array: ArrayReader | None = None
        self._decode: Callable[[bytes], bytes] | None = None
        self._plain_bytes = 0
        self._headers: Mapping[str, str] = {}
        self._body_resets_at: float | None = None
        self.status: int | None = None
        self.message = ""
        self.is_whole = False
        self.events_read = 0

    @property
    def usage(self) -> Usage | None:
        return Usage(**self._counts) if self._counts else None

    @property
    def resets_at(self) -> float | None:
        """When a failed call may be tried again, in seconds since the epoch."""
        if self.status is None or self.status < 400:
            return None
        return reset_in_headers(self._headers, now=self._clock()) or self._body_resets_at

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._is_stream = "text/event-stream" in self._headers.get("content-type", "")
        if encoding := self._headers.get("content-encoding", ""):
            self._decode = _decoding(encoding)

    def feed(self, data: bytes) -> None:
        self.bytes_read += len(data)
        if self._decode:
            data = self._plain(self._decode, data)
        self._plain_bytes += len(data)
        self._pending += data
        if self._is_stream:
            *lines, rest = bytes(self._pending).split(b"\n")
            self._pending = bytearray(rest)
            for line in lines:
                self._read_line(line)
        elif self._array is not None or (self._plain_bytes == len(data) and data.lstrip()[:1] == b"["):
            self._array = self._array or ArrayReader()
            for element in self._array.feed(data):
                self._read(element)
            self._pending.clear()
        elif len(self._pending) > _BODY_KEPT_BYTES:
            self._pending.clear()

    def finish(self) -> None:
        """The answer ended as HTTP sees it."""
        if not self._is_stream and self._array is None:
            self._read(bytes(self._pending))
            self._pending.clear()

    def _plain(self, decode: Callable[[bytes], bytes], data: bytes) -> bytes:
        """What a provider has compressed unasked is passed on so and read all the same, as long as it can be."""
        try:
            return decode(data)
        except ValueError:
            self._decode = _not_read
            return b""

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        payload = line[5:].strip()
        if payload == b"[DONE]":
            self.is_whole = True
        elif _DELTA.match(payload):
            self.events_read += 1
        else:
            self._read(payload)

    def _read(self, payload: bytes) -> None:
        decoded = _decoded(payload)
        if decoded is None:
            failed = self.status is not None and self.status >= 400
            self.message = self.message or (payload.decode("utf-8", "replace") if failed else "")
            return
        self.events_read += 1
        reading = self._wire.read(decoded)
        self._counts.update(reading.counts)
        self.extras.update(reading.extras)
        self.is_whole = self.is_whole or reading.final
        self.message = self.message or reading.message
        self._body_resets_at = self._body_resets_at or reset_in_error(inner(decoded, "error"), now=self._clock())


def _decoded(payload: bytes) -> Json | None:
    try:
        return msgspec.json.decode(payload, type=Json)
    except msgspec.DecodeError:
        return None


def _decoding(encoding: str) -> Callable[[bytes], bytes]:
    from inspan.gateway.http.encodings import Decoder  # Start-up time: an answer is asked for as it is.

    try:
        return Decoder(encoding).feed
    except ValueError:
        return _not_read


def _not_read(data: bytes) -> bytes:
    return b""
