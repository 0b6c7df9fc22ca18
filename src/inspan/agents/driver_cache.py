"""What a run must know of the agents that it does not use: kept in the cache folder, for loading all takes long."""

import os
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver, StateFolder
from inspan.stores.cache_file import load_cached, save_cached
from inspan.stores.paths import cache_home

from .modules import agent_names, driver_folders, load_driver


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the others see it: its variables and logins are not for them, and some carry what all can use."""

    name: str
    title: str
    variables: tuple[str, ...] = ()
    state: StateFolder = StateFolder()
    bundled_bwrap: str = ""
    default: bool = False
    demo_agent: bool = False
    built_in: bool = False


def agent_with(mark: Literal["default", "demo_agent", "built_in"]) -> str:
    """The name of the one agent that has this mark."""
    return next(each.name for each in agent_summaries() if getattr(each, mark))


def agent_summaries(env: Mapping[str, str] = os.environ) -> tuple[AgentSummary, ...]:
    """Every agent that has a driver here."""
    return _load(cache_home(env))


def summarize_agent(driver: Driver) -> AgentSummary:
    """What others have to know of this agent."""
    return AgentSummary(
        name=driver.name,
        title=driver.title,
        variables=driver.access.variables,
        state=driver.state,
        bundled_bwrap=driver.program.bundled_bwrap,
        default=driver.default,
        demo_agent=driver.trials.demo_agent,
        built_in=driver.built_in,
    )


@cache
def _load(folder: str) -> tuple[AgentSummary, ...]:
    path = os.path.join(folder, f"agents-{_stamp():08x}.json")
    known = load_cached(path, tuple[AgentSummary, ...]) or ()
    if [each.name for each in known] == list(agent_names()):
        return known
    found = tuple(summarize_agent(load_driver(name)) for name in agent_names())
    save_cached(path, found)
    return found


def _stamp() -> int:
    """A number that changes with inspan's version and with any file of a driver."""
    stamp = zlib.crc32(__version__.encode())
    for folder in driver_folders():
        for path in sorted(_list_files(folder)):
            found = os.stat(path)
            stamp = zlib.crc32(f"{path} {found.st_mtime_ns} {found.st_size}".encode(), stamp)
    return stamp


def _list_files(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _list_files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path
