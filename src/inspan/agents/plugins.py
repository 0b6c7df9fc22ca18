"""Drivers that other packages bring, by the entry point `inspan.drivers`. Looked for only when somebody asks by name
for an agent that is not ours, or for a list: looking takes longer than the rest of a start."""

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from inspan.contracts.driver import Driver
from inspan.errors import NotAnAgent
from inspan.system.paths import is_within
from inspan.system.programs import leads_through, list_exposed_folders

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "inspan.drivers"


def list_plugin_names(*, built_in: tuple[str, ...]) -> tuple[str, ...]:
    """The agents of other packages; a name that is one of ours does not count."""
    return tuple(sorted(name for name in _load_entry_points() if name not in built_in))


def load_plugin_driver(name: str) -> Driver | None:
    """The driver of that name out of another package; raises `NotAnAgent`, naming the package, for a broken one."""
    entry = _load_entry_points().get(name)
    if entry is None:
        return None
    try:
        found: Any = entry.load()
    except (Exception, SystemExit) as error:  # A stranger's module may raise anything while it loads.
        raise _plugin_error(entry, f"it cannot be loaded: {type(error).__name__}: {error}") from error
    driver: object = found if isinstance(found, Driver) else getattr(found, "DRIVER", None)
    if not isinstance(driver, Driver):
        raise _plugin_error(entry, f"{entry.value} is not an inspan.contracts.driver.Driver")
    if driver.name != name:
        raise _plugin_error(entry, f"its driver is called {driver.name!r}")
    if not driver.channels:
        raise _plugin_error(entry, "its driver has no channel")
    return driver


@cache
def _load_entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # Start-up time: 20 ms that few runs need.

    return {entry.name: entry for entry in entry_points(group=GROUP) if not _lies_in_project(entry)}


def _lies_in_project(entry: "EntryPoint") -> bool:
    """Whether it is no package that somebody has installed, but files that lie where agents work."""
    try:
        exposed = list_exposed_folders(os.getcwd())
    except FileNotFoundError:
        return False
    place = os.path.abspath(str(entry.dist.locate_file(""))) if entry.dist else ""
    return bool(place) and not is_within(place, sys.prefix) and leads_through(place, exposed)


def _plugin_error(entry: "EntryPoint", problem: str) -> NotAnAgent:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
    return NotAnAgent(
        f"The package {package} brings no agent that can be used as {entry.name!r}: {problem}.",
        next_step="Upgrade or remove the package, or tell its authors.",
    )
