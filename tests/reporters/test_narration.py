"""What is told of each event: the words, and what kind of words they are."""

from typing import get_args

import pytest

from inspan.protocol.events import (
    BudgetRefused,
    CheckStarted,
    CommandExecuted,
    Event,
    HookCalled,
    MessageStarted,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolAnswered,
    ToolOutput,
    ToolRequested,
    ToolStarted,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
    UsageReported,
    WatchdogActed,
)
from inspan.protocol.usage import Usage
from inspan.reporters.narration import Kind, Narrator, TextChunk

from .sample_events import ENDED, NARRATED

# Said by another event, or of no interest to somebody who watches.
SILENT = {
    ThreadStarted,
    TurnStarted,
    TurnCompleted,
    TurnInterrupted,
    MessageStarted,
    ToolRequested,
    ToolAnswered,
    HookCalled,
    CommandExecuted,
    UsageReported,
    BudgetRefused,
    ToolOutput,
    CheckStarted,
    WatchdogActed,
}
PIECES = (TextDelta(block="1", text="I wi"), TextDelta(block="1", text="ll."))


def narrate(*events: Event) -> list[tuple[Kind, str]]:
    narrator = Narrator()
    return [(chunk.kind, str(chunk)) for event in events for chunk in narrator.narrate(event)]


@pytest.mark.parametrize(("event", "told"), NARRATED, ids=[type(event).__name__ for event, _ in NARRATED])
def test_an_event_is_told_in_these_words(event: Event, told: list[tuple[Kind, str]]) -> None:
    assert narrate(event) == told


def test_every_event_is_told_or_kept_silent_on_purpose() -> None:
    assert {type(event) for event, _ in NARRATED} | SILENT == set(get_args(Event))


def test_a_text_that_came_in_pieces_is_not_told_again() -> None:
    told = [("piece", "I wi"), ("piece", "ll."), ("piece_end", "\n")]
    assert narrate(*PIECES, TextSaid(text="I will.")) == told
    assert narrate(*PIECES, UsageReported(usage=Usage()), TextSaid(text="I will.")) == told


def test_pieces_end_before_something_else_is_told() -> None:
    assert narrate(*PIECES, ToolStarted(id="1", name="bash", input="ls"))[2:] == [
        ("piece_end", "\n"),
        ("tool", "● bash  ls\n"),
    ]
    assert narrate(*PIECES, ENDED)[2:] == [("piece_end", "\n")]


def test_a_text_of_a_new_turn_is_not_taken_for_the_one_that_broke_off() -> None:
    assert narrate(*PIECES, TurnStarted(), TextSaid(text="Again."))[2:] == [("piece_end", "\n"), ("text", "Again.\n")]


def test_a_text_of_a_subagent_is_not_taken_for_the_one_that_streams() -> None:
    assert narrate(*PIECES, TextSaid(text="sub", parent="1"))[2:] == [("piece_end", "\n"), ("text", "sub\n")]


def test_a_chunk_is_a_string_for_whoever_does_not_care() -> None:
    chunk = TextChunk("words", "tool")
    assert (chunk, chunk.kind, chunk.upper()) == ("words", "tool", "WORDS")


def test_a_tools_input_that_is_nested_deeply_is_told_as_far_as_one_can_follow() -> None:
    value: object = 1
    for _ in range(900):
        value = {"a": [value]}
    ((_, told),) = narrate(ToolStarted(id="1", name="x", input=value))
    assert told.count("'a'") < 50
