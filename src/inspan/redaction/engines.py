"""Finding every pattern in a piece of bytes, by the engine that is fastest for how many there are.

The limits below were measured with `bench/redaction.py`; every engine finds the same matches.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Literal, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from inspan.redaction import cores

Finder: TypeAlias = Callable[[bytes], list[tuple[int, int, int]]]
"""All matches, overlapping ones too, in no order: pattern index, start, end."""
Engine: TypeAlias = Literal["auto", "ahocorasick", "hyperscan"]

# ahocorasick has a vectorised search for at most this many needles, at 8 GB/s where its automaton does 0.5.
_SCREEN_NEEDLES = 64
_MOST_SCREENS = 7
_SCREENS_FROM_BYTES = 384
# Few needles, or few first bytes, would get a slower search; these, of bytes never in UTF-8, prevent it.
_PADDING = tuple(bytes([0xF8 + n]) * 4 + bytes([n]) * 4 for n in range(4))
_AUTOMATON_WIDTH = 5
# A state of the table automaton costs about 350 bytes: beyond this it would not fit a supervisor's memory.
_MOST_TABLE_NEEDLES = 6_000


def finder(patterns: Sequence[bytes], cores_of: Mapping[bytes, bytes], *, engine: Engine = "auto") -> Finder:
    """A finder; where hyperscan is not installed, "auto" does without and "hyperscan" raises ImportError."""
    needles = cores.users(patterns, cores_of, width=cores.WIDTH)
    if engine == "hyperscan" or (engine == "auto" and _hyperscan_pays(len(needles))):
        return _checked(_hyperscan(list(needles)), patterns, list(needles.values()))
    short = cores.users(patterns, cores_of, width=_AUTOMATON_WIDTH)
    scan = automaton(list(short))
    if len(needles) <= _MOST_SCREENS * _SCREEN_NEEDLES:
        scan = _screened(scan, list(needles))
    return _checked(scan, patterns, list(short.values()))


def automaton(needles: Sequence[bytes]) -> Finder:
    """Finds the needles themselves, by a table where it fits and by a compact automaton where not."""
    small = len(needles) <= _MOST_TABLE_NEEDLES
    implementation = Implementation.DFA if small else Implementation.ContiguousNFA
    built = BytesAhoCorasick(needles, matchkind=MatchKind.Standard, implementation=implementation)
    return partial(built.find_matches_as_indexes, overlapping=True)


def _checked(scan: Finder, patterns: Sequence[bytes], users: Sequence[cores.Users]) -> Finder:
    def find(data: bytes) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        for core, core_start, _ in scan(data):
            for index, offset in users[core]:
                start, pattern = core_start - offset, patterns[index]
                if start >= 0 and data.startswith(pattern, start):
                    found.append((index, start, start + len(pattern)))
        return found

    return find


def _screened(scan: Finder, needles: Sequence[bytes]) -> Finder:
    """Asks first, at memory speed, whether there is anything to find."""
    screens = [_screen(needles[n : n + _SCREEN_NEEDLES]) for n in range(0, len(needles), _SCREEN_NEEDLES)]

    def screened(data: bytes) -> list[tuple[int, int, int]]:
        if len(data) < _SCREENS_FROM_BYTES:
            return scan(data)
        for screen in screens:
            if screen(data):
                return scan(data)
        return []

    return screened


def _screen(needles: Sequence[bytes]) -> Finder:
    padded = [*needles, *_PADDING][:_SCREEN_NEEDLES]
    built = BytesAhoCorasick(padded, matchkind=MatchKind.LeftmostFirst, implementation=Implementation.ContiguousNFA)
    return built.find_matches_as_indexes


def _hyperscan_pays(needles: int) -> bool:
    # Below, screens come close to its speed without the 10 MB that it takes.
    if needles <= _MOST_SCREENS * _SCREEN_NEEDLES:
        return False
    from platform import machine  # a millisecond of start-up that few need

    return machine() in ("x86_64", "AMD64") and _importable()


def _importable() -> bool:
    try:
        import hyperscan  # noqa: F401  # pyright: ignore[reportUnusedImport]  # an optional extra: is it there?
    except (ImportError, OSError):
        return False
    return True


def _hyperscan(needles: Sequence[bytes]) -> Finder:
    import hyperscan  # an optional extra

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    # Written as \xNN, because its binding reads a literal only up to the first NUL.
    written = ["".join(f"\\x{byte:02x}" for byte in needle).encode() for needle in needles]
    database.compile(expressions=written, ids=list(range(len(needles))), flags=[0] * len(needles))
    widths = [len(needle) for needle in needles]
    # Its scratch space serves one scan at a time, and a scan lets other threads run.
    one_at_a_time = Lock()

    def scan(data: bytes) -> list[tuple[int, int, int]]:
        hits: list[tuple[int, int, int]] = []

        def note(needle: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((needle, end - widths[needle], end))

        with one_at_a_time:
            database.scan(data, match_event_handler=note)
        return hits

    return scan
