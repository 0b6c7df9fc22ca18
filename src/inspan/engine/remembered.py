"""What a program says of itself, asked once: remembered until its file changes."""

import os
from collections.abc import Callable

import msgspec

from inspan.protocol.wire import UNREADABLE
from inspan.stores.paths import cache_home

_here: dict[str, str] = {}


def remembered(path: str, ask: Callable[[], str], *, worth: Callable[[str], bool] = bool) -> str:
    """What was said before by the program at this path, else what it says now; kept if it is worth it."""
    stamp = _stamp(path)
    said = _here.get(stamp) or _cached().get(stamp, "")
    if said:
        _here[stamp] = said
        return said
    said = ask()
    if worth(said):
        _keep(stamp, said)
    return said


def _keep(stamp: str, said: str) -> None:
    known = _cached()
    _here[stamp] = said
    draft = f"{_cache_path()}.{os.getpid()}"
    try:
        os.makedirs(cache_home(), mode=0o700, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(known | {stamp: said}))
        os.rename(draft, _cache_path())
    except OSError:
        pass  # A cache that cannot be written costs one question next time, nothing else.


def _stamp(path: str) -> str:
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_mtime_ns} {found.st_size}"


def _cache_path() -> str:
    return os.path.join(cache_home(), "versions.json")


def _cached() -> dict[str, str]:
    try:
        with open(_cache_path(), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}
