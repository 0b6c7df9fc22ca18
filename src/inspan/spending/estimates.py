"""How many tokens a model call may take, guessed from the request before it is made; always rather too many."""

from collections import deque
from typing import NamedTuple

from inspan.contracts.output_cap import DEFAULT_MAX_OUTPUT_TOKENS
from inspan.gateway.upstream import Inputs, Request
from inspan.protocol.usage import Usage

_TOKENS_PER_BYTE = 1 / 3
_MARGIN = 1.15
_MOST_TOKENS_PER_BYTE = 1.0
# What calls have taken may be learnt from requests full of blanks: text has more tokens than those.
_LEAST_TOKENS_PER_BYTE = 0.1
# A small request is mostly what the provider adds to it: it says nothing of larger ones.
_MIN_SAMPLE_BYTES = 2_000
_MAX_SAMPLES = 8
_PICTURE_TOKENS = 1_600
# What a search brings with it, beside its own price.
_SEARCH_TOKENS = 8_000
# Where no list tells what a model can take in.
_CONTEXT_TOKENS = 1_000_000
_LARGE_CONTEXT = "context-1m"
_MOST_TOKENS = 10**12
# As it is written, and how its two characters can be spelled besides.
_HOUR_CACHE = (b'"1h"', b"\\u0031", b"\\u0068")


class Estimate(NamedTuple):
    """The most that one call will probably take. `input` has pictures and searches in it, `text_bytes` has not.

    `streams`: the answer comes as it is made, so that its size tells how much of it there is. `unsized` names what the
    request only refers to, or what it holds in a form that does not tell its tokens: `input` is without it.
    """

    input: int
    output: int
    text_bytes: int
    pictures: int
    caches_for_an_hour: bool
    streams: bool
    searches: int = 0
    unsized: tuple[str, ...] = ()
    has_large_context: bool = False

    def with_context(self, most_input: int | None) -> "Estimate":
        """With all that the model can take in, where nobody can tell how much of it the request will need."""
        if not self.unsized:
            return self
        known = most_input or _CONTEXT_TOKENS
        whole = max(known, _CONTEXT_TOKENS) if self.has_large_context else known
        return self._replace(input=max(self.input, whole))


class Estimator:
    """Guesses by the size of a request, at first, then by what this run's calls really took.

    `largest_answer` bounds what is set aside for an answer, also where a request allows more. Without it, it is the
    request's own maximum, or 32,000 tokens: no price list tells what a model can answer at most.
    """

    def __init__(self, *, largest_answer: int | None = None) -> None:
        self._largest_answer = largest_answer
        self._samples: deque[float] = deque(maxlen=_MAX_SAMPLES)

    def estimate(self, request: Request) -> Estimate:
        """What a request for a model call may take."""
        inputs = request.ask.inputs if request.ask else Inputs()
        text_bytes = max(0, len(request.plain) - sum(inputs.pictures))
        beside = _PICTURE_TOKENS * len(inputs.pictures) + _SEARCH_TOKENS * inputs.searches
        return Estimate(
            input=estimate_tokens(text_bytes, per_byte=self._tokens_per_byte) + beside,
            output=self._max_output(request),
            text_bytes=text_bytes,
            pictures=len(inputs.pictures),
            caches_for_an_hour=any(spelling in request.plain for spelling in _HOUR_CACHE),
            streams=request.ask is not None and request.ask.stream,
            searches=inputs.searches,
            unsized=inputs.unsized,
            has_large_context=_LARGE_CONTEXT in request.headers.get("anthropic-beta", ""),
        )

    def learn(self, estimate: Estimate, usage: Usage) -> None:
        """A call with this estimate has really taken so much; nothing is learnt where more than its text is in it."""
        if estimate.unsized or estimate.searches:
            return
        text = usage.input + usage.cache_read + usage.cache_write - _PICTURE_TOKENS * estimate.pictures
        if estimate.text_bytes >= _MIN_SAMPLE_BYTES and text > 0:
            self._samples.append(min(text / estimate.text_bytes * _MARGIN, _MOST_TOKENS_PER_BYTE))

    @property
    def _tokens_per_byte(self) -> float:
        return max(*self._samples, _LEAST_TOKENS_PER_BYTE) if self._samples else _TOKENS_PER_BYTE

    def _max_output(self, request: Request) -> int:
        asked, answers = (request.ask.max_output, request.ask.answers) if request.ask else (None, 1)
        most = asked or self._largest_answer or DEFAULT_MAX_OUTPUT_TOKENS
        return min(min(most, self._largest_answer or most) * answers, _MOST_TOKENS)


def estimate_tokens(size: int, *, per_byte: float = _TOKENS_PER_BYTE) -> int:
    """The tokens in so many bytes of text."""
    return int(size * per_byte) + 1
