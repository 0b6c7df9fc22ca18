"""Limits hold whatever the agent does: a model that falls silent, a run that takes too long, one that says nothing."""

import pytest

from inspan.protocol.usage import Usage
from tests.house import House

from .family import hanging_family
from .proof import End, prove
from .styles import NONE_USED, PER_CALL, Style, each_agent

MODEL_STALL = End(outcome="timed_out", reason="model_stall", code=124)
RUN_TIMEOUT = End(outcome="timed_out", reason="run_timeout", code=124)
IDLE_TIMEOUT = End(outcome="timed_out", reason="idle_timeout", code=124)
WORK = '[[call]]\nrun = "echo hi"\n'


@each_agent
def test_a_model_that_never_answers_ends_the_run(house: House, style: Style) -> None:
    scenario = '[[call]]\nstall = "before-headers"\nrepeat = "always"\n'
    _run_into(house, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=NONE_USED)


@each_agent
def test_a_model_that_falls_silent_ends_the_run(house: House, style: Style) -> None:
    scenario = '[[call]]\nsay = "so far"\nstall = "mid-stream"\nrepeat = "always"\n'
    _run_into(house, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=style.told_early)


@each_agent
def test_a_model_that_falls_silent_after_work_keeps_the_tokens_of_the_work(house: House, style: Style) -> None:
    scenario = WORK + '[[call]]\nsay = "so far"\nstall = "mid-stream"\nrepeat = "always"\n'
    usage = PER_CALL + style.told_early
    _run_into(house, style, scenario, "--stall-timeout", "2s", end=MODEL_STALL, usage=usage)


@each_agent
def test_a_silent_model_does_not_keep_a_run_beyond_its_time(house: House, style: Style) -> None:
    scenario = '[[call]]\nstall = "before-headers"\nrepeat = "always"\n'
    limits = ("--timeout", "2s", "--stall-timeout", "off")
    _run_into(house, style, scenario, *limits, end=RUN_TIMEOUT, usage=NONE_USED)


@each_agent
@pytest.mark.parametrize(
    ("option", "end"), [("--timeout=3s", RUN_TIMEOUT), ("--idle-timeout=2s", IDLE_TIMEOUT)], ids=str
)
def test_a_tool_that_hangs_is_ended_with_its_children_at_the_limit(
    house: House, style: Style, option: str, end: End
) -> None:
    _run_into(house, style, hanging_family(house), option, end=end)


def _run_into(house: House, style: Style, scenario: str, *limit: str, end: End, usage: Usage | None = None) -> None:
    run = house.run(style.agent, scenario, *style.arguments, *limit)
    assert run.code == end.code, run.stderr
    began = [event["reason"] for event in run.of("ending_began")]
    assert began == [end.reason]
    # A slow machine may pass the limit before the first call; what was used by then is what the gateway saw.
    prove(house, run.run_id, end=end, usage=_seen(run.of("model_call_ended")) if usage is None else usage)


def _seen(calls: list[dict[str, dict[str, int]]]) -> Usage:
    return sum((Usage(**call.get("usage", {})) for call in calls), NONE_USED)
