"""Goose 1.52, as recorded."""

import json
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.goose import DRIVER
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    FileChanged,
    McpServerFailed,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import RECORDINGS, events_of, kinds_of, names

RECORDED: dict[str, Any] = json.loads((RECORDINGS / "goose" / "recorded.json").read_text())
BEGUN = [ThreadStarted(session_id="", model="claude-sonnet-4-5"), TurnStarted()]
FAILURES = {
    "status-400": ("unknown", 400),
    "status-401": ("authentication", 401),
    "status-402": ("authentication", None),
    "status-403": ("authentication", 403),
    "status-404": ("model_not_found", 404),
    "status-429": ("rate_limit", None),
    "status-500": ("overloaded", 500),
    "status-529": ("overloaded", 529),
    "later-500": ("overloaded", 500),
    "context": ("context_too_long", None),
    "cut": ("network", None),
    "unreachable": ("network", None),
    "garbage": ("invalid_response", None),
    "max-turns": ("max_turns", None),
    "no-session": ("session_not_found", None),
    "no-key": ("authentication", None),
    "interrupted": ("unknown", None),
}


def test_text_and_thoughts_are_put_together_and_tools_told_from_start_to_end() -> None:
    events = events_of(DRIVER, "tools")
    shell, write, overwrite, edit = [event.id for event in events if isinstance(event, ToolStarted)]
    assert events == [
        *BEGUN,
        ReasoningSaid(text="pondering"),
        TextSaid(text="All right."),
        ToolStarted(id=shell, name="shell", input={"command": "echo from-the-shell"}),
        ToolCompleted(id=shell, name="shell", output="from-the-shell"),
        CommandExecuted(id=shell, command="echo from-the-shell", exit_code=0),
        ToolStarted(id=write, name="write", input={"path": "/WORK/new.txt", "content": "one\n"}),
        ToolCompleted(id=write, name="write", output="Created /WORK/new.txt (1 lines)"),
        FileChanged(path="/WORK/new.txt", change="added", id=write),
        ToolStarted(id=overwrite, name="write", input={"path": "edited.txt", "content": "quick\n"}),
        ToolCompleted(id=overwrite, name="write", output="Wrote edited.txt (1 lines)"),
        FileChanged(path="/WORK/edited.txt", change="modified", id=overwrite),
        ToolStarted(id=edit, name="edit", input={"path": "edited.txt", "before": "quick", "after": "slow"}),
        ToolCompleted(id=edit, name="edit", output="Edited edited.txt (1 lines -> 1 lines)"),
        FileChanged(path="/WORK/edited.txt", change="modified", id=edit),
        TextSaid(text="Finished."),
        TurnCompleted(usage=Usage(input=500, output=35, cache_read=100, cache_write=50), cost_usd=0.0022425),
    ]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("chat", "ReasoningSaid TextSaid ToolStarted ToolCompleted CommandExecuted TextSaid TurnCompleted"),
        ("responses", "TextSaid ReasoningSaid ToolStarted ToolCompleted CommandExecuted TextSaid TurnCompleted"),
        ("generate", "ReasoningSaid TextSaid TurnCompleted"),
        ("subagent", "ToolStarted ToolCompleted TextSaid TurnCompleted"),
        ("notices", "ToolStarted ToolCompleted TextSaid TurnCompleted"),
    ],
)
def test_every_wire_gives_whole_blocks(name: str, kinds: str) -> None:
    assert kinds_of(DRIVER, name) == f"ThreadStarted TurnStarted {kinds}"
    assert {event.text for event in events_of(DRIVER, name) if isinstance(event, ReasoningSaid)} <= {"pondering"}


def test_pieces_of_text_come_first_where_they_are_wanted() -> None:
    pieces = [event for event in events_of(DRIVER, "chat", partial=True) if isinstance(event, TextDelta | TextSaid)]
    first, last = pieces[0], pieces[3]
    assert isinstance(first, TextDelta)
    assert isinstance(last, TextDelta)
    assert first.block != last.block
    assert pieces == [
        TextDelta(block=first.block, text="All "),
        TextDelta(block=first.block, text="right."),
        TextSaid(text="All right."),
        TextDelta(block=last.block, text="one"),
        TextDelta(block=last.block, text=" two"),
        TextSaid(text="one two"),
    ]


def test_a_failing_command_fails_its_tool_call_and_not_the_turn() -> None:
    events = events_of(DRIVER, "failing")
    assert [event for event in events if isinstance(event, CommandExecuted)] == [
        CommandExecuted(id=_ids(events)[0], command="echo out; echo err >&2; exit 3", exit_code=3),
        CommandExecuted(id=_ids(events)[1], command="sleep 5", exit_code=None),
    ]
    assert [(event.name, event.denied) for event in events if isinstance(event, ToolFailed)] == [
        ("shell", False),
        ("shell", False),
        ("edit", False),
    ]
    assert isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize(("name", "told"), FAILURES.items())
def test_a_failed_turn_is_told_whatever_the_exit_code_was(name: str, told: tuple[str, int | None]) -> None:
    events = events_of(DRIVER, name)
    assert [(event.failure, event.status) for event in events if isinstance(event, TurnFailed)] == [told]
    assert not any(isinstance(event, TurnCompleted) for event in events)


