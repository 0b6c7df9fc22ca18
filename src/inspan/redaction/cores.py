"""A core is a short window of a pattern: searching for cores and then checking the pattern around a hit finds
exactly what searching for the patterns would, with fewer and shorter needles.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TypeAlias

WIDTH = 8
# Short enough for one that all depths of escapes share, and for few letters that may be in either case.
NARROW = 6
_POSITIONS = 64
_LETTERS = b"abcdef"
# Bytes by how often they occur in the JSON lines of agents and in source code, the commonest first.
_COMMON = (
    b" e\"tnsoairldc:,upm\\_f-hg0b.1y2k{}5()4'6vw9387=x/\nE\xe2TI\x80\x94[]RAOSC#NPMDLqjFB>UWH*KGzV<Z\x96Y+`%|X@Q;J"
)
_RARITY = bytes(_COMMON.find(byte) if byte in _COMMON else len(_COMMON) for byte in range(256))

CoreUses: TypeAlias = Sequence[tuple[int, int]]
"""The patterns that hold a core: the index of each, and how far into it the core begins."""


def choose_cores(patterns: Sequence[bytes], *, width: int = WIDTH, either_case: bool = False) -> dict[bytes, bytes]:
    """A core for each pattern of one secret, shared where one window occurs in several of them.

    For patterns of digits that may be in `either_case`, one with as few letters among them as there is.
    """
    shared = Counter(chain.from_iterable(_windows(pattern, width) for pattern in patterns))
    chosen: dict[bytes, bytes] = {}
    left = sorted(patterns, key=len)
    while left:
        core = _best_window(left[0], shared, width=width, letters=_LETTERS if either_case else b"")
        chosen.update((pattern, core) for pattern in left if core in pattern)
        left = [pattern for pattern in left if core not in pattern]
    return chosen


def group_by_core(
    patterns: Iterable[bytes], cores: Mapping[bytes, bytes], *, width: int, digits_from: int
) -> dict[bytes, list[tuple[int, int]]]:
    """Which patterns to check at a hit of each core, with the cores cut to a width; for those that have one.

    Those from `digits_from` on may be in either case, and are looked for in each that their cores can have.
    """
    found: dict[bytes, list[tuple[int, int]]] = {}
    for index, pattern in enumerate(patterns):
        core = cores.get(pattern)
        if core is None:
            continue
        needle = core[:width]
        for written in iter_case_variants(needle) if index >= digits_from else (needle,):
            found.setdefault(written, []).append((index, pattern.index(core)))
    return found


def iter_case_variants(digits: bytes) -> Iterator[bytes]:
    """Every way to write hexadecimal digits; what else stands among them has only one."""
    spelled = (bytes((byte, byte - 32)) if byte in _LETTERS else bytes((byte,)) for byte in digits)
    return map(bytes, product(*spelled))


def _best_window(pattern: bytes, shared: Mapping[bytes, int], *, width: int, letters: bytes) -> bytes:
    """The window that most patterns share; among those, the one with the fewest of these letters, and then the one
    whose first four bytes are rarest.
    """
    rank = pattern.translate(_RARITY) + bytes(3)
    rarity = map(sum, zip(rank, rank[1:], rank[2:], rank[3:], strict=False))
    windows = _windows(pattern, width)
    fewest = [len(each.translate(None, letters)) for each in windows] if letters else [0] * len(windows)
    return max(zip(map(shared.__getitem__, windows), fewest, rarity, windows, strict=False))[3]


def _windows(pattern: bytes, width: int) -> list[bytes]:
    count = max(1, min(_POSITIONS, len(pattern) - width + 1))
    return [pattern[start : start + width] for start in range(count)]
