"""Sessions that are kept as lines of JSON."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from inspan.protocol.wire import DECODE_ERRORS

_Line = TypeVar("_Line")


def decode_lines(saved: bytes, decode: Callable[[bytes], _Line]) -> Iterator[_Line]:
    """Every line that can be read; the last one may be torn, and others may be of a kind that tells nothing."""
    for line in saved.split(b"\n"):
        try:
            yield decode(line)
        except DECODE_ERRORS:
            continue
