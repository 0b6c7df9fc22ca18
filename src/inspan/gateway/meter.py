"""Reads what passes: usage, whether the answer was whole, the provider's error text. It keeps no answer."""

import time
from collections.abc import Callable, Mapping

import msgspec

from inspan.gateway.resets import reset_in_error, reset_in_headers
from inspan.gateway.wire import Json, Wire, inner
from inspan.protocol.usage import Usage

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

    def feed(self, data: bytes) -> None:
        self.bytes_read += len(data)
        self._pending += data
        if self._is_stream:
            *lines, rest = bytes(self._pending).split(b"\n")
            self._pending = bytearray(rest)
            for line in lines:
                self._read_line(line)
        elif len(self._pending) > _BODY_KEPT_BYTES:
            self._pending.clear()

    def finish(self) -> None:
        """The answer ended as HTTP sees it."""
        if not self._is_stream:
            self._read(bytes(self._pending))
            self._pending.clear()

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        payload = line[5:].strip()
        if payload == b"[DONE]":
            self.is_whole = True
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
