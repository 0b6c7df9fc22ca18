"""The folder is the registry."""

import pytest

from inspan.engine import registry
from inspan.errors import BadInput, UnknownAgent


def test_every_driver_is_found_under_its_own_name() -> None:
    assert [driver.name for driver in registry.drivers()] == list(registry.agent_names())
    assert {"claude", "codex"} <= set(registry.agent_names())


def test_one_driver_is_the_default() -> None:
    assert [driver.name for driver in registry.drivers() if driver.default] == [registry.driver("").name]


def test_an_unknown_agent_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownAgent) as caught:
        registry.driver("codx")
    assert caught.value.message == "agent 'codx': no such agent."
    assert caught.value.next_step == f"Did you mean 'codex'? Known agents: {', '.join(registry.all_names())}."


@pytest.mark.parametrize("name", ["__init__", "../engine", "codex.DRIVER", "codex\0", " codex"])
def test_no_other_module_passes_for_an_agent(name: str) -> None:
    with pytest.raises(UnknownAgent):
        registry.driver(name)


@pytest.mark.parametrize("name", ["none", "bwrap"])
def test_sandboxes_are_found_by_name(name: str) -> None:
    assert registry.sandbox(name).name == name


@pytest.mark.parametrize("name", ["", "reaper", "containment", "programs", "__init__", "docker"])
def test_no_other_module_passes_for_a_sandbox(name: str) -> None:
    with pytest.raises(BadInput, match="no such sandbox") as caught:
        registry.sandbox(name)
    assert caught.value.next_step == "Known sandboxes: bwrap, none."
