"""Where a piece of a stream must be cut: what follows the cut could still grow into a secret.

Kept cheap for the usual piece, which ends in a byte that no secret holds.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from inspan.redaction.cores import iter_case_variants
from inspan.redaction.engines import Finder, build_automaton
from inspan.redaction.spellings import ONE_CASE

_LEAD = 4
_UPPER = bytes.maketrans(b"abcdef", b"ABCDEF")
# Up to here, looking at each position in turn beats a call to an automaton.
_SHORT_RUN = 24


class Prefixes:
    """The proper prefixes of some sorted, distinct patterns, and of others of digits that may be in either case."""

    def __init__(self, patterns: Sequence[bytes], digits: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._digits = digits
        self._reach = max(map(len, (*patterns, *digits)), default=1) - 1
        cased = [lead for short in {pattern[:_LEAD] for pattern in digits} for lead in iter_case_variants(short)]
        # The lead of each pattern that has more than that.
        self._whole_leads = sorted({*cased, *(pattern[:_LEAD] for pattern in patterns if len(pattern) > _LEAD)})
        self._leads = {lead[:length] for lead in (*patterns, *cased) for length in range(1, _LEAD + 1)}
        held = b"".join([*(pattern[:-1] for pattern in patterns), *digits])
        self._alphabet = bytes({*held, *b"".join(digits).translate(_UPPER)})

    def find_cut(self, data: bytes) -> int:
        """The first position from which all the rest is a proper prefix of some pattern, or the end."""
        tail = data[-self._reach :] if self._reach else b""
        run_start = len(tail.rstrip(self._alphabet))
        if run_start < len(tail):
            for start in self._find_candidates(tail, run_start):
                if self._starts_a_pattern(tail[start:]):
                    return len(data) - len(tail) + start
        return len(data)

    def _find_candidates(self, tail: bytes, run_start: int) -> list[int]:
        leads, end = self._leads, len(tail)
        if end - run_start <= _SHORT_RUN:
            return [start for start in range(run_start, end) if tail[start : start + _LEAD] in leads]
        found = sorted(run_start + start for _, start, _ in self._lead_finder(tail[run_start:]))
        return found + self._find_candidates(tail, end - _LEAD + 1)

    def _starts_a_pattern(self, text: bytes) -> bool:
        return _starts_any(self._patterns, text) or _starts_any(self._digits, text.translate(ONE_CASE))

    @cached_property
    def _lead_finder(self) -> Finder:
        return build_automaton(self._whole_leads)


def _starts_any(patterns: Sequence[bytes], text: bytes) -> bool:
    place = bisect_right(patterns, text)
    return place < len(patterns) and patterns[place].startswith(text)
