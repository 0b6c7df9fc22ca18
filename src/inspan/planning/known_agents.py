"""Every agent that can be named in a folder: ours, those of other packages, and the user's own."""

import os
from collections.abc import Iterator, Mapping

import msgspec

from inspan.agents import modules, registry
from inspan.agents.presets import build_preset, build_preset_driver
from inspan.config.settings import AgentSettings
from inspan.contracts.driver import Driver
from inspan.errors import BadConfig, BadInput, InspanError

from .settings import load_config


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent by its name: its driver, or why it has none that can be used."""

    name: str
    driver: Driver | None = None
    problem: InspanError | None = None


def list_agents(cwd: str, env: Mapping[str, str] = os.environ) -> list[AgentEntry]:
    """All of them; a broken one hides none of the others, and neither does a broken configuration."""
    return [*_list_drivers(), *_list_presets(cwd, env)]


def find_agent_driver(name: str, *, cwd: str, env: Mapping[str, str] = os.environ) -> Driver:
    """The driver of the agent of that name in a folder; raises `InspanError` for none that can be used."""
    if not name or name.partition("@")[0].partition(":")[0] in modules.agent_names():
        return registry.find_driver(name)
    for entry in _list_presets(cwd, env):
        if entry.name == name and entry.driver:
            return entry.driver
        if entry.name == name and entry.problem:
            raise entry.problem
    return registry.find_driver(name)


def list_agent_names(cwd: str, env: Mapping[str, str] = os.environ) -> list[str]:
    """The names alone: no driver is loaded for them."""
    return [*registry.all_agent_names(), *_read_agent_settings(cwd, env)]


def _list_drivers() -> Iterator[AgentEntry]:
    for name in registry.all_agent_names():
        try:
            yield AgentEntry(name=name, driver=registry.find_driver(name))
        except InspanError as error:
            yield AgentEntry(name=name, problem=error)


def _list_presets(cwd: str, env: Mapping[str, str]) -> Iterator[AgentEntry]:
    for name, own in _read_agent_settings(cwd, env).items():
        try:
            preset = build_preset(name, own)
            yield AgentEntry(name=name, driver=build_preset_driver(name, preset) if preset else None)
        except BadInput as error:
            yield AgentEntry(name=name, problem=error)


def _read_agent_settings(cwd: str, env: Mapping[str, str]) -> dict[str, AgentSettings]:
    try:
        agents = load_config(cwd, env).settings.agents
    except BadConfig:
        return {}
    return {name: own for name, own in agents.items() if own.dialect}
