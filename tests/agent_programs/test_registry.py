"""The folder is the registry."""

import pytest

from inspan.agents import modules, registry
from inspan.errors import BadInput, UnknownAgent


def test_every_driver_is_found_under_its_own_name() -> None:
    assert [driver.name for driver in registry.load_drivers()] == list(modules.agent_names())
    assert {"claude", "codex"} <= set(modules.agent_names())


def test_one_driver_is_the_default() -> None:
    assert [driver.name for driver in registry.load_drivers() if driver.default] == [registry.find_driver("").name]


def test_an_unknown_agent_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownAgent) as caught:
        registry.find_driver("codx")
    assert caught.value.message == "agent 'codx': unknown agent."
    assert caught.value.next_step == f"Did you mean 'codex'? Known agents: {', '.join(registry.all_agent_names())}."


@pytest.mark.parametrize("name", ["__init__", "../engine", "codex.DRIVER", "codex\0", " codex"])
def test_no_other_module_passes_for_an_agent(name: str) -> None:
    with pytest.raises(UnknownAgent):
        registry.find_driver(name)


@pytest.mark.parametrize("name", ["none", "bwrap", "podman", "docker", "seatbelt"])
def test_sandboxes_are_found_by_name(name: str) -> None:
    assert modules.load_sandbox(name).name == name


@pytest.mark.parametrize("name", ["", "reaper", "containment", "programs", "__init__", "view"])
def test_no_other_module_passes_for_a_sandbox(name: str) -> None:
    with pytest.raises(BadInput, match="unknown sandbox") as caught:
        modules.load_sandbox(name)
    assert caught.value.next_step == "Known boundaries: bwrap, docker, none, podman, seatbelt."
