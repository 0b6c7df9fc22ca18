"""Gemini CLI 0.61, as recorded with the module that inspan has it load."""

import json
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.gemini import DRIVER
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    PlanChanged,
    PlanStep,
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
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import RECORDINGS, events_of, names

SHELL = "run_shell_command"
FAILURES: dict[str, tuple[str, int | None]] = {
    "status-400-key": ("authentication", 400),
    "status-400-long": ("context_too_long", 400),
    "status-401": ("authentication", 401),
    "status-402": ("unknown", 402),
    "status-403": ("authentication", 403),
    "status-404": ("model_not_found", None),
    "status-429": ("rate_limit", None),
    "status-500": ("overloaded", 500),
    "status-503": ("overloaded", None),
    "status-529": ("overloaded", 529),
    "failed-later": ("overloaded", 500),
    "cut": ("network", None),
    "garbage": ("invalid_response", None),
    "thoughts-only": ("invalid_response", None),
    "max-turns": ("max_turns", None),
}


def events_from(*frames: dict[str, Any], **fields: Any) -> list[Event]:
    """The events of frames that no recording has."""
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK", **fields), SessionTotals())
    return [event for frame in frames for event in dialect.receive(json.dumps(frame).encode()).events]


def command(number: int, words: str) -> ToolStarted:
    given = {"command": words, "description": "Run a command"}
    return ToolStarted(id=f"{SHELL}__call_{number}", name=SHELL, input=given)


def test_thoughts_come_before_the_text_and_the_call_of_their_response() -> None:
    assert events_of(DRIVER, "tools")[:8] == [
        ThreadStarted(session_id="54cbee10-2591-4429-af06-fc37a26c443a", model="gemini-2.5-pro"),
        TurnStarted(),
        ReasoningSaid(text="**Looking around**\nThere is one file."),
        ReasoningSaid(text="And then?"),
        TextSaid(text="All right."),
        command(1, "echo out; echo err >&2; exit 3"),
        ToolFailed(id=f"{SHELL}__call_1", name=SHELL, output="out\nerr"),
        CommandExecuted(id=f"{SHELL}__call_1", command="echo out; echo err >&2; exit 3", exit_code=3),
    ]


def test_a_command_that_says_nothing_has_ended_well() -> None:
    assert events_of(DRIVER, "tools")[8:11] == [
        command(2, "true"),
        ToolCompleted(id=f"{SHELL}__call_2", name=SHELL),
        CommandExecuted(id=f"{SHELL}__call_2", command="true", exit_code=0),
    ]


def test_a_written_file_is_new_or_it_is_not() -> None:
    assert [event for event in events_of(DRIVER, "tools") if isinstance(event, FileChanged)] == [
        FileChanged(path="/WORK/written.txt", change="added", id="write_file__call_3"),
        FileChanged(path="/WORK/edited.txt", change="modified", id="replace__call_4"),
        FileChanged(path="/WORK/edited.txt", change="modified", id="write_file__call_6"),
    ]


def test_an_edit_that_does_not_fit_fails_and_a_forbidden_one_is_denied() -> None:
    denied = "Tool execution denied by policy. Modifying build configuration files requires explicit user confirmation"
    missed = "Error: Could not find an exact match for old_string in '/WORK/edited.txt'."
    assert [event for event in events_of(DRIVER, "tools") if isinstance(event, ToolFailed)][1:] == [
        ToolFailed(id="replace__call_5", name="replace", output=missed),
        ToolFailed(id="write_file__call_8", name="write_file", output=denied, denied=True),
    ]


def test_what_a_tool_has_read_is_told_though_its_own_frame_shows_nothing() -> None:
    read = [event for event in events_of(DRIVER, "tools") if isinstance(event, ToolCompleted) and "read" in event.name]
    assert read == [ToolCompleted(id="read_file__call_7", name="read_file", output="new")]


def test_tokens_are_told_without_the_cached_and_with_the_thoughts() -> None:
    assert events_of(DRIVER, "text") == [
        ThreadStarted(session_id="9d5b6126-09a6-49cf-b0ba-345768717a29", model="gemini-2.5-pro"),
        TurnStarted(),
        ReasoningSaid(text="Easy."),
        TextSaid(text="Forty-two."),
        TurnCompleted(usage=Usage(input=98, output=12, cache_read=3, reasoning=5)),
    ]


def test_the_call_that_chooses_a_model_is_counted_too() -> None:
    assert events_of(DRIVER, "auto")[-1] == TurnCompleted(usage=Usage(input=220, output=14, cache_read=40, reasoning=6))


def test_tokens_of_its_own_tools_are_input_and_no_thoughts() -> None:
    stats = {"total_tokens": 130, "input_tokens": 100, "output_tokens": 10, "cached": 40}
    events = events_from(
        {"type": "inspan_response", "thoughts": [], "tokens": {"input": 100, "tool": 15}},
        {"type": "result", "status": "success", "stats": stats},
    )
    assert events == [TurnCompleted(usage=Usage(input=75, output=15, cache_read=40, reasoning=5))]


