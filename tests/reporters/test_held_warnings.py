"""A failure is told once: what leads to it waits for the end, for the agent to go on, or for too long."""

from inspan.protocol.events import EndingBegan, ErrorReported, Event, ModelCallEnded, RunEnded, TextSaid, TurnFailed
from inspan.reporters.events import report_events
from inspan.reporters.held_warnings import HeldWarnings
from inspan.reporters.narration import Narrator

from .test_events import Notes

OVERLOADED = ModelCallEnded(call=1, wire="messages", status=529, message="Overloaded.")
FAILED_TURN = TurnFailed(failure="overloaded", message="API Error: 529, and many words")
ENDED = RunEnded(outcome="failed", reason="overloaded", message=FAILED_TURN.message)


def tell(*events: Event, once: bool = True) -> tuple[list[str], str]:
    """What a reporter is told before the end, and as what failed."""
    notes = Notes()
    told = report_events(notes, "fix", once=once)
    for event in events:
        told.show(event)
    return [call[2] for call in notes.calls if call[0] == "node_output"], told.result.error if told.result else ""


def test_a_failure_is_told_once_and_in_our_words() -> None:
    assert tell(OVERLOADED, ErrorReported(message="API Error"), FAILED_TURN, ENDED) == ([], "529 Overloaded.")


def test_a_reporter_that_wants_all_gets_all() -> None:
    chunks, error = tell(OVERLOADED, FAILED_TURN, ENDED, once=False)
    assert chunks == ["! model call 1: 529 Overloaded.\n", f"! turn failed (overloaded): {FAILED_TURN.message}\n"]
    assert error == FAILED_TURN.message


def test_a_limit_is_told_by_the_end_alone() -> None:
    ended = RunEnded(outcome="timed_out", reason="run_timeout", message="it took too long")
    assert tell(EndingBegan(reason="run_timeout", message="it took too long"), ended) == ([], "it took too long")


def test_what_the_agent_got_over_is_told_before_it_goes_on() -> None:
    chunks, _ = tell(OVERLOADED, OVERLOADED, TextSaid(text="Again."))
    assert chunks == ["! model call 1: 529 Overloaded. (2 times)\n", "Again.\n"]


def test_what_the_end_does_not_say_is_told_before_it() -> None:
    assert tell(ErrorReported(message="no space left"), RunEnded(outcome="failed", reason="crashed")) == (
        ["! no space left\n"],
        "",
    )


def test_nothing_is_held_for_long() -> None:
    now = 100.0
    held = HeldWarnings(clock=lambda: now)
    assert held.sift(OVERLOADED, Narrator().narrate(OVERLOADED)) == []
    now += 9.0
    assert not held.is_due
    now += 1.0
    assert held.is_due
    assert held.take() == ["! model call 1: 529 Overloaded.\n"]
    assert not held.is_due
