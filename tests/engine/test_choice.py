"""What is chosen for a task, and refused, before anything is written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.engine import registry
from inspan.engine.choice import Choice, choose
from inspan.errors import AgentUntested, BadInput
from inspan.protocol.task import Task

_BOXED = [driver.name for driver in registry.drivers() if driver.capabilities.review_needs_box]
Chooses = Callable[..., Choice]


@pytest.fixture
def chooses(tmp_path: Path) -> Chooses:
    """Chooses for an agent whose program says that it is of the version that was tried, or of the one given."""

    def choose_for(agent: str, version: str = "", env: dict[str, str] | None = None, **fields: Any) -> Choice:
        driver = registry.driver(agent)
        said = _said(agent, version or driver.install.version)
        path = tmp_path / driver.program
        path.write_text(f"#!/bin/sh\necho '{said}'\n")
        path.chmod(0o755)
        given = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], driver.program_variable: str(path)}
        given |= {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "DATA", "STATE")}
        task = Task(prompt="do it", cwd=str(tmp_path), agent=agent, profile="user", **fields)
        return choose(task, {**given, **(env or {})})

    return choose_for


def _said(agent: str, version: str) -> str:
    """What the program of an agent prints for a version."""
    words = registry.driver(agent).version_words
    forms = ("{}", "codex-cli {}", "{} (Claude Code)", "GitHub Copilot CLI {}.", " {}", "v{}")
    return next(form.format(version) for form in forms if words.search(form.format(version)))


@pytest.mark.parametrize("agent", _BOXED)
def test_an_agent_that_does_not_keep_a_review_from_writing_gets_a_box(
    chooses: Chooses, bubblewrap: str, agent: str
) -> None:
    assert chooses(agent, mode="review").sandbox.name == "bwrap"
    assert chooses(agent, mode="review", sandbox="bwrap").sandbox.name == "bwrap"
    if not registry.driver(agent).capabilities.root_needs_box:
        assert chooses(agent, mode="exec").sandbox.name == "none"
    with pytest.raises(BadInput, match="itself does not keep a review from writing") as caught:
        chooses(agent, mode="review", sandbox="none")
    assert caught.value.next_step == "Leave --sandbox out, or use --sandbox bwrap."


def test_some_agent_needs_a_box_for_a_review_and_some_does_not(chooses: Chooses) -> None:
    assert _BOXED
    assert chooses("codex", mode="review").sandbox.name == "none"


@pytest.mark.parametrize("agent", ["opencode", "copilot"])
def test_a_models_other_name_is_replaced_before_its_provider_is_chosen(chooses: Chooses, agent: str) -> None:
    choice = chooses(agent, model="sonnet", env={"OPENAI_API_KEY": "sk-0123456789abcdef"})
    assert (choice.task.model, choice.way) == (registry.driver(agent).models["sonnet"], "anthropic")
    assert choice.driver.wire == "messages"


def test_a_name_that_the_program_knows_itself_is_left_to_it(chooses: Chooses) -> None:
    assert chooses("opencode", model="openai/gpt-x").task.model == "openai/gpt-x"
    assert chooses("codex", model="sonnet").task.model == "sonnet"


@pytest.mark.parametrize("version", ["0.87.1", "1.0.0", registry.driver("pi").install.version])
def test_strict_takes_every_version_in_the_range_that_was_tried(chooses: Chooses, version: str) -> None:
    assert chooses("pi", version, strict=True).program.version == version


@pytest.mark.parametrize("version", ["0.87.0", "99.0.0"])
def test_strict_refuses_what_is_outside_of_the_range_and_names_it(chooses: Chooses, version: str) -> None:
    newest = registry.driver("pi").install.version
    with pytest.raises(AgentUntested) as caught:
        chooses("pi", version, strict=True)
    assert caught.value.message == f"Pi {version} was never tried: the matrix was run from 0.87.1 to {newest}."
    assert chooses("pi", version).program.version == version
