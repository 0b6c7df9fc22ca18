"""Every way in which a run can go wrong has its class of error; for the real agents too."""

import asyncio
import time
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import inspan
from inspan import AgentResult, Limits
from inspan.errors import (
    AgentEnvironmentError,
    AgentFailed,
    AgentMissing,
    AuthenticationError,
    InvalidResponseError,
    NetworkError,
    RateLimitError,
    RunCancelled,
    RunTimedOut,
    ToolPermissionError,
)
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS

from .run_env import RunEnv, wait_until_async

# Every reason but `done`: a new one needs a row here.
CLASSES: dict[Reason, type[AgentFailed]] = {
    "authentication": AuthenticationError,
    "rate_limit": RateLimitError,
    "overloaded": NetworkError,
    "network": NetworkError,
    "invalid_response": InvalidResponseError,
    "unfit_answer": InvalidResponseError,
    "environment": AgentEnvironmentError,
    "crashed": AgentEnvironmentError,
    "session_not_found": AgentEnvironmentError,
    "tool_permission": ToolPermissionError,
    "interrupted": RunCancelled,
    "stopped": RunCancelled,
    "killed": RunCancelled,
    "run_timeout": RunTimedOut,
    "idle_timeout": RunTimedOut,
    "start_timeout": RunTimedOut,
    "model_stall": RunTimedOut,
    "stuck": RunTimedOut,
    "context_too_long": AgentFailed,
    "model_not_found": AgentFailed,
    "refused": AgentFailed,
    "max_turns": AgentFailed,
    "budget": AgentFailed,
    "guard": AgentFailed,
    "unanswered": ToolPermissionError,
    "script": AgentFailed,
    "store": AgentFailed,
    "harness": AgentFailed,
    "supervisor_lost": AgentFailed,
    "max_restarts": AgentFailed,
    "no_progress": AgentFailed,
    "no_verdict": AgentFailed,
    "node_failed": AgentFailed,
    "unknown": AgentFailed,
}
RESETS_AT = 4102444800
TOO_LONG = {
    "claude": 'message = "prompt is too long: 210000 tokens > 200000 maximum"',
    "codex": 'type = "context_length_exceeded", message = "Your input exceeds the context window of this model."',
}
both = pytest.mark.parametrize("agent", ["claude", "codex"])


def test_the_table_has_every_reason() -> None:
    assert {*CLASSES, "done"} == set(get_args(Reason))


@pytest.mark.parametrize("reason", CLASSES)
def test_a_run_that_did_not_complete_raises_its_class_when_checked_and_not_before(reason: Reason) -> None:
    result = AgentResult(
        run_id="r-1",
        agent="anyone",
        outcome=REASONS[reason].outcome,
        reason=reason,
        error="It broke.",
        next_step="Mend it.",
        exit_code=3,
    )
    assert REASONS[reason].error is CLASSES[reason]
    (held,) = result.errors
    with pytest.raises(AgentFailed) as caught:
        result.check()
    for error in (held, caught.value):
        assert type(error) is CLASSES[reason]
        assert (error.reason, error.run_id, error.message, error.next_step, error.tried, error.came_back) == (
            reason,
            "r-1",
            "It broke.",
            "Mend it.",
            "run r-1 by anyone",
            f"{REASONS[reason].outcome} ({reason}), exit code 3",
        )
    assert str(held) == "It broke. Mend it."


@both
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param("fail = {status = 401}", "authentication", id="401"),
        pytest.param("fail = {status = 529}", "overloaded", id="529"),
        pytest.param('say = "so far"\ncut = true', "network", id="cut"),
        pytest.param('garbage = "<html>Bad gateway</html>"', "invalid_response", id="garbage"),
        pytest.param("fail = {status = 400, TOO_LONG}", "context_too_long", id="context"),
    ],
)
def test_what_a_real_agent_makes_of_a_failing_model_has_its_class(
    agents: RunEnv, agent: str, call: str, reason: Reason
) -> None:
    result = _run(agents, agent, f"[[call]]\n{call.replace('TOO_LONG', TOO_LONG[agent])}\nrepeat = 'always'\n")
    assert (result.ok, result.reason) == (False, reason)
    error = result.errors[0]
    assert type(error) is CLASSES[reason]
    assert error.message and error.next_step
    assert "Traceback" not in f"{error.message}{error.came_back}"


