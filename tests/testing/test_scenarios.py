"""Every scenario of the matrix can fail: a faultless actor passes each, and one with a fault does not."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.contracts.driver import Support
from inspan.testing.matrix.cell import NotEnforced, ScenarioFailed
from inspan.testing.matrix.scenario import list_scenarios

from .fake_cell_environment import Event, FakeCellEnvironment, Fault

# An actor plays one prompt; conversations, and programs with tools of their own, are for the real agents.
LIVE = {"open_session", "interrupt_turn", "ask_permission", "own_tool"}
ALL = {scenario.name: scenario for scenario in list_scenarios() if scenario.name not in LIVE}


def with_fault(fault: Fault) -> dict[str, Any]:
    return {"fault": fault}


def without_kind(kind: str) -> dict[str, Any]:
    return with_fault(lambda events: [event for event in events if event["kind"] != kind])


def repeat_kind(kind: str) -> dict[str, Any]:
    return with_fault(lambda events: [each for event in events for each in [event] * (1 + (event["kind"] == kind))])


def change_kind(kind: str, /, **fields: Any) -> dict[str, Any]:
    def change(events: list[Event]) -> list[Event]:
        return [{**event, **fields} if event["kind"] == kind else event for event in events]

    return with_fault(change)


def add_event(**event: Any) -> dict[str, Any]:
    return with_fault(lambda events: [*events[:-1], event, events[-1]])


def change_end(**fields: Any) -> dict[str, Any]:
    return change_kind("run_ended", **fields)


def habit(*names: str) -> dict[str, Any]:
    return {"habits": " ".join(names)}


_FAILED = change_end(outcome="failed", reason="crashed")
_DONE = change_end(outcome="completed", reason="done")
_NOT_DONE = [_FAILED, {"code": 1}]
_NO_TEXT = [without_kind("text_said"), repeat_kind("text_said"), change_kind("text_said", text="other words")]
# A provider that fails: taken for a success, for another failure, asked again and again, left without a next step.
_FAILING = [_DONE, change_end(reason="crashed"), habit("asks-often"), change_end(next=""), {"code": 0}]
# A tool that is left in `complete`: it writes, it runs where it cannot write, it answers, nobody knows what it did.
_TOOLS_USED = [
    habit("keeps-shell", "writes-anyway"),
    habit("keeps-shell", "runs-in-a-box"),
    habit("keeps-shell", "ignores-calls"),
    habit("keeps-shell", "carries-out"),
    habit("keeps-reader", "carries-out"),
    habit("keeps-reader", "ignores-calls"),
    habit("keeps-built-in"),
    add_event(kind="tool_completed"),
    add_event(kind="command_executed"),
]
# Another box than the one that was asked for.
_OTHER_BOX = [change_kind("run_started", **one) for one in ({"sandbox": "none"}, {"private": False}, {"net": "open"})]


def _refuse_everything(events: list[Event]) -> list[Event]:
    """A host on the list is told to have been refused, too."""
    host = events[0]["net"].removeprefix("allow=")
    message = f"The sandbox kept it from {host}. To allow it: --net allow={host}"
    return [*events[:-1], {"kind": "error_reported", "message": message}, events[-1]]


# The scenario → faults, each of which it must notice.
FAULTS: dict[str, list[dict[str, Any]]] = {
    "answer": [*_NOT_DONE, *_NO_TEXT],
    "reasoning": [*_NOT_DONE, *_NO_TEXT, without_kind("reasoning_said"), change_kind("reasoning_said", text="…")],
    "unicode": [
        *_NOT_DONE,
        without_kind("text_said"),
        change_kind("text_said", text="a?b"),
        without_kind("tool_completed"),
        change_kind("tool_completed", output="a\nb"),
    ],
    "shell": [
        *_NOT_DONE,
        habit("idle"),
        without_kind("tool_started"),
        without_kind("tool_completed"),
        without_kind("command_executed"),
        repeat_kind("tool_completed"),
        change_kind("tool_started", id="another"),
        change_kind("tool_completed", output=""),
        change_kind("command_executed", exit_code=None),
        change_kind("command_executed", exit_code=1),
        change_kind("command_executed", command="ls"),
    ],
    "write": [
        *_NOT_DONE,
        habit("idle"),
        without_kind("file_changed"),
        repeat_kind("file_changed"),
        change_kind("file_changed", path="new.txt"),
        change_kind("file_changed", change="modified"),
    ],
    "edit": [
        *_NOT_DONE,
        habit("idle"),
        without_kind("file_changed"),
        change_kind("file_changed", change="added"),
        change_end(files_changed=[]),
    ],
    "failing_command": [
        *_NOT_DONE,
        without_kind("command_executed"),
        change_kind("command_executed", exit_code=0),
        without_kind("tool_failed"),
        change_kind("tool_failed", kind="tool_completed"),
        change_kind("tool_failed", output=""),
    ],
    "long_output": [
        *_NOT_DONE,
        *_NO_TEXT,
        without_kind("tool_completed"),
        repeat_kind("tool_completed"),
        change_kind("tool_completed", output=""),
    ],
    "extra_tools": [*_NOT_DONE, without_kind("tool_completed"), change_kind("tool_completed", output="hello")],
    "resume": [
        *_NOT_DONE,
        *_NO_TEXT,
        habit("forgets"),
        with_fault(lambda events: [*events[:-1], {**events[-1], "session_id": events[0]["run_id"]}]),
        with_fault(lambda events: [*events[:-1], {**events[-1], "usage": {"input": int(events[0]["run_id"][-1])}}]),
    ],
    "fork": [*_NOT_DONE, habit("forgets"), habit("fork-in-place"), habit("forks-into-the-old")],
    "system_prompt": [*_NOT_DONE, *_NO_TEXT, habit("deaf")],
    "append_system_prompt": [*_NOT_DONE, *_NO_TEXT, habit("deaf")],
    "model": [*_NOT_DONE, habit("own-model"), without_kind("model_call_ended")],
    "budget": [
        _DONE,
        change_end(reason="max_turns"),
        {"code": 1},
        habit("counts-badly"),
        without_kind("budget_refused"),
        repeat_kind("budget_refused"),
    ],
    "max_turns": [
        _DONE,
        change_end(outcome="limited", reason="budget"),
        habit("counts-badly"),
        without_kind("model_call_ended"),
    ],
    "review": [
        *_NOT_DONE,
        without_kind("text_said"),
        habit("writes-anyway"),
        habit("renames", "writes-anyway"),
        change_kind("text_said", text="Done."),
        habit("late-shell"),
        habit("keeps-built-in"),
        habit("ignores-calls"),
        habit("silent-journal"),
    ],
    "complete": [*_NOT_DONE, without_kind("text_said"), habit("silent-journal"), *_TOOLS_USED],
    "schema": [
        *_NOT_DONE,
        without_kind("answer_given"),
        change_kind("answer_given", text='{"colour": "red", "count": "3"}'),
        change_kind("answer_given", text='{"colour": "red"}'),
    ],
    "boxed_work": [
        *_NOT_DONE,
        *_OTHER_BOX,
        habit("idle"),
        habit("never-edits"),
        habit("never-says-unittest"),
        habit("never-says-git"),
        habit("never-says-look_around.py"),
        habit("sees-home"),
        habit("reaches-host"),
        change_kind("tool_completed", output=""),
        add_event(kind="text_said", text="canary-5Hn2Wd8Xq"),
    ],
    "boxed_install": [
        *_NOT_DONE,
        *_OTHER_BOX,
        habit("never-says-pip"),
        habit("only-fetches"),
        habit("reaches-host"),
        habit("has-a-copy"),
        change_kind("command_executed", exit_code=0),
        change_kind("command_executed", exit_code=1),
        without_kind("error_reported"),
        change_kind("error_reported", message="The sandbox kept it from a host."),
        with_fault(_refuse_everything),
    ],
    **{f"status_{status}": _FAILING for status in (401, 429, 500, 529)},
    "cut": _FAILING,
    "garbage": [*_FAILING, add_event(kind="text_said", text="<html>Bad gateway</html>")],
    "stall": [_DONE, _FAILED, change_end(reason="run_timeout")],
    "timeout": [_DONE, _FAILED, change_end(reason="model_stall"), {"code": 1}],
    "cancel": [habit("does-not-stop"), _DONE, change_end(reason="killed")],
    "kill": [habit("does-not-stop"), _DONE, change_end(reason="stopped")],
    "secret": [
        *_NOT_DONE,
        change_kind("text_said", text="It is mtx-7Qw9Zr4Kt2Lp8Vb6Ny3."),
        change_kind("tool_completed", output="mtx-7Qw9Zr4Kt2Lp8Vb6Ny3"),
        without_kind("tool_completed"),
        habit("prints-secrets"),
        habit("keeps-secrets"),
    ],
    "usage": [
        *_NOT_DONE,
        without_kind("model_call_ended"),
        repeat_kind("model_call_ended"),
        *(
            change_kind(
                "model_call_ended", usage={"input": 1500, "output": 60, "cache_read": 350, "reasoning": 12, **one}
            )
            for one in ({"input": 1}, {"output": 1}, {"cache_read": 1}, {"reasoning": 1})
        ),
        add_event(kind="usage_differs", told={}, measured={}),
        without_kind("turn_completed"),
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
    "two_at_once": [*_NOT_DONE, change_kind("text_said", text="one"), without_kind("text_said")],
}
CASES = [(name, number) for name, faults in FAULTS.items() for number in range(len(faults))]


def _resets_at(moment: float) -> Fault:
    return change_kind("run_ended", resets_at=moment)["fault"]


@pytest.mark.parametrize("name", ALL)
def test_a_faultless_agent_meets_a_scenario(tmp_path: Path, name: str) -> None:
    ALL[name].check(FakeCellEnvironment(tmp_path))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_scenario_notices_a_fault(tmp_path: Path, name: str, number: int) -> None:
    with pytest.raises(ScenarioFailed) as caught:
        ALL[name].check(FakeCellEnvironment(tmp_path, **FAULTS[name][number]))
    assert str(caught.value)


@pytest.mark.parametrize("fault", _TOOLS_USED)
def test_an_agent_that_is_only_asked_and_uses_its_tools_is_told_as_such(tmp_path: Path, fault: dict[str, Any]) -> None:
    with pytest.raises(NotEnforced, match=r"^It is told to use no tools, and uses them all the same: "):
        ALL["complete"].check(FakeCellEnvironment(tmp_path, complete="asked", **fault))


@pytest.mark.parametrize("complete", ["yes", "asked"])
@pytest.mark.parametrize("habits", ["keeps-shell", "keeps-shell keeps-reader", "keeps-shell tells-only-the-model"])
def test_tools_on_offer_that_are_all_refused_are_no_tools(tmp_path: Path, habits: str, complete: Support) -> None:
    actor = FakeCellEnvironment(tmp_path, habits=habits, complete=complete)
    ALL["complete"].check(actor)
    assert actor.note.endswith(" on offer, each was called and none was carried out: fnord, peek.") or (
        actor.note == "1 on offer, each was called and none was carried out: fnord."
    )


def test_a_shell_of_another_name_is_tried_in_a_review(tmp_path: Path) -> None:
    actor = FakeCellEnvironment(tmp_path, habits="renames")
    ALL["review"].check(actor)
    assert (actor.note, actor.skipped) == ("", [])


def test_a_review_without_a_shell_counts_what_it_skipped(tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    actor = FakeCellEnvironment(tmp_path / "read", habits="no-shell knows-already")
    ALL["review"].check(actor)
    assert actor.note == ""
    assert actor.skipped == [f"step {step}: no tool on offer" for step in range(1, 8)]


@pytest.mark.parametrize("name", ["unicode", "secret", "usage"])
def test_no_step_may_be_skipped_where_an_agent_has_all_of_its_tools(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioFailed, match=r"^steps that were skipped: \['step 1: no tool on offer'\]"):
        ALL[name].check(FakeCellEnvironment(tmp_path, habits="no-shell"))


@pytest.mark.parametrize("moment", [0.0, 1.0, 4e9])
def test_a_limit_must_be_told_with_the_moment_at_which_it_resets(tmp_path: Path, moment: float) -> None:
    with pytest.raises(ScenarioFailed, match="the limit was reported to reset at"):
        ALL["status_429"].check(FakeCellEnvironment(tmp_path, fault=_resets_at(moment)))


def test_hosts_that_an_agent_asks_for_of_its_own_accord_are_noted(tmp_path: Path) -> None:
    message = "The sandbox kept it from telemetry.example:443. To allow it: --net allow=telemetry.example"
    actor = FakeCellEnvironment(tmp_path, **add_event(kind="error_reported", message=message))
    ALL["boxed_install"].check(actor)
    assert actor.note == "The program itself asked for telemetry.example:443, which the box refused."


def test_no_scenario_is_without_a_fault_that_it_notices() -> None:
    assert sorted(FAULTS) == sorted(ALL)


@pytest.mark.parametrize("field", ["name", "output", "text", "usage"])
def test_a_transcript_must_have_the_same_tools_texts_and_tokens(tmp_path: Path, field: str) -> None:
    other = "{}" if field == "usage" else '"other"'
    with pytest.raises(ScenarioFailed, match=r"^(transcript|tokens|no tokens)"):
        ALL["transcript"].check(_Forgetful(tmp_path, field, other))


class _Forgetful(FakeCellEnvironment):
    """Keeps another value of one field than the one that it told."""

    def __init__(self, root: Path, field: str, value: str) -> None:
        super().__init__(root)
        self._changed = (f'"{field}": ', f'"{field}": {value}, "told": ')

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = super().run_command(*words)
        done.stdout = done.stdout.replace(*self._changed)
        return done
