"""The folder is the registry: drivers and sandboxes are found by listing their folders."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Sandbox
from inspan.errors import BadInput, UnknownAgent

_NO_SANDBOX = frozenset({"__init__", "containment", "programs", "reaper"})


def agent_names() -> tuple[str, ...]:
    """Every agent that has a driver."""
    return _modules("inspan.drivers", frozenset({"__init__"}))


@cache
def driver(name: str) -> Driver:
    """The driver of that name, or the default one for an empty name; raises `UnknownAgent` with the known ones."""
    if not name:
        return next(found for found in drivers() if found.default)
    if name not in (known := agent_names()):
        from difflib import get_close_matches  # Start-up time: only a mistake needs it.

        nearest = get_close_matches(name, known, 1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        raise UnknownAgent("agent", name, "no such agent.", next_step=f"{hint}Known agents: {', '.join(known)}.")
    return import_module(f"inspan.drivers.{name}").DRIVER


def drivers() -> list[Driver]:
    """All drivers, in the order of their names."""
    return [driver(name) for name in agent_names()]


def demonstrator() -> Driver:
    """The agent that a newcomer is shown first."""
    return next(found for found in drivers() if found.demonstrates)


def built_in() -> Driver:
    """The agent that comes with inspan and needs nothing else."""
    return next(found for found in drivers() if found.built_in)


def sandbox(name: str) -> Sandbox:
    """The sandbox of that name; raises `BadInput` with the known ones."""
    known = _modules("inspan.sandboxes", _NO_SANDBOX)
    if name not in known:
        raise BadInput("sandbox", name, "no such sandbox.", next_step=f"Known sandboxes: {', '.join(known)}.")
    return import_module(f"inspan.sandboxes.{name}").SANDBOX


@cache
def _modules(package: str, left_out: frozenset[str]) -> tuple[str, ...]:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    names = {entry.removesuffix(".py") for folder in folders for entry in os.listdir(folder)}
    return tuple(sorted(name for name in names - left_out if name.isidentifier() and name != "__pycache__"))
