"""Saved sessions of Gemini CLI 0.61."""

import pytest

from inspan.contracts.driver import Transcript
from inspan.drivers.gemini import DRIVER
from inspan.protocol.events import (
    CommandExecuted,
    Event,
    ReasoningSaid,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from inspan.protocol.usage import Usage

from .frames import RECORDINGS, events_of

SESSIONS = RECORDINGS / "gemini" / "sessions"
CALL = Usage(input=110, output=7, cache_read=20, reasoning=3)
SHELL = "run_shell_command"


def read(saved: bytes) -> list[Event]:
    assert isinstance(DRIVER.sessions.transcript, Transcript)
    return list(DRIVER.sessions.transcript.read(saved))


def test_a_saved_session_tells_what_its_live_frames_told() -> None:
    live = [event for event in events_of(DRIVER, "tools") if not isinstance(event, ThreadStarted | TurnStarted)]
    undenied = [
        ToolFailed(id=event.id, name=event.name, output=event.output) if isinstance(event, ToolFailed) else event
        for event in live
    ]
    assert read((SESSIONS / "tools.jsonl").read_bytes()) == undenied


def test_each_turn_of_a_resumed_session_has_its_own_tokens() -> None:
    given = {"command": "echo one", "description": "Run a command"}
    assert read((SESSIONS / "resumed.jsonl").read_bytes()) == [
        ReasoningSaid(text="First thought."),
        TextSaid(text="Looking."),
        ToolStarted(id=f"{SHELL}__call_1", name=SHELL, input=given),
        ToolCompleted(id=f"{SHELL}__call_1", name=SHELL, output="one"),
        CommandExecuted(id=f"{SHELL}__call_1", command="echo one", exit_code=0),
        TextSaid(text="One."),
        TurnCompleted(usage=CALL + CALL),
        TextSaid(text="Two."),
        TurnCompleted(usage=CALL),
    ]


@pytest.mark.parametrize("torn", [b"", b"\n", b"not json\n", b'{"id":"1","type":"gemini","content":"half', b"\xff\n[]"])
def test_a_line_that_cannot_be_read_tells_nothing(torn: bytes) -> None:
    assert read(torn) == []


def test_a_half_line_at_the_end_costs_only_itself() -> None:
    whole = (SESSIONS / "resumed.jsonl").read_bytes()
    assert read(whole + b'{"id":"9","type":"gem') == read(whole)


def test_text_that_came_in_pieces_is_told_without_the_thoughts_in_it() -> None:
    line = b'{"id":"1","type":"gemini","content":[{"text":"hm","thought":true},{"text":"a"},{"text":"b"}]}'
    assert read(line) == [TextSaid(text="ab"), TurnCompleted(usage=Usage())]


def test_a_session_lies_where_the_first_part_of_its_id_says() -> None:
    pattern = DRIVER.sessions.transcript_pattern.format(session_id="35c8fa52-f297-4690-9f05-c9185197c722")
    assert pattern == "tmp/*/chats/session-*-35c8fa52.jsonl"
