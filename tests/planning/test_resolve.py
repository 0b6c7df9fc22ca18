"""What is chosen for a task, and refused, before anything is written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.agents import registry
from inspan.errors import AgentUntested, BadInput
from inspan.planning.resolve import Choice, resolve_task
from inspan.protocol.task import Task

_BOXED = [driver.name for driver in registry.load_drivers() if driver.capabilities.review_needs_sandbox]
Chooses = Callable[..., Choice]


@pytest.fixture
def choose_agent(tmp_path: Path) -> Chooses:
    """Chooses for an agent whose program says that it is of the version that was tried, or of the one given."""

    def choose_for(agent: str, version: str = "", env: dict[str, str] | None = None, **fields: Any) -> Choice:
        driver = registry.find_driver(agent)
        said = _version_output(agent, version or driver.program.install.version)
        path = tmp_path / driver.program.command
        path.write_text(f"#!/bin/sh\necho '{said}'\n")
        path.chmod(0o755)
        given = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], driver.program_variable: str(path)}
        given |= {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "DATA", "STATE")}
        task = Task(prompt="do it", cwd=str(tmp_path), agent=agent, profile="user", **fields)
        return resolve_task(task, {**given, **(env or {})})

    return choose_for


def _version_output(agent: str, version: str) -> str:
    """What the program of an agent prints for a version."""
    words = registry.find_driver(agent).program.version_pattern
    forms = ("{}", "codex-cli {}", "{} (Claude Code)", "GitHub Copilot CLI {}.", " {}", "v{}")
    return next(form.format(version) for form in forms if words.search(form.format(version)))


@pytest.mark.parametrize("agent", _BOXED)
def test_an_agent_that_does_not_keep_a_review_from_writing_gets_a_box(
    choose_agent: Chooses, bubblewrap: str, agent: str
) -> None:
    assert choose_agent(agent, mode="review").sandbox.name == "bwrap"
    assert choose_agent(agent, mode="review", sandbox="bwrap").sandbox.name == "bwrap"
    if not registry.find_driver(agent).capabilities.root_needs_sandbox:
        assert choose_agent(agent, mode="exec").sandbox.name == "none"
    with pytest.raises(BadInput, match="itself does not keep a review from writing") as caught:
        choose_agent(agent, mode="review", sandbox="none")
    assert caught.value.next_step == "Leave --sandbox out, or use --sandbox bwrap."


def test_some_agent_needs_a_box_for_a_review_and_some_does_not(choose_agent: Chooses) -> None:
    assert _BOXED
    assert choose_agent("codex", mode="review").sandbox.name == "none"


@pytest.mark.parametrize("agent", ["opencode", "copilot"])
def test_a_models_other_name_is_replaced_before_its_provider_is_chosen(choose_agent: Chooses, agent: str) -> None:
    choice = choose_agent(agent, model="sonnet", env={"OPENAI_API_KEY": "sk-0123456789abcdef"})
    assert (choice.task.model, choice.provider) == (registry.find_driver(agent).models["sonnet"], "anthropic")
    assert choice.driver.provider.wire == "messages"


def test_a_name_that_the_program_knows_itself_is_left_to_it(choose_agent: Chooses) -> None:
    assert choose_agent("opencode", model="openai/gpt-x").task.model == "openai/gpt-x"
    assert choose_agent("codex", model="sonnet").task.model == "sonnet"


@pytest.mark.parametrize("version", ["0.87.1", "1.0.0", registry.find_driver("pi").program.install.version])
def test_strict_takes_every_version_in_the_range_that_was_tried(choose_agent: Chooses, version: str) -> None:
    assert choose_agent("pi", version, strict=True).program.version == version


@pytest.mark.parametrize("version", ["0.87.0", "99.0.0"])
def test_strict_refuses_what_is_outside_of_the_range_and_names_it(choose_agent: Chooses, version: str) -> None:
    newest = registry.find_driver("pi").program.install.version
    with pytest.raises(AgentUntested) as caught:
        choose_agent("pi", version, strict=True)
    assert caught.value.message == f"Pi {version} was not tested: the matrix was run from 0.87.1 to {newest}."
    assert choose_agent("pi", version).program.version == version


_AT_HOME = "http://models.example:8080/v1"


@pytest.mark.parametrize(
    ("agent", "env", "place"),
    [
        ("codex", {}, "api.openai.com"),
        ("codex", {"OPENAI_API_KEY": "sk-0123456789abcdef"}, "api.openai.com"),
        ("codex", {"OPENAI_API_KEY": "sk-0123456789abcdef", "OPENAI_BASE_URL": _AT_HOME}, "models.example:8080"),
        ("claude", {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}, "api.anthropic.com"),
    ],
)
def test_a_list_of_hosts_without_the_model_is_refused_where_no_gateway_leads_to_it(
    choose_agent: Chooses, bubblewrap: str, agent: str, env: dict[str, str], place: str
) -> None:
    """An agent would try to reach it until its time is over."""
    with pytest.raises(BadInput, match=f"the agent's model is at {place}, without the gateway") as caught:
        choose_agent(agent, model_from="direct", net="allow=example.org", env=env)
    assert f"--net allow=example.org,{place}," in caught.value.next_step
    found = choose_agent(agent, model_from="direct", net=f"allow=example.org,{place}", env=env)
    assert found.network.reach == "allow"
    assert choose_agent(agent, model_from="direct", net="open", env=env).network.is_open


def test_a_list_of_hosts_is_taken_where_only_the_agent_knows_its_model(choose_agent: Chooses, bubblewrap: str) -> None:
    copilot = {"COPILOT_GITHUB_TOKEN": "github_pat_0123456789abcdef"}
    assert choose_agent("copilot", model_from="direct", net="allow=example.org", env=copilot).network.reach == "allow"
    bedrock = {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}
    assert choose_agent("claude", model_from="direct", net="allow=example.org", env=bedrock).network.reach == "allow"
