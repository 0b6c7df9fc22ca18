"""What a program says of itself, asked once: remembered until its file changes."""

import os
from collections.abc import Callable

from inspan.stores.cache_file import load_cached, save_cached
from inspan.stores.paths import cache_home

_memory: dict[str, str] = {}
# Every run asks for a version; long texts stand apart.
_FILES = ("versions.json", "words.json")


def memoize_output(
    path: str, ask: Callable[[], str], *, subject: str = "", is_valid: Callable[[str], bool] = bool
) -> str:
    """What was said before by the program at this path, else what it says now; kept if it is worth it."""
    file = os.path.join(cache_home(), _FILES[bool(subject)])
    stamp = f"{_stamp(path)} {subject}".rstrip()
    output = _memory.get(stamp) or _load(file).get(stamp, "")
    if output:
        _memory[stamp] = output
        return output
    output = ask()
    if is_valid(output):
        _store(file, stamp, output)
    return output


def _store(path: str, stamp: str, output: str) -> None:
    known = _load(path)
    _memory[stamp] = output
    save_cached(path, known | {stamp: output})


def _stamp(path: str) -> str:
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_mtime_ns} {found.st_size}"


def _load(path: str) -> dict[str, str]:
    return load_cached(path, dict[str, str]) or {}
