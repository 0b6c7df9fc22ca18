"""What a run must know of the agents that it does not use: kept in the cache folder, for loading all takes long."""

import os
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver
from inspan.protocol.wire import UNREADABLE
from inspan.stores.paths import cache_home

from . import registry


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the others see it: its variables and logins are not for them, and some carry what all can use."""

    name: str
    title: str
    variables: tuple[str, ...] = ()
    config_variable: str = ""
    state_below: str = ""
    state_paths: tuple[str, ...] = ()
    login_paths: tuple[str, ...] = ()
    carries_bwrap: str = ""
    default: bool = False
    demonstrates: bool = False
    built_in: bool = False


def marked(mark: Literal["default", "demonstrates", "built_in"]) -> str:
    """The name of the one agent that has this mark."""
    return next(each.name for each in neighbours() if getattr(each, mark))


def neighbours(env: Mapping[str, str] = os.environ) -> tuple[Neighbour, ...]:
    """Every agent that has a driver here."""
    return _read(cache_home(env))


def neighbour(driver: Driver) -> Neighbour:
    """What others have to know of this agent."""
    return Neighbour(**{name: getattr(driver, name) for name in Neighbour.__struct_fields__})


@cache
def _read(folder: str) -> tuple[Neighbour, ...]:
    path = os.path.join(folder, f"agents-{_stamp():08x}.json")
    try:
        with open(path, "rb") as file:
            known = msgspec.json.decode(file.read(), type=tuple[Neighbour, ...])
    except (OSError, *UNREADABLE):
        known = ()
    if [each.name for each in known] == list(registry.agent_names()):
        return known
    found = tuple(map(neighbour, registry.drivers()))
    _keep(path, found)
    return found


def _keep(path: str, found: tuple[Neighbour, ...]) -> None:
    draft = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(found))
        os.rename(draft, path)
    except OSError:
        pass  # A cache that cannot be written costs a few milliseconds next time, nothing else.


def _stamp() -> int:
    """A number that changes with inspan's version and with any file of a driver."""
    stamp = zlib.crc32(__version__.encode())
    for folder in registry.driver_folders():
        for path in sorted(_files(folder)):
            found = os.stat(path)
            stamp = zlib.crc32(f"{path} {found.st_mtime_ns} {found.st_size}".encode(), stamp)
    return stamp


def _files(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path
