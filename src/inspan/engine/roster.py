"""Every agent that can be named in a folder: ours, those of other packages, and the user's own."""

import os
from collections.abc import Iterator, Mapping

import msgspec

from inspan.config.settings import AgentSettings
from inspan.contracts.driver import Driver
from inspan.errors import BadConfig, BadInput, InspanError

from . import registry
from .configured import config_of
from .presets import preset_driver, preset_of


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent by its name: its driver, or why it has none that can be used."""

    name: str
    driver: Driver | None = None
    problem: InspanError | None = None


def roster(cwd: str, env: Mapping[str, str] = os.environ) -> list[Entry]:
    """All of them; a broken one hides none of the others, and neither does a broken configuration."""
    return [*_known(), *_own(cwd, env)]


def named(name: str, *, cwd: str, env: Mapping[str, str] = os.environ) -> Driver:
    """The driver of the agent of that name in a folder; raises `InspanError` for none that can be used."""
    if not name or name.partition("@")[0].partition(":")[0] in registry.agent_names():
        return registry.driver(name)
    for entry in _own(cwd, env):
        if entry.name == name and entry.driver:
            return entry.driver
        if entry.name == name and entry.problem:
            raise entry.problem
    return registry.driver(name)


def roster_names(cwd: str, env: Mapping[str, str] = os.environ) -> list[str]:
    """The names alone: no driver is loaded for them."""
    return [*registry.all_names(), *_tables(cwd, env)]


def _known() -> Iterator[Entry]:
    for name in registry.all_names():
        try:
            yield Entry(name=name, driver=registry.driver(name))
        except InspanError as error:
            yield Entry(name=name, problem=error)


def _own(cwd: str, env: Mapping[str, str]) -> Iterator[Entry]:
    for name, own in _tables(cwd, env).items():
        try:
            preset = preset_of(name, own)
            yield Entry(name=name, driver=preset_driver(name, preset) if preset else None)
        except BadInput as error:
            yield Entry(name=name, problem=error)


def _tables(cwd: str, env: Mapping[str, str]) -> dict[str, AgentSettings]:
    try:
        agents = config_of(cwd, env).settings.agents
    except BadConfig:
        return {}
    return {name: own for name, own in agents.items() if own.dialect}
