"""What would stop a run is found before there is one, in sentences that say what to do; and it is quick."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import inspan
from inspan.errors import (
    AgentMissing,
    AgentTooOld,
    BadInput,
    CredentialsMissing,
    InspanError,
    KeyUnusable,
    NotAnAgent,
    SessionNotFound,
    Unsupported,
)
from inspan.protocol.task import Task
from tests.cli_env import wait_until
from tests.running.fake_agent import Fake

from .conftest import Play
from .run_env import RunEnv

_WARM_S = 0.020
Make = Callable[[RunEnv, Fake], dict[str, str]]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_everything_that_a_run_would_use_is_told(agents: RunEnv, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}[agent]
    monkeypatch.setenv(variable, "key-of-the-user-0123")
    found = inspan.create_agent_runner(agent, cwd=agents.work).validate_environment()
    assert (found.agent, found.program) == (agent, os.environ[f"INSPAN_{agent.upper()}_BIN"])
    assert found.version.count(".") == 2
    assert (found.access, found.root) == (f"key in {variable}", os.geteuid() == 0)
    assert set(found.helpers) == {"git", "bwrap"}
    assert "key-of-the-user-0123" not in str(found)
    assert agents.list_leftovers() == []


@pytest.mark.parametrize(("agent", "variable"), [("xai", "XAI_API_KEY"), ("perplexity", "PERPLEXITY_API_KEY")])
def test_an_agent_that_only_completes_is_looked_at_as_that(
    run_env: RunEnv, agent: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "key-of-the-user-0123")
    found = inspan.create_agent_runner(agent, cwd=run_env.work).validate_environment()
    assert (found.agent, found.access) == (agent, f"key in {variable}")


def test_a_task_is_looked_at_as_a_whole(agents: RunEnv) -> None:
    task = msgspec.structs.replace(agents.task, model_from=agents.scenario('[[call]]\nsay = "x"\n'))
    found = inspan.validate_environment(task)
    assert (found.agent, found.access) == ("codex", f"model from {task.model_from}")


def test_nobody_logged_in_is_a_warning_where_the_agent_itself_may_know_better(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); finish()")
    found = inspan.create_agent_runner("codex", cwd=run_env.work).validate_environment()
    assert found.access == "no key and no login found"
    assert any("No key and no login was found" in warning for warning in found.warnings)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_it_is_quick_once_it_has_been_asked(agents: RunEnv, agent: str) -> None:
    runner = inspan.create_agent_runner(agent, cwd=agents.work, model_from=agents.scenario('[[call]]\nsay = "x"\n'))
    runner.validate_environment()

    def is_quick() -> bool:
        began = time.perf_counter()
        runner.validate_environment()
        return time.perf_counter() - began < _WARM_S

    wait_until(is_quick, "quick one of many: others share this machine")


def _missing(run_env: RunEnv, fake: Fake) -> dict[str, str]:
    return {"INSPAN_CODEX_BIN": "/no/such/program"}


def _too_old(run_env: RunEnv, fake: Fake) -> dict[str, str]:
    return {"INSPAN_CODEX_BIN": fake("old", "print('codex-cli 0.1.0')\n")}


def _no_agent(run_env: RunEnv, fake: Fake) -> dict[str, str]:
    return {"INSPAN_CODEX_BIN": fake("other", "print('hello')\n")}


def _no_program(run_env: RunEnv, fake: Fake) -> dict[str, str]:
    path = run_env.root / "notes"
    path.write_text("no program\n")
    return {"INSPAN_CODEX_BIN": str(path)}


@pytest.mark.parametrize(
    ("make", "kind", "code"),
    [
        (_missing, AgentMissing, "agent_missing"),
        (_too_old, AgentTooOld, "agent_too_old"),
        (_no_agent, NotAnAgent, "not_an_agent"),
        (_no_program, NotAnAgent, "not_an_agent"),
    ],
)
def test_a_program_that_cannot_do_the_work_is_refused_with_the_next_step(
    run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch, make: Make, kind: type[InspanError], code: str
) -> None:
    for name, value in make(run_env, fake).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(kind) as caught:
        inspan.validate_environment(run_env.task)
    assert (caught.value.code, caught.value.retry_helps) == (code, False)
    assert "INSPAN_CODEX_BIN" in str(caught.value) or "inspan agents install codex" in caught.value.next_step
    assert run_env.list_leftovers() == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param({"profile": "clean"}, CredentialsMissing, id="neither key nor login"),
        pytest.param({"login": True}, CredentialsMissing, id="no login"),
        pytest.param({"key_from": "env:NOBODY_SET_THIS"}, KeyUnusable, id="no key in a variable"),
        pytest.param({"key_from": "cmd:exit 3"}, KeyUnusable, id="a key command that fails"),
        pytest.param({"key_from": "nowhere:x"}, BadInput, id="unknown key source"),
        pytest.param({"allowed_tools": ("Read",)}, Unsupported, id="what the agent cannot do"),
        pytest.param({"resume": "nobody", "profile": "clean"}, SessionNotFound, id="no such session"),
        pytest.param({"cwd": "/no/such/folder"}, BadInput, id="no such folder"),
        pytest.param({"sandbox": "cardboard"}, BadInput, id="unknown sandbox"),
        pytest.param({"model_from": "script:/no/such/file"}, InspanError, id="no such scenario"),
    ],
)
def test_what_else_would_stop_a_run_is_refused_with_the_next_step(
    run_env: RunEnv, use_fake_agent: Play, change: dict[str, Any], kind: type[InspanError]
) -> None:
    use_fake_agent("begin(); finish()")
    task: Task = msgspec.structs.replace(run_env.task, **change)
    with pytest.raises(kind) as caught:
        inspan.validate_environment(task)
    assert caught.value.message and caught.value.next_step
    assert run_env.list_leftovers() == []


def test_what_root_may_not_do_is_refused_with_the_next_step(agents: RunEnv) -> None:
    task = msgspec.structs.replace(
        agents.task, agent="claude", sandbox="none", model_from=agents.scenario('[[call]]\nsay = "x"\n')
    )
    if os.geteuid():
        assert inspan.validate_environment(task).root is False
        return
    with pytest.raises(BadInput) as caught:
        inspan.validate_environment(task)
    assert str(caught.value) == (
        "sandbox 'none': Claude Code refuses to run unrestricted as root. "
        "Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user."
    )


def test_missing_helpers_are_told(agents: RunEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Path(agents.root / "empty")
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("INSPAN_CONTAINMENT", "reaper")
    task = msgspec.structs.replace(agents.task, model_from=agents.scenario('[[call]]\nsay = "x"\n'))
    found = inspan.validate_environment(task)
    assert "git was not found." in found.warnings
    assert found.helpers["git"] == ""