def test_most_failures_leave_with_an_exit_code_that_says_success() -> None:
    left_well = {name for name in FAILURES if RECORDED["exit_codes"][name] == 0}
    assert FAILURES.keys() - left_well == {"status-401", "status-403", "no-session", "no-key", "interrupted"}


def test_the_words_of_a_failure_are_not_taken_for_the_models() -> None:
    assert [event.text for event in events_of(DRIVER, "cut") if isinstance(event, TextSaid)] == ["so far"]


def test_a_model_that_uses_such_words_is_heard() -> None:
    frame = {
        "type": "message",
        "message": {
            "id": "m",
            "role": "assistant",
            "content": [{"type": "text", "text": "Ran into this error: none"}],
            "metadata": {"inference": {"provider": "anthropic", "requestedModel": "claude-sonnet-4-5"}},
        },
    }
    dialect = _dialect()
    told = [*dialect.receive(json.dumps(frame).encode()).events, *dialect.receive(b'{"type":"complete"}').events]
    assert told == [*BEGUN, TextSaid(text="Ran into this error: none"), TurnCompleted(usage=Usage())]


def test_a_turn_that_failed_later_has_the_tokens_of_its_good_calls() -> None:
    assert [event.usage for event in events_of(DRIVER, "later-500") if isinstance(event, TurnFailed)] == [
        Usage(input=100, output=7, cache_read=20, cache_write=10)
    ]
    assert [event.usage for event in events_of(DRIVER, "cut") if isinstance(event, TurnFailed)] == [None]


def test_a_resumed_session_counts_from_where_it_was() -> None:
    assert events_of(DRIVER, "resumed") == [
        *BEGUN,
        TextSaid(text="two"),
        TurnCompleted(usage=Usage(input=100, output=7, cache_read=20, cache_write=10), cost_usd=0.0004485),
    ]


def test_without_that_it_counts_from_what_was_told_before() -> None:
    dialect = DRIVER.channels[0].dialect(
        Task(prompt="x", cwd="/"), SessionTotals(usage=Usage(input=100, output=7, cache_read=20), cost_usd=0.5)
    )
    frame = b'{"type":"complete","input_tokens":300,"output_tokens":9,"cache_read_input_tokens":50,"cost_usd":0.75}'
    assert list(dialect.receive(frame).events)[2:] == [
        TurnCompleted(usage=Usage(input=150, output=2, cache_read=30), cost_usd=0.25)
    ]


@pytest.mark.parametrize(
    ("name", "denied"), [("not-offered", ["shell"]), ("skipped", ["shell"]), ("read-only", ["write", "edit"])]
)
def test_calls_that_were_not_allowed_are_denied(name: str, denied: list[str]) -> None:
    assert summarize(events_of(DRIVER, name)).denied == denied


def test_a_tool_of_a_server_gives_its_text_and_fails_with_its_own_words() -> None:
    events = events_of(DRIVER, "server")
    echo, fail = _ids(events)
    assert [event for event in events if isinstance(event, ToolCompleted | ToolFailed)] == [
        ToolCompleted(id=echo, name="cal__echo", output="echo: hey"),
        ToolFailed(id=fail, name="cal__fail", output="refused: hey"),
    ]


def test_a_server_that_does_not_start_is_told() -> None:
    dialect = _dialect()
    lines = RECORDED["stderr"]["server-failed"]
    assert [event for line in lines for event in dialect.receive_stderr(line.encode()).events] == [
        McpServerFailed(name="cal", message="IO error: No such file or directory (os error 2)")
    ]


def test_a_plain_error_is_explained_by_the_lines_below() -> None:
    events = events_of(DRIVER, "no-key")
    assert [type(event) for event in events] == [TurnFailed, ErrorReported, ErrorReported, ErrorReported]


@pytest.mark.parametrize("name", names("goose"))
def test_every_recorded_frame_is_understood(name: str) -> None:
    assert [event for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)] == []


@pytest.mark.parametrize(
    "frame", [b"not json", b"[]", b'{"type":"dreamt"}', b'{"type":"message","message":7}', b"\xff", b'{"type"']
)
def test_an_unknown_frame_is_kept_as_it_came(frame: bytes) -> None:
    (event,) = _dialect().receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode(errors="replace")


def test_an_unknown_part_of_a_message_is_kept() -> None:
    frame = b'{"type":"message","message":{"role":"assistant","content":[{"type":"dream","of":"sheep"}]}}'
    *_, event = _dialect().receive(frame).events
    assert event == Unrecognized(raw=frame.decode(), note="part 'dream'")


@pytest.mark.parametrize("number", [401, 404, 429, 500, 529])
def test_a_number_in_a_path_is_no_status(number: int) -> None:
    assert match_failure(DRIVER.failures, f"/state/sessions/20261115-103557{number}-{number}/config ({number})") is None


def test_what_the_program_tells_the_model_of_a_skipped_call_is_not_recorded() -> None:
    kept = b'{"text":"Let the user know the tool call was skipped in goose chat mode"}'
    said = kept.replace(b'mode"', b'mode. And \\"more\\" of this.\\n"')
    assert DRIVER.trials.scrub_line is not None
    assert DRIVER.trials.scrub_line(said) == kept


def _dialect() -> Any:
    return DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())


def _ids(events: list[Any]) -> list[str]:
    return [event.id for event in events if isinstance(event, ToolStarted)]
