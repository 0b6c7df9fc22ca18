"""What is told of each event: the words, and what kind of words they are."""

from typing import get_args

import pytest

from inspan.protocol.events import (
    BudgetRefused,
    CommandExecuted,
    Event,
    PermissionAnswered,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UsageReported,
)
from inspan.protocol.usage import Usage
from inspan.reporters.narration import Kind, Narrator, Passage

from .stories import ENDED, TOLD

# Said by another event, or of no interest to somebody who watches.
SILENT = {ThreadStarted, TurnStarted, TurnCompleted, CommandExecuted, PermissionAnswered, UsageReported, BudgetRefused}
PIECES = (TextDelta(block="1", text="I wi"), TextDelta(block="1", text="ll."))


def tell(*events: Event) -> list[tuple[Kind, str]]:
    narrator = Narrator()
    return [(passage.kind, str(passage)) for event in events for passage in narrator.tell(event)]


@pytest.mark.parametrize(("event", "told"), TOLD, ids=[type(event).__name__ for event, _ in TOLD])
def test_an_event_is_told_in_these_words(event: Event, told: list[tuple[Kind, str]]) -> None:
    assert tell(event) == told


def test_every_event_is_told_or_kept_silent_on_purpose() -> None:
    assert {type(event) for event, _ in TOLD} | SILENT == set(get_args(Event))


def test_a_text_that_came_in_pieces_is_not_told_again() -> None:
    told = [("piece", "I wi"), ("piece", "ll."), ("piece_end", "\n")]
    assert tell(*PIECES, TextSaid(text="I will.")) == told
    assert tell(*PIECES, UsageReported(usage=Usage()), TextSaid(text="I will.")) == told


def test_pieces_end_before_something_else_is_told() -> None:
    assert tell(*PIECES, ToolStarted(id="1", name="bash", input="ls"))[2:] == [
        ("piece_end", "\n"),
        ("tool", "● bash  ls\n"),
    ]
    assert tell(*PIECES, ENDED)[2:] == [("piece_end", "\n")]


def test_a_text_of_a_new_turn_is_not_taken_for_the_one_that_broke_off() -> None:
    assert tell(*PIECES, TurnStarted(), TextSaid(text="Again."))[2:] == [("piece_end", "\n"), ("text", "Again.\n")]


def test_a_text_of_a_subagent_is_not_taken_for_the_one_that_streams() -> None:
    assert tell(*PIECES, TextSaid(text="sub", parent="1"))[2:] == [("piece_end", "\n"), ("text", "sub\n")]


def test_a_passage_is_a_string_for_whoever_does_not_care() -> None:
    passage = Passage("words", "tool")
    assert (passage, passage.kind, passage.upper()) == ("words", "tool", "WORDS")
