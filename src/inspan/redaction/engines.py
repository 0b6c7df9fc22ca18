"""Finding every pattern in a piece of bytes, by the engine that is fastest for how many there are.

The limits below were measured with `bench/redaction.py`; every engine finds the same matches.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from threading import Lock
from typing import Literal, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from inspan.redaction import cores
from inspan.redaction.spellings import ONE_CASE

Finder: TypeAlias = Callable[[bytes], list[tuple[int, int, int]]]
"""All matches, overlapping ones too, in no order: pattern index, start, end."""
_Checker: TypeAlias = Callable[[bytes, list[tuple[int, int, int]]], tuple[list[tuple[int, int, int]], list[int]]]
"""The matches around hits of cores in the data, and where a mark was hit."""
Engine: TypeAlias = Literal["auto", "ahocorasick", "hyperscan"]

# ahocorasick has a vectorised search for at most this many needles, at 8 GB/s where its automaton does 0.5.
_SCREEN_NEEDLES = 64
_MOST_SCREENS = 7
_SCREENS_FROM_BYTES = 384
# Few needles, or few first bytes, would get a slower search; these, of bytes never in UTF-8, prevent it.
_PADDING = tuple(bytes([0xF8 + n]) * 4 + bytes([n]) * 4 for n in range(4))
_AUTOMATON_WIDTH = 5
_TABLE_WIDTH = 24
_NO_CANDIDATES: tuple[tuple[int, int], ...] = ()
# A state of the table automaton costs about 350 bytes: beyond this it would not fit a supervisor's memory.
_MOST_TABLE_NEEDLES = 6_000


def build_finder(
    patterns: Sequence[bytes],
    cores_of: Mapping[bytes, bytes],
    *,
    digits_from: int,
    marks: Collection[bytes] = (),
    rare_cores: Callable[[], Mapping[bytes, bytes]] = dict,
    engine: Engine = "auto",
) -> Finder:
    """A finder; where hyperscan is not installed, "auto" does without and "hyperscan" raises ImportError.

    The patterns from `digits_from` on are found in either case of their hexadecimal digits, in which they are lower.
    Those without a core are rare: none stands where there is neither one of the `marks` nor a NUL, so that only then
    their cores are asked for and they are looked for, too.
    """
    find_rare = _build_rare_finder(patterns, rare_cores, digits_from)
    longest = max(map(len, patterns), default=0)
    needles = cores.group_by_core(patterns, cores_of, width=cores.WIDTH, digits_from=digits_from)
    count = len(needles) + len(marks)
    if engine == "hyperscan" or (engine == "auto" and _prefers_hyperscan(count)):
        return _combine_finders(
            _build_hyperscan([*needles, *marks]), _build_checker(patterns, needles, digits_from), find_rare, longest
        )
    short = cores.group_by_core(patterns, cores_of, width=_AUTOMATON_WIDTH, digits_from=digits_from)
    scan = build_automaton([*short, *marks])
    if count <= _MOST_SCREENS * _SCREEN_NEEDLES:
        scan = _add_screens(scan, [*needles, *marks])
    return _combine_finders(scan, _build_checker(patterns, short, digits_from), find_rare, longest)


def build_automaton(needles: Sequence[bytes]) -> Finder:
    """Finds the needles themselves, by a table where it fits and by a compact automaton where not."""
    small = len(needles) <= _MOST_TABLE_NEEDLES
    implementation = Implementation.DFA if small else Implementation.ContiguousNFA
    built = BytesAhoCorasick(needles, matchkind=MatchKind.Standard, implementation=implementation)
    return partial(built.find_matches_as_indexes, overlapping=True)


def _combine_finders(scan: Finder, check: _Checker, find_rare: Finder, longest: int) -> Finder:
    def find(data: bytes) -> list[tuple[int, int, int]]:
        hits = scan(data)
        if not hits:
            return find_rare(data) if 0 in data else hits
        found, marked = check(data, hits)
        if 0 in data:
            return found + find_rare(data)
        for begin, end in _merge_ranges(marked, longest):
            found += [(index, start + begin, stop + begin) for index, start, stop in find_rare(data[begin:end])]
        return found

    return find


def _merge_ranges(places: Sequence[int], reach: int) -> list[tuple[int, int]]:
    """Where a match of at most that length can lie that holds one of these places; ranges that touch are one."""
    ranges: list[tuple[int, int]] = []
    for place in sorted(places):
        begin, end = max(0, place - reach), place + reach
        if ranges and begin <= ranges[-1][1]:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
    return ranges


def _build_rare_finder(
    patterns: Sequence[bytes], rare_cores: Callable[[], Mapping[bytes, bytes]], digits_from: int
) -> Finder:
    """Made when it is first needed, which in most runs is never."""

    @cache
    def make() -> tuple[Finder, _Checker]:
        users = cores.group_by_core(patterns, rare_cores(), width=_AUTOMATON_WIDTH, digits_from=digits_from)
        return build_automaton(list(users)) if users else lambda _: [], _build_checker(patterns, users, digits_from)

    def find(data: bytes) -> list[tuple[int, int, int]]:
        scan, check = make()
        return check(data, scan(data))[0]

    return find


def _build_checker(
    patterns: Sequence[bytes], users: Mapping[bytes, Sequence[tuple[int, int]]], digits_from: int
) -> _Checker:
    tables = [_build_table(patterns, each) for each in users.values()]

    def check(data: bytes, hits: list[tuple[int, int, int]]) -> tuple[list[tuple[int, int, int]], list[int]]:
        found: list[tuple[int, int, int]] = []
        marked: list[int] = []
        for core, core_start, _ in hits:
            if core >= len(tables):
                marked.append(core_start)
                continue
            width, by_beginning = tables[core]
            beginning = data[core_start : core_start + width]
            lower = beginning.translate(ONE_CASE)
            candidates = by_beginning.get(beginning, _NO_CANDIDATES)
            if lower != beginning:
                candidates = (*candidates, *by_beginning.get(lower, _NO_CANDIDATES))
            for index, offset in candidates:
                start, pattern = core_start - offset, patterns[index]
                end = start + len(pattern)
                if start < 0:
                    continue
                if data.startswith(pattern, start) or (
                    index >= digits_from and data[start:end].translate(ONE_CASE) == pattern
                ):
                    found.append((index, start, end))
        return found, marked

    return check


def _build_table(patterns: Sequence[bytes], users: cores.CoreUses) -> tuple[int, dict[bytes, list[tuple[int, int]]]]:
    """The users of a core by how each goes on from there, over as many bytes as all of them have.

    A character that is escaped is in the core of every secret that holds it: trying them one by one takes too long.
    """
    width = min(_TABLE_WIDTH, *(len(patterns[index]) - offset for index, offset in users))
    by_beginning: dict[bytes, list[tuple[int, int]]] = {}
    for index, offset in users:
        by_beginning.setdefault(patterns[index][offset : offset + width], []).append((index, offset))
    return width, by_beginning


def _add_screens(scan: Finder, needles: Sequence[bytes]) -> Finder:
    """Asks first, at memory speed, whether there is anything to find."""
    screens = [_build_screen(needles[n : n + _SCREEN_NEEDLES]) for n in range(0, len(needles), _SCREEN_NEEDLES)]

    def find(data: bytes) -> list[tuple[int, int, int]]:
        if len(data) < _SCREENS_FROM_BYTES:
            return scan(data)
        for screen in screens:
            if screen(data):
                return scan(data)
        return []

    return find


def _build_screen(needles: Sequence[bytes]) -> Finder:
    padded = [*needles, *_PADDING][:_SCREEN_NEEDLES]
    built = BytesAhoCorasick(padded, matchkind=MatchKind.LeftmostFirst, implementation=Implementation.ContiguousNFA)
    return built.find_matches_as_indexes


def _prefers_hyperscan(needles: int) -> bool:
    # Below, screens come close to its speed without the 10 MB that it takes.
    if needles <= _MOST_SCREENS * _SCREEN_NEEDLES:
        return False
    from platform import machine  # a millisecond of start-up that few need

    return machine() in ("x86_64", "AMD64") and _has_hyperscan()


def _has_hyperscan() -> bool:
    try:
        import hyperscan  # noqa: F401  # pyright: ignore[reportUnusedImport]  # an optional extra: is it there?
    except (ImportError, OSError):
        return False
    return True


def _build_hyperscan(needles: Sequence[bytes]) -> Finder:
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

        def on_match(needle: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((needle, end - widths[needle], end))

        with one_at_a_time:
            database.scan(data, match_event_handler=on_match)
        return hits

    return scan
