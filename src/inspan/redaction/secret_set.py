"""Secrets made ready once for matching, and shared by every stream of a run."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from inspan.redaction.cores import choose
from inspan.redaction.engines import Engine, Finder, finder
from inspan.redaction.prefixes import Prefixes
from inspan.redaction.spellings import spellings

# A marker stands inside JSON strings: its name must not end one.
_UNSAFE_IN_NAME = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')


@lru_cache(maxsize=8)
def _shared(secrets: tuple[tuple[str, str], ...]) -> "SecretSet":
    return SecretSet(dict(secrets))


class SecretSet:
    """The compiled secrets of a run; never changes, so any number of streams and threads may share one.

    Two names for one value: the first names it. Empty values are ignored.
    """

    def __init__(self, secrets: Mapping[str, str], *, engine: Engine = "auto") -> None:
        cores: dict[bytes, bytes] = {}
        markers: dict[bytes, bytes] = {}
        for name, value in secrets.items():
            own = [each for each in spellings(value) if each not in markers]
            markers |= dict.fromkeys(own, _marker(name))
            cores |= choose(own)
        self.names = tuple(secrets)
        self.patterns = tuple(sorted(markers))
        self.markers = tuple(markers[pattern] for pattern in self.patterns)
        self.prefixes = Prefixes(self.patterns)
        self.find: Finder = finder(self.patterns, cores, engine=engine) if cores else _find_nothing

    @staticmethod
    def shared(secrets: Mapping[str, str]) -> "SecretSet":
        """The set of these secrets, compiled once for all runs of a process that have the same."""
        return _shared(tuple(secrets.items()))

    def __repr__(self) -> str:
        return f"SecretSet(names={self.names})"

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def longest(self) -> int:
        """The length in bytes of the longest spelling; a stream holds back less than this."""
        return max(map(len, self.patterns), default=0)

    def find_any(self, data: bytes) -> bool:
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
    for index, start, end in sorted(matches, key=lambda match: (match[1], -match[2])):
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


def _marker(name: str) -> bytes:
    return f"[REDACTED:{_UNSAFE_IN_NAME.sub('_', name)}]".encode()


def _find_nothing(data: bytes) -> list[tuple[int, int, int]]:
    return []
