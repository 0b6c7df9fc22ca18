"""What a program says of itself, asked once: remembered until its file changes."""

import os
from collections.abc import Callable

import msgspec

from inspan.protocol.wire import UNREADABLE
from inspan.stores.paths import cache_home

_here: dict[str, str] = {}
# Every run asks for a version; long texts stand apart.
_FILES = ("versions.json", "words.json")


def remembered(path: str, ask: Callable[[], str], *, about: str = "", worth: Callable[[str], bool] = bool) -> str:
    """What was said before by the program at this path, else what it says now; kept if it is worth it."""
    file = os.path.join(cache_home(), _FILES[bool(about)])
    stamp = f"{_stamp(path)} {about}".rstrip()
    said = _here.get(stamp) or _cached(file).get(stamp, "")
    if said:
        _here[stamp] = said
        return said
    said = ask()
    if worth(said):
        _keep(file, stamp, said)
    return said


def _keep(path: str, stamp: str, said: str) -> None:
    known = _cached(path)
    _here[stamp] = said
    draft = f"{path}.{os.getpid()}"
    try:
        os.makedirs(cache_home(), mode=0o700, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(known | {stamp: said}))
        os.rename(draft, path)
    except OSError:
        pass  # A cache that cannot be written costs one question next time, nothing else.


def _stamp(path: str) -> str:
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_mtime_ns} {found.st_size}"


def _cached(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}
