"""Searching the text of files: bounded in matches, in the size of a file and in time, whatever the pattern is."""

import os

from inspan.errors import BadInput, FileRefused

from .listing import check_limit, find_kind, note_escapes, walk
from .reading import is_binary, read_open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .root import Root

MAX_MATCHES = 2_000
DEFAULT_MATCHES = 200
LIMIT_S = 10.0
_LONGEST_LINE = 500


class _TimeIsUp(BaseException):
    """Raised by the alarm, in the middle of whatever is going on."""


def search_files(
    root: "Root",
    *,
    pattern: str,
    path: str = ".",
    literal: bool = False,
    ignore_case: bool = False,
    glob: str = "",
    limit: int = DEFAULT_MATCHES,
) -> "dict[str, object]":
    """The lines that a regular expression, or a text, is found in; after `LIMIT_S` those that were found until then."""
    check_limit(limit, MAX_MATCHES)
    find = _compile(pattern, literal=literal, ignore_case=ignore_case)
    matches: list[dict[str, object]] = []
    skipped: list[str] = []
    cut = ""
    try:
        with _Alarm():
            for match in _iter_matches(_iter_files(root, path, glob, skipped), find):
                if len(matches) == limit:
                    cut = f"{limit} matches"
                    break
                matches.append(match)
    except _TimeIsUp:
        cut = f"{LIMIT_S:g} s"
    notes = [f"Cut after {cut}: search a folder below, or for something else."] if cut else []
    if skipped:
        notes.append(f"Not searched, too large or with several names: {', '.join(skipped[:5])}.")
    notes += note_escapes(str(match["path"]) for match in matches)
    return {"pattern": pattern, "matches": matches, "notes": notes}


def _compile(pattern: str, *, literal: bool, ignore_case: bool) -> "Callable[[str], Any]":
    import re  # Start-up time: the other operations do without.

    if not pattern:
        raise BadInput("pattern", pattern, "it is empty.", next_step="Say what to look for.")
    try:
        return re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, RecursionError, OverflowError) as error:
        step = "Write it as Python does, or search for the text as it is with --literal."
        raise BadInput("pattern", pattern, f"it is not a regular expression: {error}.", next_step=step) from error


def _iter_matches(files: "Iterable[tuple[str, bytes]]", find: "Callable[[str], Any]") -> "Iterator[dict[str, object]]":
    for shown, data in files:
        for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
            if find(line):
                yield {"path": shown, "line": number, "text": line.rstrip("\r")[:_LONGEST_LINE]}


def _iter_files(root: "Root", path: str, glob: str, skipped: "list[str]") -> "Iterator[tuple[str, bytes]]":
    """Each file that holds text, with what it holds; a path may be a file's own."""
    from fnmatch import fnmatch  # Start-up time: the other operations do without.

    if find_kind(root.describe(path)[0].st_mode) != "folder":
        fd = root.open_file(path)
        try:
            yield path, read_open_file(root, fd, path)
        finally:
            os.close(fd)
        return
    for folder, name, shown in walk(root, path, recursive=True):
        if glob and not fnmatch(name, glob) and not fnmatch(shown, glob):
            continue
        data = _read_entry(root, folder, name, shown, skipped)
        if data and not is_binary(data):
            yield shown, data


def _read_entry(root: "Root", folder: int, name: str, shown: str, skipped: "list[str]") -> bytes:
    try:
        if find_kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) != "file":
            return b""
        fd = root.open_entry(folder, name, path=shown)
    except FileRefused:
        skipped.append(shown)
        return b""
    except OSError:
        return b""  # It went away, or may not be read.
    try:
        return read_open_file(root, fd, shown)
    except FileRefused:
        skipped.append(shown)
        return b""
    finally:
        os.close(fd)


class _Alarm:
    """Raises `_TimeIsUp` in the main thread after `LIMIT_S`: an expression looks for signals while it backtracks."""

    def __enter__(self) -> None:
        import signal  # Start-up time: the other operations do without.

        def ring(number: int, frame: object) -> None:
            raise _TimeIsUp

        self._before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)

    def __exit__(self, *error: object) -> None:
        import signal  # As above.

        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
