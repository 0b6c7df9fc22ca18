"""A stream that is one JSON array, element by element: what the generate wire does unless it is asked for events."""

import re
from urllib.parse import parse_qs

from inspan.gateway.upstream import Request
from inspan.gateway.wires.wire import Stream

_KEPT_BYTES = 16 * 1024 * 1024
_OUTSIDE = re.compile(rb'["\[\]{}]')
_INSIDE = re.compile(rb'["\\]')
_OPENING = b"[{"
_CLOSING = b"]}"
_ELEMENT_DEPTH = 1


def wants_array(request: Request) -> bool:
    """Whether the answer to a request is streamed as an array."""
    if request.wire != "generate" or request.ask is None or not request.ask.stream:
        return False
    return parse_qs(request.path.partition("?")[2]).get("alt") != ["sse"]


def to_array(stream: Stream) -> Stream:
    """The same pieces as elements of an array, out of server-sent events with one line of data each."""
    pieces = [piece.removeprefix(b"data: ").strip() for piece in (*stream.head, *stream.tail)]
    framed = [(b",\r\n" if number else b"[") + piece for number, piece in enumerate(pieces)]
    parted = len(stream.head)
    return Stream(head=tuple(framed[:parted]), tail=(*framed[parted:], b"]\n"))


class ArrayReader:
    """Finds the elements of an array that comes in pieces of any size; keeps no more than the one that is open.

    An element that is longer than it should be is left out. What is no array has no elements.
    """

    def __init__(self) -> None:
        self._open = bytearray()
        self._depth = 0
        self._in_string = False
        self._skips_first = False
        self._is_too_long = False

    @property
    def kept_bytes(self) -> int:
        return len(self._open)

    def forget(self) -> None:
        """Leaves out the element that is open."""
        self._open.clear()
        self._is_too_long = True

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that end in this piece, in order."""
        found: list[bytes] = []
        position, start = int(self._skips_first and bool(data)), 0
        self._skips_first = self._skips_first and not data
        while match := (_INSIDE if self._in_string else _OUTSIDE).search(data, position):
            position = match.end()
            mark = match[0]
            if mark == b"\\":
                self._skips_first = position == len(data)
                position += 1
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in _OPENING:
                start = match.start() if self._depth == _ELEMENT_DEPTH else start
                self._depth += 1
            elif mark in _CLOSING:
                self._depth -= 1
                if self._depth == _ELEMENT_DEPTH:
                    found += self._close_element(data[start:position])
        if self._depth > _ELEMENT_DEPTH:
            self._append(data[start:])
        return found

    def _close_element(self, ending: bytes) -> list[bytes]:
        element = [] if self._is_too_long else [bytes(self._open + ending)]
        self._open.clear()
        self._is_too_long = False
        return element

    def _append(self, data: bytes) -> None:
        if not self._is_too_long:
            self._open += data
        if len(self._open) > _KEPT_BYTES:
            self.forget()
