"""Secrets made ready once for matching, and shared by every stream of a run."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from inspan.redaction.cores import NARROW, choose_cores, iter_case_variants
from inspan.redaction.engines import Engine, Finder, build_finder
from inspan.redaction.prefixes import Prefixes
from inspan.redaction.spellings import (
    ONE_CASE,
    escaped_spellings,
    find_mark,
    hex_spellings,
    spellings,
    wide_spellings,
)

Secrets: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Names and values. It is the values that are secret: a name is a label, which several of them may share."""

# A marker stands inside JSON strings: its name must not end one.
_UNSAFE_IN_NAME = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')


@lru_cache(maxsize=8)
def _get_shared(secrets: tuple[tuple[str, str], ...]) -> "SecretSet":
    return SecretSet(secrets)


class SecretSet:
    """The compiled secrets of a run; never changes, so any number of streams and threads may share one.

    Two names for one value: the first names it. Two values of one name: each is a secret. Empty values are ignored.
    `patterns` are found as they stand; those of `digits` behind them in either case.
    """

    def __init__(self, secrets: Secrets, *, engine: Engine = "auto") -> None:
        pairs = _to_pairs(secrets)
        built = _Builder()
        for name, value in dict.fromkeys(pairs):
            built.add(_make_marker(name), value)
        self.names = tuple(name for name, _ in pairs)
        self.patterns = tuple(sorted(built.markers))
        self.digits = tuple(sorted(built.digit_markers))
        self.markers = (
            *map(built.markers.__getitem__, self.patterns),
            *map(built.digit_markers.__getitem__, self.digits),
        )
        self.prefixes = Prefixes(self.patterns, self.digits)
        self.find: Finder = self._build_finder(built, engine) if self.patterns else _find_nothing

    def _build_finder(self, built: "_Builder", engine: Engine) -> Finder:
        return build_finder(
            (*self.patterns, *self.digits),
            built.cores,
            digits_from=len(self.patterns),
            marks=built.marks,
            rare_cores=built.rare_cores,
            engine=engine,
        )

    @staticmethod
    def get_shared(secrets: Secrets) -> "SecretSet":
        """The set of these secrets, compiled once for all runs of a process that have the same."""
        return _get_shared(_to_pairs(secrets))

    def __repr__(self) -> str:
        return f"SecretSet(names={self.names})"

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def longest(self) -> int:
        """The length in bytes of the longest spelling; a stream holds back less than this."""
        return max(map(len, (*self.patterns, *self.digits)), default=0)

    def has_secret(self, data: bytes) -> bool:
        """Whether any spelling of any secret stands in the data."""
        return bool(self.find(data))

    def redact(self, data: bytes) -> bytes:
        """The data with every secret replaced by its marker; the same object if there is none."""
        matches = self.find(data)
        return splice(data, matches, self.markers)[0] if matches else data

    def redact_text(self, text: str) -> str:
        """Like `redact`; lone surrogates pass through as they came."""
        data = text.encode("utf-8", "surrogatepass")
        matches = self.find(data)
        if not matches:
            return text
        return decode(splice(data, matches, self.markers)[0])


class _Builder:
    """Gathers the spellings of secrets: those found as they stand, those of digits in either case, cores and marks."""

    def __init__(self) -> None:
        self.markers: dict[bytes, bytes] = {}
        self.digit_markers: dict[bytes, bytes] = {}
        self.cores: dict[bytes, bytes] = {}
        self.marks: set[bytes] = set()
        self._rare: list[tuple[list[bytes], bool]] = []

    def add(self, marker: bytes, value: str) -> None:
        digits = self._add_digits(marker, hex_spellings(value))
        self.cores |= choose_cores(digits, width=NARROW, either_case=True)
        escaped = self._add_digits(marker, escaped_spellings(value))
        self.cores |= choose_cores(self._add_exact(marker, spellings(value)))
        wide = self._add_exact(marker, wide_spellings(value))
        self._rare += [(escaped, True), (wide, False)]
        self.marks.update(cased for each in escaped for cased in iter_case_variants(find_mark(each)))
        self.marks.update(found for each in wide if (found := find_mark(each)))

    def rare_cores(self) -> dict[bytes, bytes]:
        """A core for each spelling that only few texts can hold."""
        found: dict[bytes, bytes] = {}
        for patterns, either_case in self._rare:
            found |= choose_cores(patterns, width=NARROW, either_case=either_case)
        return found

    def _add_digits(self, marker: bytes, written: Sequence[bytes]) -> list[bytes]:
        new = [each for each in written if each not in self.digit_markers]
        self.digit_markers |= dict.fromkeys(new, marker)
        return new

    def _add_exact(self, marker: bytes, written: Sequence[bytes]) -> list[bytes]:
        known = self.digit_markers
        new = [each for each in written if each not in self.markers and each.translate(ONE_CASE) not in known]
        self.markers |= dict.fromkeys(new, marker)
        return new


def splice(
    data: bytes,
    matches: Sequence[tuple[int, int, int]],
    markers: Sequence[bytes],
    *,
    covered: int = 0,
    cut: int | None = None,
) -> tuple[bytes, int]:
    """Redacts data[:cut], whose first `covered` bytes an earlier marker stands for; says how many bytes after
    the cut are covered too. Overlapping matches share the marker of the first, and of those the longest.
    """
    cut = len(data) if cut is None else cut
    pieces: list[bytes] = []
    reach = covered
    for index, start, end in sorted(matches, key=lambda match: (match[1], -match[2], match[0])):
        if start < reach:
            reach = max(reach, end)
            continue
        if start >= cut:
            break
        pieces += (data[reach:start], markers[index])
        reach = end
    pieces.append(data[reach:cut])
    return b"".join(pieces), max(0, reach - cut)


def decode(data: bytes) -> str:
    """Text of redacted bytes; half a character, which a secret that is not UTF-8 may leave, is replaced."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _to_pairs(secrets: Secrets) -> tuple[tuple[str, str], ...]:
    return tuple(secrets if isinstance(secrets, Sequence) else secrets.items())


def _make_marker(name: str) -> bytes:
    return f"[REDACTED:{_UNSAFE_IN_NAME.sub('_', name)}]".encode()


def _find_nothing(data: bytes) -> list[tuple[int, int, int]]:
    return []
