"""Newline-delimited frames on bytes: LF alone ends a line, whatever else a line holds."""

from typing import NamedTuple

LIMIT_BYTES = 64 * 1024 * 1024
_HEAD_BYTES = 4096


class OverlongLine(NamedTuple):
    """A line that passed the limit: its first bytes, and how long it was."""

    head: bytes
    length: int


class LineSplitter:
    """Cuts a byte stream into lines. Bad UTF-8, NULs and carriage returns pass through untouched."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes | OverlongLine]:
        """The lines that this chunk completes, without their newline."""
        first, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._hold(chunk)
            return []
        lines: list[bytes | OverlongLine] = [self._take(first)]
        if rest:
            *whole, tail = rest.split(b"\n")
            lines += whole if len(rest) <= self._limit_bytes else map(self._check_length, whole)
            self._hold(tail)
        return lines

    def flush(self) -> list[bytes | OverlongLine]:
        """What stands after the last newline, as a line of its own."""
        return [self._take(b"")] if self._length else []

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._length += len(piece)
        if self._length <= self._limit_bytes:
            self._pieces.append(piece)
        elif len(self._pieces) != 1 or len(self._pieces[0]) != _HEAD_BYTES:
            self._pieces = [b"".join([*self._pieces, piece])[:_HEAD_BYTES]]

    def _take(self, last: bytes) -> bytes | OverlongLine:
        if not self._length:
            return self._check_length(last)
        self._hold(last)
        pieces, length = self._pieces, self._length
        self._pieces, self._length = [], 0
        if length > self._limit_bytes:
            return OverlongLine(pieces[0][:_HEAD_BYTES], length)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check_length(self, line: bytes) -> bytes | OverlongLine:
        return line if len(line) <= self._limit_bytes else OverlongLine(line[:_HEAD_BYTES], len(line))
