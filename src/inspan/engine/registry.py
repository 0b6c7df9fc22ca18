"""The folder is the registry: drivers and sandboxes are found by listing their folders."""

import os
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Sandbox
from inspan.errors import BadInput, UnknownAgent

_NO_SANDBOX = frozenset({"__init__", "containment", "programs", "reaper"})


def agent_names() -> tuple[str, ...]:
    """Every agent that has a driver."""
    return tuple(name.replace("_", "-") for name in _modules("inspan.drivers", frozenset({"__init__"})))


@cache
def driver(name: str) -> Driver:
    """The driver of that name, or the default one for an empty name; raises `UnknownAgent` with the known ones.

    `NAME@VERSION` is the agent in that version, as inspan installs it; `FAMILY:REST` is one of a family.
    """
    if not name:
        from .catalogue import marked  # It asks here for all drivers, once.

        return driver(marked("default"))
    family, colon, rest = name.partition(":")
    if colon and family in agent_names():
        return _module(family).named(rest)
    plain, at, version = name.partition("@")
    if at and plain in agent_names():
        return _at_version(driver(plain), version)
    if name in agent_names():
        return _module(name).DRIVER
    from .strangers import stranger  # Start-up time: nearly all agents are ours.

    if found := stranger(name):
        return found
    raise unknown_agent(name, all_names())


def all_names() -> tuple[str, ...]:
    """Every agent that has a driver, here or in another package; looking for those takes time."""
    from .strangers import stranger_names  # Start-up time: as above.

    return (*agent_names(), *stranger_names(ours=agent_names()))


def unknown_agent(name: str, known: Sequence[str]) -> UnknownAgent:
    """The refusal of a name that no agent has, with the nearest one."""
    from difflib import get_close_matches  # Start-up time: only a mistake needs it.

    nearest = get_close_matches(name, known, 1)
    hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
    return UnknownAgent("agent", name, "no such agent.", next_step=f"{hint}Known agents: {', '.join(known)}.")


def drivers() -> list[Driver]:
    """All drivers, in the order of their names."""
    return [driver(name) for name in agent_names()]


def demonstrator() -> Driver:
    """The agent that a newcomer is shown first."""
    from .catalogue import marked  # As above.

    return driver(marked("demonstrates"))


def built_in() -> Driver:
    """The agent that comes with inspan and needs nothing else."""
    from .catalogue import marked  # As above.

    return driver(marked("built_in"))


def sandbox(name: str) -> Sandbox:
    """The sandbox of that name; raises `BadInput` with the known ones."""
    known = _modules("inspan.sandboxes", _NO_SANDBOX)
    if name not in known:
        raise BadInput("sandbox", name, "no such sandbox.", next_step=f"Known sandboxes: {', '.join(known)}.")
    return import_module(f"inspan.sandboxes.{name}").SANDBOX


def _module(name: str) -> Any:
    return import_module(f"inspan.drivers.{name.replace('-', '_')}")


def _at_version(found: Driver, version: str) -> Driver:
    """The same agent, held to one version; `oldest` still holds."""
    if not re.fullmatch(r"\d+\.\d+\.\d+[\w.+-]*", version) or not found.install.package:
        raise UnknownAgent(
            "agent",
            f"{found.name}@{version}",
            "no such version.",
            next_step=f"Use NAME@X.Y.Z, or {found.name!r} for {found.install.version or 'the one that you have'}.",
        )
    recipe = found.install
    if version != recipe.version:
        recipe = msgspec.structs.replace(recipe.elsewhere or recipe, version=version, release="", elsewhere=None)
    return msgspec.structs.replace(found, install=recipe, pinned=True)


def driver_folders() -> list[str]:
    """Where the drivers lie."""
    return _folders("inspan.drivers")


def _folders(package: str) -> list[str]:
    spec = find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


@cache
def _modules(package: str, left_out: frozenset[str]) -> tuple[str, ...]:
    names = {entry.removesuffix(".py") for folder in _folders(package) for entry in os.listdir(folder)}
    return tuple(sorted(name for name in names - left_out if name.isidentifier() and name != "__pycache__"))
