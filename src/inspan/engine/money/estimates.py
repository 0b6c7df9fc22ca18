"""How many tokens a model call may take, guessed from the request before it is made; always rather too many."""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from inspan.contracts.budgeted import LARGEST_ANSWER
from inspan.gateway.upstream import Request
from inspan.protocol.usage import Usage

_TOKENS_PER_BYTE = 1 / 3
_MARGIN = 1.15
_MOST_TOKENS_PER_BYTE = 1.0
# A small request is mostly what the provider adds to it: it says nothing of larger ones.
_TELLING_BYTES = 2_000
_CALLS_REMEMBERED = 8
# How pictures begin in base64: PNG, JPEG, GIF, WebP. Everything else that is encoded so counts as text.
_PICTURES = (b"iVBORw0KGg", b"/9j/", b"R0lGOD", b"UklGR")
_PICTURE_BYTES = 1_000
# What stands before one that is a picture and not a text about it: the quote of its string, perhaps a data URL's head.
_HEAD = re.compile(rb'(?<!\\)"(?:data:[\w/+.-]{1,40};base64,)?\Z')
_HEAD_BYTES = 64
_PICTURE_TOKENS = 1_600
_HOUR_CACHE = b'"1h"'
_Span = tuple[int, int]


class Estimate(NamedTuple):
    """The most that one call will probably take. `input` has the pictures in it, `text_bytes` has not."""

    input: int
    output: int
    text_bytes: int
    pictures: int
    caches_for_an_hour: bool


class Estimator:
    """Guesses by the size of a request, at first, then by what this run's calls really took.

    `largest_answer` bounds what is set aside for an answer, also where a request allows more. Without it, it is the
    request's own maximum, or 32,000 tokens: no price list tells what a model can answer at most.
    """

    def __init__(self, *, largest_answer: int | None = None) -> None:
        self._largest_answer = largest_answer
        self._seen: deque[float] = deque(maxlen=_CALLS_REMEMBERED)

    def of(self, request: Request) -> Estimate:
        """What a request for a model call may take."""
        spans = _text_spans(request.plain)
        text_bytes, pictures = sum(stop - start for start, stop in spans), len(spans) - 1
        return Estimate(
            input=tokens_in(text_bytes, per_byte=self._tokens_per_byte) + _PICTURE_TOKENS * pictures,
            output=self._output(request),
            text_bytes=text_bytes,
            pictures=pictures,
            caches_for_an_hour=any(request.plain.find(_HOUR_CACHE, *span) >= 0 for span in spans),
        )

    def learn(self, estimate: Estimate, usage: Usage) -> None:
        """A call with this estimate has really taken so much."""
        text = usage.input + usage.cache_read + usage.cache_write - _PICTURE_TOKENS * estimate.pictures
        if estimate.text_bytes >= _TELLING_BYTES and text > 0:
            self._seen.append(min(text / estimate.text_bytes * _MARGIN, _MOST_TOKENS_PER_BYTE))

    @property
    def _tokens_per_byte(self) -> float:
        return max(self._seen, default=_TOKENS_PER_BYTE)

    def _output(self, request: Request) -> int:
        asked = request.ask.max_output if request.ask else None
        most = asked or self._largest_answer or LARGEST_ANSWER
        return min(most, self._largest_answer or most)


def tokens_in(size: int, *, per_byte: float = _TOKENS_PER_BYTE) -> int:
    """The tokens in so many bytes of text."""
    return int(size * per_byte) + 1


def _text_spans(body: bytes) -> list[_Span]:
    """What is left of a body between its pictures. By search alone, and once over each: 30 MB must not take long."""
    spans = [(0, len(body))]
    for beginning in _PICTURES:
        spans = [part for span in spans for part in _parted(body, beginning, *span)]
    return spans


def _parted(body: bytes, beginning: bytes, start: int, stop: int) -> Iterator[_Span]:
    """A span without the pictures that begin so, each of which goes on to the quote that closes its string."""
    at = body.find(beginning, start, stop)
    while at >= 0:
        end = body.find(b'"', at, stop)
        end = stop if end < 0 else end
        is_picture = end - at >= _PICTURE_BYTES and _HEAD.search(body[max(0, at - _HEAD_BYTES) : at])
        if is_picture:
            yield start, at
            start = end
        at = body.find(beginning, end if is_picture else at + 1, stop)
    yield start, stop
