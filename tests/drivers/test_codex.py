"""Codex 0.163, as recorded."""

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.codex import DRIVER
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    CommandExecuted,
    FileChanged,
    McpServerFailed,
    ReasoningSaid,
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

from .frames import events_of, kinds_of, names

COMMAND = "/bin/bash -lc 'echo hi > f.txt; echo out; id -u'"
FAILURES = {
    "err-e401": "authentication",
    "nokey": "authentication",
    "err-e429": "rate_limit",
    "err-eusage": "rate_limit",
    "err-equota": "rate_limit",
    "err-failed": "rate_limit",
    "err-e500": "overloaded",
    "err-e503": "overloaded",
    "err-ctx": "context_too_long",
    "err-incomplete": "invalid_response",
    "err-cutmid": "network",
    "err-garbage": "network",
    "err-e400": "unknown",
}


def test_a_shell_command_is_told_from_its_start_to_its_exit_code() -> None:
    assert events_of(DRIVER, "exec-ww") == [
        ThreadStarted(session_id="01a1ddf3-5f9e-7063-b328-6ed2a48a4836"),
        TurnStarted(),
        TextSaid(text="I will run it."),
        ToolStarted(id="item_1", name="shell", input={"command": COMMAND}),
        ToolCompleted(id="item_1", name="shell", output="out\n0\n"),
        CommandExecuted(id="item_1", command=COMMAND, exit_code=0),
        TextSaid(text="Done: wrote f.txt."),
        TurnCompleted(usage=Usage(input=160, output=14, cache_read=40, reasoning=6)),
    ]


def test_a_patch_is_a_changed_file() -> None:
    assert [event for event in events_of(DRIVER, "patch") if isinstance(event, FileChanged)] == [
        FileChanged(path="/WORK/p.txt", change="added", id="item_0")
    ]


def test_a_failing_command_fails_its_tool_call_and_not_the_turn() -> None:
    assert kinds_of(DRIVER, "fail") == (
        "ThreadStarted TurnStarted ToolStarted ToolFailed CommandExecuted TextSaid TurnCompleted"
    )


def test_reasoning_is_told_apart_from_text() -> None:
    assert [type(event) for event in events_of(DRIVER, "reason")][2:4] == [ReasoningSaid, TextSaid]


def test_an_error_item_before_the_turn_does_not_end_it() -> None:
    assert kinds_of(DRIVER, "textunk") == "ThreadStarted ErrorReported TurnStarted TextSaid TurnCompleted"


@pytest.mark.parametrize(("name", "kind"), FAILURES.items())
def test_a_failed_turn_tells_its_kind_from_its_words(name: str, kind: str) -> None:
    failed = [event for event in events_of(DRIVER, name) if isinstance(event, TurnFailed)]
    assert [event.failure for event in failed] == [kind]


@pytest.mark.parametrize("name", names("codex"))
def test_every_recorded_frame_is_understood(name: str) -> None:
    assert [event for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)] == []


@pytest.mark.parametrize(
    "frame",
    [b"not json", b"[]", b'{"type":"item.completed","item":{"type":"d"}}', b'{"type":"turn.dreamt"}', b"\xff"],
)
def test_an_unknown_frame_is_kept_as_it_came(frame: bytes) -> None:
    (event,) = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals()).receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode(errors="replace")


@pytest.mark.parametrize("number", [401, 404, 429, 500, 509, 529])
def test_a_number_in_a_path_is_no_status(number: int) -> None:
    warning = f"WARNING: proceeding (codex_home: /state/sessions/20261115-103557{number}-{number}/config) {number}"
    assert match_failure(DRIVER.failures, warning) is None


def test_a_tool_of_a_server_gives_its_text_and_fails_with_its_own_words() -> None:
    events = events_of(DRIVER, "mcp")
    assert [event for event in events if isinstance(event, ToolCompleted)] == [
        ToolCompleted(id="item_0", name="cal.add", output="5")
    ]
    assert [event for event in events if isinstance(event, ToolFailed)] == [
        ToolFailed(id="item_2", name="cal.fail", output="bad thing"),
        ToolFailed(
            id="item_3",
            name="cal.boom",
            output="tool call error: tool call failed for `cal/boom`\n\nCaused by:\n    Mcp error: -32000: rpc boom",
        ),
    ]


def test_tools_of_a_server_that_nobody_allowed_are_denied() -> None:
    assert summarize(events_of(DRIVER, "mcp-review")).denied == ["cal.add", "cal.fail", "cal.boom"]


def test_waiting_for_other_agents_is_a_tool_call() -> None:
    assert kinds_of(DRIVER, "subagents") == (
        "ThreadStarted TurnStarted ToolStarted ToolCompleted TextSaid TurnCompleted"
    )


_ROUTER = "2026-11-15T11:32:42.969638Z ERROR codex_core::tools::router: error="


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings", "apply_patch"),
        ("patch rejected: writing outside of the project; rejected by user approval settings", "apply_patch"),
        ("unsupported call: exec_command", "exec_command"),
        ("unsupported custom tool call: apply_patch", "apply_patch"),
        ("approval policy is Never; reject command — you cannot ask for escalated permissions", "shell"),
        ('exec_command failed: CreateProcess { message: "Rejected(\\"policy forbids `touch`\\")" }', "shell"),
    ],
)
def test_what_only_its_stderr_tells_of_denials_is_told(words: str, name: str) -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    told = [event for _ in range(2) for event in dialect.receive_stderr(f"{_ROUTER}{words}".encode()).events]
    assert told == [
        ToolFailed(id="denied-1", name=name, output=words, denied=True),
        ToolFailed(id="denied-2", name=name, output=words, denied=True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "WARNING: proceeding, even though we could not create PATH aliases",
        f"{_ROUTER}exec_command failed: No such file or directory",
        "Reading prompt from stdin...",
        "\udcff",
    ],
)
def test_other_lines_of_its_stderr_tell_nothing(line: str) -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    assert list(dialect.receive_stderr(line.encode(errors="surrogateescape")).events) == []


def test_a_server_that_is_needed_and_does_not_start_fails_the_run_once() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    words = "required MCP servers failed to initialize: cal: No such file or directory (os error 2)"
    lines = [f"… ERROR codex_core::session: Failed to create session: {words}", f"Error: {words} (code -32603)"]
    assert [event for line in lines for event in dialect.receive_stderr(line.encode()).events] == [
        McpServerFailed(name="cal", message="No such file or directory (os error 2)"),
        TurnFailed(
            failure="environment",
            message="the MCP server cal could not be started: No such file or directory (os error 2)",
        ),
    ]
