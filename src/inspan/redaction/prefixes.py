"""Where a piece of a stream must be cut: what follows the cut could still grow into a secret.

Kept cheap for the usual piece, which ends in a byte that no secret holds.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from inspan.redaction.engines import Finder, automaton

_LEAD = 4
# Up to here, looking at each position in turn beats a call to an automaton.
_SHORT_RUN = 24


class Prefixes:
    """The proper prefixes of some sorted, distinct patterns."""

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._reach = max(map(len, patterns), default=1) - 1
        self._leads = {pattern[:length] for pattern in patterns for length in range(1, _LEAD + 1)}
        self._alphabet = bytes({byte for pattern in patterns for byte in pattern[:-1]})

    def cut(self, data: bytes) -> int:
        """The first position from which all the rest is a proper prefix of some pattern, or the end."""
        tail = data[-self._reach :] if self._reach else b""
        run_start = len(tail.rstrip(self._alphabet))
        if run_start < len(tail):
            for start in self._candidates(tail, run_start):
                if self._starts_a_pattern(tail[start:]):
                    return len(data) - len(tail) + start
        return len(data)

    def _candidates(self, tail: bytes, run_start: int) -> list[int]:
        leads, end = self._leads, len(tail)
        if end - run_start <= _SHORT_RUN:
            return [start for start in range(run_start, end) if tail[start : start + _LEAD] in leads]
        found = sorted(run_start + start for _, start, _ in self._lead_finder(tail[run_start:]))
        return found + self._candidates(tail, end - _LEAD + 1)

    def _starts_a_pattern(self, text: bytes) -> bool:
        place = bisect_right(self._patterns, text)
        return place < len(self._patterns) and self._patterns[place].startswith(text)

    @cached_property
    def _lead_finder(self) -> Finder:
        return automaton(sorted({pattern[:_LEAD] for pattern in self._patterns if len(pattern) > _LEAD}))
