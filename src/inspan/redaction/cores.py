"""A core is a short window of a pattern: searching for cores and then checking the pattern around a hit finds
exactly what searching for the patterns would, with fewer and shorter needles.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

WIDTH = 8
_POSITIONS = 64
# Bytes by how often they occur in the JSON lines of agents and in source code, the commonest first.
_COMMON = (
    b" e\"tnsoairldc:,upm\\_f-hg0b.1y2k{}5()4'6vw9387=x/\nE\xe2TI\x80\x94[]RAOSC#NPMDLqjFB>UWH*KGzV<Z\x96Y+`%|X@Q;J"
)
_RARITY = bytes(_COMMON.find(byte) if byte in _COMMON else len(_COMMON) for byte in range(256))

Users: TypeAlias = Sequence[tuple[int, int]]
"""The patterns that hold a core: the index of each, and how far into it the core begins."""


def choose(patterns: Sequence[bytes]) -> dict[bytes, bytes]:
    """A core for each pattern of one secret, shared where one window occurs in several of them."""
    shared = Counter(chain.from_iterable(map(_windows, patterns)))
    chosen: dict[bytes, bytes] = {}
    left = sorted(patterns, key=len)
    while left:
        core = _best_window(left[0], shared)
        chosen.update((pattern, core) for pattern in left if core in pattern)
        left = [pattern for pattern in left if core not in pattern]
    return chosen


def users(patterns: Iterable[bytes], cores: Mapping[bytes, bytes], *, width: int) -> dict[bytes, list[tuple[int, int]]]:
    """Which patterns to check at a hit of each core, with the cores cut to a width."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for index, pattern in enumerate(patterns):
        core = cores[pattern]
        found.setdefault(core[:width], []).append((index, pattern.index(core)))
    return found


def _best_window(pattern: bytes, shared: Mapping[bytes, int]) -> bytes:
    """The window that most patterns share; among those, the one whose first four bytes are rarest."""
    rank = pattern.translate(_RARITY) + bytes(3)
    rarity = map(sum, zip(rank, rank[1:], rank[2:], rank[3:], strict=False))
    windows = _windows(pattern)
    return max(zip(map(shared.__getitem__, windows), rarity, windows, strict=False))[2]


def _windows(pattern: bytes) -> list[bytes]:
    count = max(1, min(_POSITIONS, len(pattern) - WIDTH + 1))
    return [pattern[start : start + WIDTH] for start in range(count)]
