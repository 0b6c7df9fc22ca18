"""What a living run is doing, from its records alone, and how that is said."""

import pytest

from inspan.folds.live_state import LiveState, LiveStateFold
from inspan.protocol.events import (
    Event,
    MessageEnded,
    MessageSent,
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    Question,
    QuestionAsked,
    RateLimited,
    TextDelta,
    ThreadStarted,
    ToolCompleted,
    ToolOutput,
    ToolStarted,
    TurnStarted,
    WatchdogActed,
)
from inspan.protocol.wire import Record
from inspan.reporters.states import format_live_state, format_outcome
from tests.protocol.examples import ENDED, STARTED

_OPENED: list[Event] = [STARTED, MessageSent(id="first", text="hi"), ThreadStarted(session_id="s")]
_TOOL = ToolStarted(id="t", name="Bash", input={"command": "pytest -q"})
_FAILED = MessageEnded(id="first", outcome="failed", reason="overloaded")
_STUCK = WatchdogActed(step="nudge", cause="tool_at_work", silent_s=1.5)
_HEARD = WatchdogActed(step="heard", cause="tool_at_work")
_ASKED = PermissionAsked(id="q", tool="Bash", input={"command": "git  push\norigin"})


def _fold(events: list[Event], *, stays_open: bool = True, prompted: bool = True) -> LiveState:
    fold = LiveStateFold(stays_open=stays_open, prompted=prompted)
    for number, event in enumerate(events):
        fold.add(Record(number, 100.0 + number, event))
    return fold.state


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([STARTED], "● starting (10.0s)"),
        (_OPENED[:2], "● starting (10.0s)"),
        (_OPENED, "● working (8.0s)"),
        ([*_OPENED, _TOOL], "● working: pytest -q (7.0s)"),
        ([*_OPENED, _TOOL, ToolCompleted(id="t")], "● working (6.0s)"),
        ([*_OPENED, _TOOL, _ASKED], "▲ needs you: allow git push ␊ origin?"),
        ([*_OPENED, _ASKED, PermissionAnswered(id="q", allowed=True)], "● working (6.0s)"),
        ([*_OPENED, QuestionAsked(id="q", questions=[Question(text="Which?")])], "▲ needs you: Which?"),
        ([*_OPENED, RateLimited(message="wait", resets_at=175.0)], "◷ rate limited: lifts in 1m05s"),
        ([*_OPENED, RateLimited(message="wait")], "◷ rate limited (7.0s)"),
        ([*_OPENED, RateLimited(), ModelCallEnded(call=1, wire="x", status=200)], "● working (6.0s)"),
        ([*_OPENED, MessageEnded(id="first", outcome="completed", reason="done")], "· idle (7.0s)"),
        ([*_OPENED, _TOOL, _STUCK], "▲ stuck: pytest -q (7.5s)"),
        ([*_OPENED, _STUCK], "▲ stuck: model (8.5s)"),
        ([*_OPENED, _TOOL, WatchdogActed(step="wait", cause="tool_at_work")], "● working: pytest -q (7.0s)"),
        ([*_OPENED, _TOOL, _STUCK, _HEARD], "● working: pytest -q (5.0s)"),
        ([*_OPENED, _FAILED], "✘ error: overloaded"),
        ([*_OPENED, _FAILED, MessageSent(id="next", text="again")], "● working (6.0s)"),
        ([*_OPENED, ENDED], "■ closed"),
    ],
)
def test_each_state_has_its_words(events: list[Event], words: str) -> None:
    assert format_live_state(_fold(events), now=110.0) == words


@pytest.mark.parametrize(
    ("events", "waits_for"),
    [
        (_OPENED, "model"),
        ([*_OPENED, TextDelta(block="b", text="I")], ""),
        ([*_OPENED, _TOOL], "tool"),
        ([*_OPENED, _TOOL, ToolCompleted(id="t")], "model"),
        ([*_OPENED, _TOOL, _ASKED], "person"),
        ([*_OPENED, _TOOL, PermissionAsked(id="q", tool="Bash", settled=True)], "tool"),
        ([*_OPENED, RateLimited(message="wait")], "limit"),
        ([*_OPENED, _TOOL, _STUCK], "tool"),
        ([*_OPENED, _STUCK], "model"),
        ([*_OPENED, MessageEnded(id="first", outcome="completed", reason="done")], ""),
        ([*_OPENED, _STUCK, _FAILED], ""),
        ([STARTED], ""),
    ],
)
def test_it_says_what_the_run_waits_for(events: list[Event], waits_for: str) -> None:
    assert _fold(events).waits_for == waits_for


def test_a_message_that_is_over_leaves_nothing_stuck() -> None:
    found = _fold([*_OPENED, _STUCK, _FAILED, MessageSent(id="next", text="again")])
    assert found.status == "working"


def test_a_session_without_a_prompt_waits_for_a_message() -> None:
    assert _fold([STARTED], prompted=False).status == "idle"


def test_a_run_of_one_prompt_is_never_idle() -> None:
    assert _fold([STARTED], stays_open=False).status == "starting"
    found = _fold([STARTED, TurnStarted(), _TOOL], stays_open=False)
    assert (found.status, found.tool, found.subject) == ("working", "Bash", "pytest -q")
    ended = MessageEnded(id="first", outcome="completed", reason="done")
    assert _fold([*_OPENED, ended], stays_open=False).status == "working"


def test_a_long_command_is_shortened_and_harmless() -> None:
    long = ToolStarted(id="t", name="Bash", input={"command": "echo \x1b[2J" + "x" * 100})
    words = format_live_state(_fold([*_OPENED, long]), now=110.0)
    assert words.isprintable() and "…" in words and len(words) < 70


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("completed", "✔ completed"), ("cancelled", "■ cancelled (r)"), ("lost", "✘ lost (r)")],
)
def test_an_outcome_has_its_glyph(outcome: str, words: str) -> None:
    assert format_outcome(outcome, "r") == words


@pytest.mark.parametrize(
    ("events", "output"),
    [
        ([_TOOL], ""),
        ([_TOOL, ToolOutput(id="t", text="12 %")], "12 %"),
        ([_TOOL, ToolOutput(id="t", text="12 %"), ToolOutput(id="t", text="13 %")], "13 %"),
        ([_TOOL, ToolOutput(id="t", text="12 %"), ToolCompleted(id="t")], ""),
        ([_TOOL, ToolOutput(id="t", text="12 %"), ToolStarted(id="u", name="Bash")], ""),
    ],
)
def test_the_output_is_that_of_the_tool_at_work(events: list[Event], output: str) -> None:
    assert _fold([*_OPENED, *events]).output == output
