"""Every scenario of the matrix can fail: a faultless actor passes each, and one with a fault does not."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.testing.matrix.cell import Unmet
from inspan.testing.matrix.scenario import scenarios

from .actor import Actor, Event, Fault

ALL = {scenario.name: scenario for scenario in scenarios()}


def faulty(fault: Fault) -> dict[str, Any]:
    return {"fault": fault}


def without(kind: str) -> dict[str, Any]:
    return faulty(lambda events: [event for event in events if event["kind"] != kind])


def twice(kind: str) -> dict[str, Any]:
    return faulty(lambda events: [each for event in events for each in [event] * (1 + (event["kind"] == kind))])


def changed(kind: str, /, **fields: Any) -> dict[str, Any]:
    def change(events: list[Event]) -> list[Event]:
        return [{**event, **fields} if event["kind"] == kind else event for event in events]

    return faulty(change)


def added(**event: Any) -> dict[str, Any]:
    return faulty(lambda events: [*events[:-1], event, events[-1]])


def ended(**fields: Any) -> dict[str, Any]:
    return changed("run_ended", **fields)


def habit(*names: str) -> dict[str, Any]:
    return {"habits": " ".join(names)}


_FAILED = ended(outcome="failed", reason="crashed")
_DONE = ended(outcome="completed", reason="done")
_NOT_DONE = [_FAILED, {"code": 1}]
_NO_TEXT = [without("text_said"), twice("text_said"), changed("text_said", text="other words")]
# A provider that fails: taken for a success, for another failure, asked again and again, left without a next step.
_FAILING = [_DONE, ended(reason="crashed"), habit("asks-often"), ended(next=""), {"code": 0}]
# The scenario → faults, each of which it must notice.
FAULTS: dict[str, list[dict[str, Any]]] = {
    "answer": [*_NOT_DONE, *_NO_TEXT],
    "reasoning": [*_NOT_DONE, *_NO_TEXT, without("reasoning_said"), changed("reasoning_said", text="…")],
    "unicode": [
        *_NOT_DONE,
        without("text_said"),
        changed("text_said", text="a?b"),
        without("tool_completed"),
        changed("tool_completed", output="a\nb"),
    ],
    "shell": [
        *_NOT_DONE,
        habit("idle"),
        without("tool_started"),
        without("tool_completed"),
        without("command_executed"),
        twice("tool_completed"),
        changed("tool_started", id="another"),
        changed("tool_completed", output=""),
        changed("command_executed", exit_code=None),
        changed("command_executed", exit_code=1),
        changed("command_executed", command="ls"),
    ],
    "write": [
        *_NOT_DONE,
        habit("idle"),
        without("file_changed"),
        twice("file_changed"),
        changed("file_changed", path="new.txt"),
        changed("file_changed", change="modified"),
    ],
    "edit": [
        *_NOT_DONE,
        habit("idle"),
        without("file_changed"),
        changed("file_changed", change="added"),
        ended(files_changed=[]),
    ],
    "failing_command": [
        *_NOT_DONE,
        without("command_executed"),
        changed("command_executed", exit_code=0),
        without("tool_failed"),
        changed("tool_failed", kind="tool_completed"),
        changed("tool_failed", output=""),
    ],
    "long_output": [
        *_NOT_DONE,
        *_NO_TEXT,
        without("tool_completed"),
        twice("tool_completed"),
        changed("tool_completed", output=""),
    ],
    "extra_tools": [*_NOT_DONE, without("tool_completed"), changed("tool_completed", output="hello")],
    "resume": [
        *_NOT_DONE,
        *_NO_TEXT,
        habit("forgets"),
        faulty(lambda events: [*events[:-1], {**events[-1], "session_id": events[0]["run_id"]}]),
        faulty(lambda events: [*events[:-1], {**events[-1], "usage": {"input": int(events[0]["run_id"][-1])}}]),
    ],
    "fork": [*_NOT_DONE, habit("forgets"), habit("fork-in-place"), habit("forks-into-the-old")],
    "system_prompt": [*_NOT_DONE, *_NO_TEXT, habit("deaf")],
    "append_system_prompt": [*_NOT_DONE, *_NO_TEXT, habit("deaf")],
    "model": [*_NOT_DONE, habit("own-model"), without("model_call_ended")],
    "budget": [
        _DONE,
        ended(reason="max_turns"),
        {"code": 1},
        habit("counts-badly"),
        without("budget_refused"),
        twice("budget_refused"),
    ],
    "max_turns": [_DONE, ended(outcome="limited", reason="budget"), habit("counts-badly"), without("model_call_ended")],
    "review": [*_NOT_DONE, without("text_said"), habit("writes-anyway"), changed("text_said", text="Done.")],
    "complete": [
        *_NOT_DONE,
        without("text_said"),
        habit("always-tools", "writes-anyway"),
        added(kind="tool_completed"),
    ],
    "schema": [
        *_NOT_DONE,
        without("answer_given"),
        changed("answer_given", text='{"colour": "red", "count": "3"}'),
        changed("answer_given", text='{"colour": "red"}'),
    ],
    **{f"status_{status}": _FAILING for status in (401, 429, 500, 529)},
    "cut": _FAILING,
    "garbage": [*_FAILING, added(kind="text_said", text="<html>Bad gateway</html>")],
    "stall": [_DONE, _FAILED, ended(reason="run_timeout")],
    "timeout": [_DONE, _FAILED, ended(reason="model_stall"), {"code": 1}],
    "cancel": [habit("does-not-stop"), _DONE, ended(reason="killed")],
    "kill": [habit("does-not-stop"), _DONE, ended(reason="stopped")],
    "secret": [
        *_NOT_DONE,
        changed("text_said", text="It is mtx-7Qw9Zr4Kt2Lp8Vb6Ny3."),
        changed("tool_completed", output="mtx-7Qw9Zr4Kt2Lp8Vb6Ny3"),
        without("tool_completed"),
        habit("prints-secrets"),
        habit("keeps-secrets"),
    ],
    "usage": [
        *_NOT_DONE,
        without("model_call_ended"),
        twice("model_call_ended"),
        *(
            changed("model_call_ended", usage={"input": 1500, "output": 60, "cache_read": 350, "reasoning": 12, **one})
            for one in ({"input": 1}, {"output": 1}, {"cache_read": 1}, {"reasoning": 1})
        ),
        added(kind="usage_differs", told={}, measured={}),
        without("turn_completed"),
    ],
    "transcript": [
        *_NOT_DONE,
        *(
            habit(f"transcript-without-{kind}")
            for kind in (
                "text_said",
                "reasoning_said",
                "tool_started",
                "tool_completed",
                "command_executed",
                "turn_completed",
            )
        ),
    ],
    "two_at_once": [*_NOT_DONE, changed("text_said", text="one"), without("text_said")],
}
CASES = [(name, number) for name, faults in FAULTS.items() for number in range(len(faults))]


def _resets_at(moment: float) -> Fault:
    return changed("run_ended", resets_at=moment)["fault"]


@pytest.mark.parametrize("name", ALL)
def test_a_faultless_agent_meets_a_scenario(tmp_path: Path, name: str) -> None:
    ALL[name].check(Actor(tmp_path))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_scenario_notices_a_fault(tmp_path: Path, name: str, number: int) -> None:
    with pytest.raises(Unmet) as caught:
        ALL[name].check(Actor(tmp_path, **FAULTS[name][number]))
    assert str(caught.value)


@pytest.mark.parametrize("moment", [0.0, 1.0, 4e9])
def test_a_limit_must_be_told_with_the_moment_at_which_it_resets(tmp_path: Path, moment: float) -> None:
    with pytest.raises(Unmet, match="the limit was told to reset at"):
        ALL["status_429"].check(Actor(tmp_path, fault=_resets_at(moment)))


def test_no_scenario_is_without_a_fault_that_it_notices() -> None:
    assert sorted(FAULTS) == sorted(ALL)


@pytest.mark.parametrize("field", ["name", "output", "text", "usage"])
def test_a_transcript_must_have_the_same_tools_texts_and_tokens(tmp_path: Path, field: str) -> None:
    other = "{}" if field == "usage" else '"other"'
    with pytest.raises(Unmet, match=r"^(transcript|tokens|no tokens)"):
        ALL["transcript"].check(_Forgetful(tmp_path, field, other))


class _Forgetful(Actor):
    """Keeps another value of one field than the one that it told."""

    def __init__(self, root: Path, field: str, value: str) -> None:
        super().__init__(root)
        self._changed = (f'"{field}": ', f'"{field}": {value}, "told": ')

    def order(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = super().order(*words)
        done.stdout = done.stdout.replace(*self._changed)
        return done