def test_pieces_of_a_text_are_told_as_they_come_where_they_are_wanted() -> None:
    assert events_of(DRIVER, "text", partial=True)[2:6] == [
        TextDelta(block="0", text="Forty"),
        TextDelta(block="0", text="-two."),
        ReasoningSaid(text="Easy."),
        TextSaid(text="Forty-two."),
    ]


def test_its_list_of_things_to_do_is_a_plan() -> None:
    steps = [("Look", "done"), ("Change", "active"), ("Test", "pending")]
    assert [event for event in events_of(DRIVER, "plan") if isinstance(event, PlanChanged)] == [
        PlanChanged(steps=[PlanStep(text=text, state=state) for text, state in steps])  # pyright: ignore[reportArgumentType]  plain words
    ]


def test_a_tool_of_a_server_goes_by_the_name_that_the_program_gives_it() -> None:
    assert [event for event in events_of(DRIVER, "mcp") if isinstance(event, ToolCompleted)] == [
        ToolCompleted(id="mcp_tool-box_echo__call_1", name="mcp_tool-box_echo", output="echo: hello")
    ]


def test_a_command_ended_by_a_signal_has_failed_without_an_exit_code() -> None:
    assert events_of(DRIVER, "killed-command")[3:5] == [
        ToolFailed(id=f"{SHELL}__call_1", name=SHELL, output="begun"),
        CommandExecuted(id=f"{SHELL}__call_1", command="echo begun; kill -9 $$", exit_code=None),
    ]


@pytest.mark.parametrize(("fields", "denied"), [({"mode": "review"}, True), ({}, False)], ids=["review", "exec"])
def test_a_tool_that_is_not_there_was_taken_away_only_where_something_is_held_back(
    fields: dict[str, Any], denied: bool
) -> None:
    failed = [event for event in events_of(DRIVER, "review", **fields) if isinstance(event, ToolFailed)]
    assert [(event.name, event.denied) for event in failed] == [(SHELL, False), ("write_file", denied)]


def test_a_command_outside_of_a_list_is_denied() -> None:
    failed = [event for event in events_of(DRIVER, "listed") if isinstance(event, ToolFailed)]
    assert [(event.id, event.denied) for event in failed] == [
        (f"{SHELL}__call_1", False),
        (f"{SHELL}__call_2", True),
    ]


@pytest.mark.parametrize(("name", "told"), FAILURES.items(), ids=FAILURES)
def test_a_failed_turn_tells_its_kind(name: str, told: tuple[str, int | None]) -> None:
    failed = [event for event in events_of(DRIVER, name) if isinstance(event, TurnFailed | TurnCompleted)]
    assert [(event.failure, event.status) for event in failed if isinstance(event, TurnFailed)] == [told]
    assert len(failed) == 1


def test_a_turn_that_failed_later_tells_the_tokens_until_then() -> None:
    last = events_of(DRIVER, "failed-later")[-1]
    assert isinstance(last, TurnFailed)
    assert last.usage == Usage(input=110, output=7, cache_read=20, reasoning=3)


def test_what_was_said_before_a_cut_is_told() -> None:
    assert [event for event in events_of(DRIVER, "cut") if isinstance(event, TextSaid)] == [TextSaid(text="so far")]


@pytest.mark.parametrize(
    ("words", "kind"),
    [("Maximum session turns exceeded", "max_turns"), ("Loop detected, stopping execution", "unknown")],
)
def test_a_turn_that_was_stopped_is_no_success_though_it_says_so(words: str, kind: str) -> None:
    events = events_from(
        {"type": "error", "severity": "error", "message": words}, {"type": "result", "status": "success"}
    )
    assert events == [ErrorReported(message=words), TurnFailed(failure=kind, message=words)]  # pyright: ignore[reportArgumentType]  plain words


def test_a_turn_without_a_result_is_not_over() -> None:
    cut_off = (RECORDINGS / "gemini" / "text.jsonl").read_bytes().splitlines()[:-1]
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    events = [event for line in cut_off for event in dialect.receive(line).events]
    assert not [event for event in events if isinstance(event, TurnCompleted | TurnFailed)]


def plain(name: str) -> list[Event]:
    """A recording as the program alone would have told it."""
    lines = (RECORDINGS / "gemini" / f"{name}.jsonl").read_text().split("\n")
    return events_from(*(json.loads(line) for line in lines if line and '"inspan_' not in line))


def test_without_the_module_what_is_not_known_is_not_made_up() -> None:
    events = plain("tools")
    assert [event.exit_code for event in events if isinstance(event, CommandExecuted)] == [None, None]
    assert not [event for event in events if isinstance(event, ReasoningSaid)]
    assert events[2:6] == [
        TextSaid(text="All right."),
        command(1, "echo out; echo err >&2; exit 3"),
        ToolCompleted(id=f"{SHELL}__call_1", name=SHELL, output="out\nerr"),
        CommandExecuted(id=f"{SHELL}__call_1", command="echo out; echo err >&2; exit 3", exit_code=None),
    ]