@both
def test_a_real_agents_rate_limit_tells_its_reset(agents: RunEnv, agent: str) -> None:
    headers = f'headers = {{anthropic-ratelimit-unified-reset = "{RESETS_AT}"}}'
    result = _run(agents, agent, f"[[call]]\nfail = {{status = 429, {headers}}}\nrepeat = 'always'\n")
    assert (result.outcome, result.reason) == ("limited", "rate_limit")
    assert result.rate_limit_hit and result.rate_limit_hit.reason
    assert result.rate_limit_hit.resets_at == RESETS_AT > time.time()
    (error,) = result.errors
    assert isinstance(error, RateLimitError)
    assert (error.resets_at, error.retry_helps) == (RESETS_AT, True)


@both
def test_a_missing_program_is_raised_before_anything_is_claimed(
    agents: RunEnv, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"INSPAN_{agent.upper()}_BIN", "/no/such/program")
    with pytest.raises(AgentMissing) as caught:
        _run(agents, agent, "[[call]]\nsay = 'never'\n")
    assert (caught.value.code, caught.value.retry_helps) == ("agent_missing", False)
    assert "/no/such/program" in caught.value.message and caught.value.next_step
    assert agents.list_leftovers() == []


@both
def test_a_real_agents_denied_call_is_a_tool_permission_error_with_the_call(agents: RunEnv, agent: str) -> None:
    write = '[[call]]\nwrite = {path = "new.txt", content = "new\\n"}\n[[call]]\nsay = "I could not."\n'
    asked = inspan.create_agent_runner(agent, profile="clean", cwd=agents.work, model_from=agents.scenario(write))
    if agent == "claude":
        use = '[[call]]\nuse = {tool = "Bash", input = {command = "touch new.txt"}}\n[[call]]\nsay = "I could not."\n'
        result = asyncio.run(
            asked.exec("write it", allowed_tools=["Read", "Bash(git *)"], model_from=agents.scenario(use))
        )
    else:
        result = asyncio.run(asked.review("write it"))
    assert (result.ok, result.message) == (True, "I could not.")
    assert not (agents.work / "new.txt").exists()
    (error,) = result.errors
    assert isinstance(error, ToolPermissionError)
    assert [call.name for call in result.denied] == [{"claude": "Bash", "codex": "apply_patch"}[agent]]
    assert error.denied == result.denied
    assert result.denied[0].message


@both
def test_a_real_agent_that_takes_too_long_has_timed_out(agents: RunEnv, agent: str) -> None:
    result = _run(agents, agent, "[[call]]\nstall = 'before-headers'\nrepeat = 'always'\n", limits=Limits(timeout_s=2))
    assert (result.outcome, result.reason) == ("timed_out", "run_timeout")
    (error,) = result.errors
    assert type(error) is RunTimedOut
    assert error.message == "the run took longer than 2 s"


@both
def test_a_real_agent_that_is_stopped_was_cancelled(agents: RunEnv, agent: str) -> None:
    scenario = "[[call]]\nrun = 'touch started; sleep 600'\n[[call]]\nsay = 'never'\nrepeat = 'always'\n"
    task = msgspec.structs.replace(agents.task, agent=agent, profile="clean", model_from=agents.scenario(scenario))

    async def scene() -> AgentResult:
        run = await inspan.start(task)
        await wait_until_async((agents.work / "started").exists, "tool")
        assert await run.stop(now=True)
        return await run.wait()

    result = asyncio.run(scene())
    (error,) = result.errors
    assert (type(error), error.reason, result.outcome) == (RunCancelled, "killed", "cancelled")


@both
def test_a_real_agent_whose_folder_vanishes_comes_to_an_honest_end(agents: RunEnv, agent: str) -> None:
    scenario = "[[call]]\nrun = 'touch started; sleep 0.3; ls'\n[[call]]\nrun = 'ls'\n[[call]]\nsay = 'Gone.'\n"
    task = msgspec.structs.replace(
        agents.task, agent=agent, profile="clean", model_from=agents.scenario(scenario), limits=Limits(timeout_s=60)
    )

    async def scene() -> AgentResult:
        call = asyncio.create_task(inspan.run(task))
        await wait_until_async((agents.work / "started").exists, "tool")
        (agents.work / "started").unlink()
        Path(agents.work).rmdir()
        return await call

    result = asyncio.run(scene())
    assert result.reason not in ("harness", "store", "unknown"), result
    assert result.ok or (result.error and result.next_step)
    assert "Traceback" not in result.error
    assert agents.has_ended()


def _run(run_env: RunEnv, agent: str, scenario: str, *, limits: Limits | None = None) -> AgentResult:
    runner = inspan.create_agent_runner(agent, profile="clean", cwd=run_env.work, model_from=run_env.scenario(scenario))
    return asyncio.run(runner.exec("do it", limits=limits or Limits(timeout_s=120)))
