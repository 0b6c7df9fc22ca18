"""Saved sessions of Qwen Code 0.24, read back and counted."""

import pytest

from inspan.drivers.qwen import DRIVER
from inspan.drivers.qwen.transcript import read, read_totals
from inspan.protocol.events import Event, TextSaid, ThreadStarted, TurnCompleted, TurnStarted
from inspan.protocol.usage import SessionTotals, Usage

from .frames import RECORDINGS, events_of

CALL = Usage(input=110, output=7, cache_read=20)


def load_transcript(name: str) -> bytes:
    return (RECORDINGS / "qwen" / "sessions" / f"{name}.jsonl").read_bytes()


def live_events(name: str) -> list[Event]:
    """What the same run told while it ran; a transcript has no thread."""
    return [event for event in events_of(DRIVER, name) if not isinstance(event, ThreadStarted)]


@pytest.mark.parametrize("name", ["work", "subagent"])
def test_a_saved_session_tells_what_its_run_told(name: str) -> None:
    assert list(read(load_transcript(name))) == live_events(name)


def test_each_turn_is_counted_alone() -> None:
    assert list(read(load_transcript("resumed"))) == [
        TurnStarted(),
        TextSaid(text="First."),
        TurnCompleted(usage=CALL),
        TurnStarted(),
        TextSaid(text="Second."),
        TurnCompleted(usage=CALL),
    ]


def test_a_session_counts_on_from_the_sum_of_its_calls() -> None:
    assert read_totals(load_transcript("resumed")) == SessionTotals(usage=CALL + CALL)


@pytest.mark.parametrize("cut", [1, 500])
def test_the_end_of_a_long_session_tells_no_sum(cut: int) -> None:
    assert read_totals(load_transcript("work")[cut:]) is None


def test_a_torn_last_line_is_left_out() -> None:
    whole = load_transcript("resumed")
    assert read_totals(whole + b'{"type":"assist') == read_totals(whole)
    assert list(read(whole + b'{"type":"assist')) == list(read(whole))


def test_a_session_without_a_line_gives_nothing() -> None:
    assert (list(read(b"")), read_totals(b"")) == ([], None)


def test_the_driver_knows_where_it_lies() -> None:
    assert DRIVER.sessions.transcript is not None
    assert DRIVER.sessions.transcript_pattern == "projects/*/chats/{session_id}.jsonl"
    assert DRIVER.sessions.transcript.read(load_transcript("work")) == read(load_transcript("work"))
