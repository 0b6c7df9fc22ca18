"""Drivers by name: inspan's own, one version of them, members of a family, and those of plugins."""

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import UnknownAgent

from .driver_cache import agent_with
from .modules import agent_names, import_driver_module, load_driver


@cache
def find_driver(name: str) -> Driver:
    """The driver of that name, or the default one for an empty name; raises `UnknownAgent` with the known ones.

    `NAME@VERSION` is the agent in that version, as inspan installs it; `FAMILY:REST` is one of a family.
    """
    if not name:
        return find_driver(agent_with("default"))
    family, colon, rest = name.partition(":")
    if colon and family in agent_names():
        return import_driver_module(family).driver_from_command(rest)
    plain, at, version = name.partition("@")
    if at and plain in agent_names():
        return _pin_version(find_driver(plain), version)
    if name in agent_names():
        return load_driver(name)
    from .plugins import load_plugin_driver  # Start-up time: nearly all agents are ours.

    if found := load_plugin_driver(name):
        return found
    raise unknown_agent_error(name, all_agent_names())


def all_agent_names() -> tuple[str, ...]:
    """Every agent that has a driver, here or in another package; looking for those takes time."""
    from .plugins import list_plugin_names  # Start-up time: as above.

    return (*agent_names(), *list_plugin_names(built_in=agent_names()))


def unknown_agent_error(name: str, known: Sequence[str]) -> UnknownAgent:
    """The refusal of a name that no agent has, with the nearest one."""
    from difflib import get_close_matches  # Start-up time: only a mistake needs it.

    nearest = get_close_matches(name, known, 1)
    hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
    problem = "unknown agent." if name else "it is empty."
    return UnknownAgent("agent", name, problem, next_step=f"{hint}Known agents: {', '.join(known)}.")


def load_drivers() -> list[Driver]:
    """All drivers, in the order of their names."""
    return [find_driver(name) for name in agent_names()]


def find_demo_driver() -> Driver:
    """The agent that a newcomer is shown first."""
    return find_driver(agent_with("demo_agent"))


def find_built_in_driver() -> Driver:
    """The agent that comes with inspan and needs nothing else."""
    return find_driver(agent_with("built_in"))


def _pin_version(found: Driver, version: str) -> Driver:
    """The same agent, held to one version; `oldest` still holds."""
    recipe = found.program.install
    if not re.fullmatch(r"\d+\.\d+\.\d+[\w.+-]*", version) or not recipe.package:
        raise UnknownAgent(
            "agent",
            f"{found.name}@{version}",
            "unknown version.",
            next_step=f"Use NAME@X.Y.Z, or {found.name!r} for {recipe.version or 'the one that you have'}.",
        )
    if version != recipe.version:
        recipe = msgspec.structs.replace(recipe.alternative or recipe, version=version, release="", alternative=None)
    return msgspec.structs.replace(found, program=msgspec.structs.replace(found.program, install=recipe, pinned=True))
