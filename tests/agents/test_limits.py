"""Limits hold whatever the agent does: a model that falls silent, a run that takes too long, one that says nothing."""

import pytest

from inspan.protocol.usage import Usage
from tests.cli_env import CliEnv

from .child_processes import hanging_scenario
from .run_checks import End, check_end
from .styles import NONE_USED, PER_CALL, Style, each_agent

MODEL_STALL = End(outcome="timed_out", reason="model_stall", code=124)
RUN_TIMEOUT = End(outcome="timed_out", reason="run_timeout", code=124)
IDLE_TIMEOUT = End(outcome="timed_out", reason="idle_timeout", code=124)
WORK = '[[call]]\nrun = "echo hi"\n'


@each_agent
def test_a_model_that_never_answers_ends_the_run(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nstall = "before-headers"\nrepeat = "always"\n'
    _run_into(cli_env, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=NONE_USED)


@each_agent
def test_a_model_that_falls_silent_ends_the_run(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nsay = "so far"\nstall = "mid-stream"\nrepeat = "always"\n'
    _run_into(cli_env, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=style.told_early)


@each_agent
def test_a_model_that_falls_silent_after_work_keeps_the_tokens_of_the_work(cli_env: CliEnv, style: Style) -> None:
    scenario = WORK + '[[call]]\nsay = "so far"\nstall = "mid-stream"\nrepeat = "always"\n'
    usage = PER_CALL + style.told_early
    _run_into(cli_env, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=usage)


@each_agent
def test_a_silent_model_does_not_keep_a_run_beyond_its_time(cli_env: CliEnv, style: Style) -> None:
    scenario = '[[call]]\nstall = "before-headers"\nrepeat = "always"\n'
    limits = ("--timeout", "2s", "--stall-timeout", "off")
    _run_into(cli_env, style, scenario, *limits, end=RUN_TIMEOUT, usage=NONE_USED)


@each_agent
@pytest.mark.parametrize(
    ("option", "end"), [("--timeout=3s", RUN_TIMEOUT), ("--idle-timeout=2s", IDLE_TIMEOUT)], ids=str
)
def test_a_tool_that_hangs_is_ended_with_its_children_at_the_limit(
    cli_env: CliEnv, style: Style, option: str, end: End
) -> None:
    _run_into(cli_env, style, hanging_scenario(cli_env), option, end=end)


def _run_into(cli_env: CliEnv, style: Style, scenario: str, *limit: str, end: End, usage: Usage | None = None) -> None:
    run = cli_env.run(style.agent, scenario, *style.arguments, *limit)
    assert run.code == end.code, run.stderr
    began = [event["reason"] for event in run.select_events("ending_began")]
    assert began == [end.reason]
    # A slow machine may pass the limit before the first call; what was used by then is what the gateway saw.
    check_end(
        cli_env,
        run.run_id,
        end=end,
        usage=_sum_usage(run.select_events("model_call_ended")) if usage is None else usage,
    )


def _sum_usage(calls: list[dict[str, dict[str, int]]]) -> Usage:
    return sum((Usage(**call.get("usage", {})) for call in calls), NONE_USED)