def test_without_the_module_a_file_that_was_never_touched_counts_as_new() -> None:
    assert [event.change for event in plain("tools") if isinstance(event, FileChanged)] == [
        "added",
        "modified",
        "modified",
    ]


def test_a_file_is_told_by_its_full_path_and_only_where_one_was_named() -> None:
    frames = [
        frame
        for id, given in (("1", {"file_path": "a/../b.txt", "content": "x"}), ("2", {"content": "x"}))
        for frame in (
            {"type": "tool_use", "tool_name": "write_file", "tool_id": id, "parameters": given},
            {"type": "tool_result", "tool_id": id, "status": "success"},
        )
    ]
    assert [event for event in events_from(*frames) if isinstance(event, FileChanged)] == [
        FileChanged(path="/WORK/b.txt", change="added", id="1")
    ]


def test_without_the_module_a_silent_failure_is_shown_by_its_code() -> None:
    given = {"command": "exit 3"}
    assert events_from(
        {"type": "tool_use", "tool_name": SHELL, "tool_id": "1", "parameters": given},
        {"type": "tool_result", "tool_id": "1", "status": "success", "output": "Command exited with code: 3"},
    ) == [
        ToolStarted(id="1", name=SHELL, input=given),
        ToolFailed(id="1", name=SHELL, output="Command exited with code: 3"),
        CommandExecuted(id="1", command="exit 3", exit_code=3),
    ]


def test_without_the_module_a_call_is_told_as_soon_as_it_begins() -> None:
    frame: dict[str, Any] = {"type": "tool_use", "tool_name": "glob", "tool_id": "1", "parameters": {}}
    assert events_from(frame) == [ToolStarted(id="1", name="glob", input={})]
    assert events_from({"type": "inspan_ready"}, frame) == []


def test_a_call_of_which_nothing_more_is_told_ends_with_the_next_frame() -> None:
    events = events_from(
        {"type": "inspan_ready"},
        {"type": "tool_use", "tool_name": "glob", "tool_id": "1", "parameters": {}},
        {"type": "tool_result", "tool_id": "1", "status": "success", "output": "a"},
        {"type": "message", "role": "assistant", "content": "b", "delta": True},
    )
    assert events == [ToolStarted(id="1", name="glob", input={}), ToolCompleted(id="1", name="glob", output="a")]


@pytest.mark.parametrize("name", names("gemini"))
def test_every_recorded_frame_is_understood(name: str) -> None:
    assert [event for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)] == []


def test_every_recording_has_an_exit_code_and_a_version() -> None:
    recorded = json.loads((RECORDINGS / "gemini" / "recorded.json").read_text())
    assert (recorded["version"], sorted(recorded["exit_codes"])) == (DRIVER.program.install.version, names("gemini"))


@pytest.mark.parametrize(
    "frame",
    [
        b"Loaded cached credentials.",
        b"[]",
        b'{"type":"dreamt"}',
        b'{"type":"init","session_id":7}',
        b'{"type":"tool_use","parameters":"x"}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=["banner", "list", "unknown", "number", "words", "bytes", "deep"],
)
def test_an_unknown_frame_is_kept_as_it_came(frame: bytes) -> None:
    (event,) = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals()).receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode(errors="replace")


ISSUES = "MCP issues detected. Run /mcp list for status."
IGNORED = "Security Warning: Ignoring --admin-policy because system policies are already defined in /etc/x"


@pytest.mark.parametrize(
    ("line", "servers", "told"),
    [
        (ISSUES, ("one",), [McpServerFailed(name="one", message=ISSUES)]),
        (ISSUES, ("one", "two"), [ErrorReported(message=ISSUES)]),
        (IGNORED, (), [ErrorReported(message=IGNORED)]),
        ("YOLO mode is enabled. All tool calls will be automatically approved.", (), []),
        ("\udcff", (), []),
    ],
)
def test_its_stderr_tells_of_servers_and_rules_that_do_not_count(
    line: str, servers: tuple[str, ...], told: list[Event]
) -> None:
    task = Task(prompt="x", cwd="/", mcp_servers={name: McpServer(command="run") for name in servers})
    overheard = DRIVER.channels[0].dialect(task, SessionTotals()).receive_stderr(line.encode(errors="surrogateescape"))
    assert list(overheard.events) == told


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('Error resuming session: Invalid session identifier "x".', "session_not_found"),
        ("Error importing session from file: File not found or invalid format: x", "session_not_found"),
        ("Invalid auth method selected.", "authentication"),
        ("Please set an Auth method in your /h/.gemini/settings.json or specify", "authentication"),
        ("Gemini CLI is not running in a trusted directory. To proceed, either use", "environment"),
        ("[API Error: exception TypeError: fetch failed sending request]", "network"),
        ("[API Error: exception Error: inspan: settings send model calls to x, past the gateway]", "environment"),
        ("[API Error: You have exhausted your daily quota on this model.]", "rate_limit"),
        ("/state/sessions/20261115-103557429-500/config 401 404", None),
    ],
)
def test_its_last_words_tell_why_it_left(words: str, kind: str | None) -> None:
    assert match_failure(DRIVER.failures, words) == kind
