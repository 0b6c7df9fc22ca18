"""A session of OpenCode 1.18.33 as `opencode export` prints it, beside what its run told."""

import pytest

from inspan.drivers.opencode import DRIVER
from inspan.protocol.events import Event, ThreadStarted, ToolStarted, TurnCompleted, TurnStarted
from inspan.protocol.usage import Usage

from .frames import RECORDINGS, events_of


def load_transcript(name: str) -> list[Event]:
    assert DRIVER.sessions.transcript
    return list(DRIVER.sessions.transcript.read((RECORDINGS / "opencode" / f"{name}.export.json").read_bytes()))


def test_a_saved_session_tells_what_its_run_told() -> None:
    live = [event for event in events_of(DRIVER, "work") if not isinstance(event, ThreadStarted | TurnStarted)]
    assert load_transcript("work") == live


def test_a_saved_session_holds_its_own_part_and_not_that_of_its_subagents() -> None:
    assert [event.name for event in load_transcript("subagent") if isinstance(event, ToolStarted)] == ["task"]
    usage = Usage(input=200, output=14, cache_read=40, cache_write=20, reasoning=6)
    assert load_transcript("subagent")[-1] == TurnCompleted(usage=usage, cost_usd=0.000897)


def test_every_prompt_begins_a_turn() -> None:
    assert DRIVER.sessions.transcript
    step = '{"type":"step-finish","id":"p","tokens":{"input":5,"output":1}}'
    turn = f'{{"info":{{"role":"user"}},"parts":[]}},{{"info":{{"role":"assistant"}},"parts":[{step}]}}'
    told = DRIVER.sessions.transcript.read(f'{{"messages":[{turn},{turn}]}}'.encode())
    assert told == [TurnCompleted(usage=Usage(input=5, output=1))] * 2


def test_words_before_the_session_are_skipped() -> None:
    assert DRIVER.sessions.transcript
    assert DRIVER.sessions.transcript.read(b'Exporting session: ses_1\n{"messages":[]}') == []


@pytest.mark.parametrize("session_id", ["ses_1"])
def test_the_program_itself_prints_a_session(session_id: str) -> None:
    assert DRIVER.sessions.transcript and DRIVER.sessions.transcript.command
    assert DRIVER.sessions.transcript.command(session_id) == ("export", "ses_1")
