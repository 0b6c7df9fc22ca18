"""Claude Code 2.1.325, as recorded."""

import json
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.claude import DRIVER
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    AnswerGiven,
    CommandExecuted,
    ErrorReported,
    FileChanged,
    McpServerFailed,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    Unrecognized,
)
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import events_of, kinds_of, names

Json = dict[str, Any]
FAILURES = {
    "e401-noretry": ("authentication", 401),
    "noauth": ("authentication", None),
    "err-e403": ("authentication", 403),
    "err-e404": ("model_not_found", 404),
    "err-e400": ("context_too_long", 400),
    "err-e429long": ("rate_limit", 429),
    "err-noretry-e429": ("rate_limit", 429),
    "err-noretry-e529": ("overloaded", 529),
    "err-noretry-hang": ("network", None),
    "err-garbage": ("invalid_response", None),
    "maxturns": ("max_turns", None),
    "schema-bad-forever": ("unfit_answer", None),
}
# Frames that tell nothing of the work; they are kept, and shown as what they are.
KNOWN_UNKNOWN = {
    "frame 'system' background_tasks_changed",
    "frame 'system' task_started",
    "frame 'system' task_updated",
    "frame 'system' task_notification",
}


def test_a_written_file_is_told_with_its_path() -> None:
    events = events_of(DRIVER, "write-acceptEdits")
    assert [event for event in events if isinstance(event, FileChanged)] == [
        FileChanged(path="/WORK/w.txt", change="added", id="toolu_6a6ed9c02ce047cb8a17")
    ]
    assert kinds_of(DRIVER, "write-acceptEdits") == (
        "ThreadStarted TurnStarted ToolStarted ToolCompleted FileChanged TextSaid TurnCompleted"
    )


def test_a_turn_has_its_own_tokens_and_cost() -> None:
    assert events_of(DRIVER, "write-acceptEdits")[-1] == TurnCompleted(
        usage=Usage(input=200, output=14, cache_read=40, cache_write=20), cost_usd=0.001188
    )


def test_a_shell_command_has_an_exit_code() -> None:
    executed = [event for event in events_of(DRIVER, "allowed-bash") if isinstance(event, CommandExecuted)]
    assert [event.exit_code for event in executed] == [0]


@pytest.mark.parametrize("name", ["bash-default", "settings-deny"])
def test_a_denied_call_is_told_as_denied_and_not_as_executed(name: str) -> None:
    events = events_of(DRIVER, name)
    assert [event.denied for event in events if isinstance(event, ToolFailed)] == [True]
    assert [event for event in events if isinstance(event, CommandExecuted)] == []
    assert summarize(events).denied == ["Bash"]


def test_pieces_of_text_come_before_the_whole() -> None:
    events = events_of(DRIVER, "partial")
    pieces = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert pieces == "".join(event.text for event in events if isinstance(event, TextSaid)) != ""


def test_a_second_init_is_a_second_turn_of_the_same_thread() -> None:
    events = events_of(DRIVER, "agent")
    assert len([event for event in events if isinstance(event, ThreadStarted)]) == 1
    costs = [event.cost_usd for event in events if isinstance(event, TurnCompleted)]
    assert len(costs) == 2
    assert summarize(events).cost_usd == pytest.approx(sum(cost or 0.0 for cost in costs))  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(("name", "expected"), FAILURES.items())
def test_a_failed_turn_tells_its_kind_though_its_subtype_says_success(name: str, expected: tuple[str, int]) -> None:
    failed = [event for event in events_of(DRIVER, name) if isinstance(event, TurnFailed)]
    assert [(event.failure, event.status) for event in failed] == [expected]


def test_what_the_program_says_in_the_models_place_is_an_error_and_no_text() -> None:
    events = events_of(DRIVER, "e401-noretry")
    assert [event for event in events if isinstance(event, TextSaid)] == []
    assert [event.message for event in events if isinstance(event, ErrorReported)] == [
        "Invalid API key · Fix external API key"
    ]


def test_a_retry_behind_our_back_is_told() -> None:
    assert kinds_of(DRIVER, "err-cutmid") == "ThreadStarted TurnStarted ErrorReported TextSaid TurnCompleted"


def test_an_interrupted_run_leaves_its_tool_call_open() -> None:
    assert isinstance(events_of(DRIVER, "sig2-sleep")[-1], ToolStarted)


@pytest.mark.parametrize("name", names("claude"))
def test_every_recorded_frame_is_understood_or_known_to_say_nothing(name: str) -> None:
    strange = {event.note for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)}
    assert strange <= KNOWN_UNKNOWN


@pytest.mark.parametrize(
    "frame", [b"not json", b"{}", b'{"type":"dream"}', b'{"type":"system","subtype":"dream"}', b'{"type":5}', b"\xff"]
)
def test_an_unknown_frame_is_kept_as_it_came(frame: bytes) -> None:
    (event,) = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals()).receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode(errors="replace")


@pytest.mark.parametrize("number", [401, 404, 429, 500, 509, 529])
def test_a_number_in_a_path_is_no_status(number: int) -> None:
    assert match_failure(DRIVER.failures, f"wrote /state/sessions/20261115-103557{number}-{number}/config.json") is None


def test_a_command_that_the_system_refuses_is_not_called_denied() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    dialect.receive(
        b'{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash",'
        b'"input":{"command":"cat /etc/shadow"}}]}}'
    )
    events = dialect.receive(
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,'
        b'"content":"Exit code 1\\ncat: /etc/shadow: Permission denied"}]}}'
    ).events
    assert [event.denied for event in events if isinstance(event, ToolFailed)] == [False]
    assert [event.exit_code for event in events if isinstance(event, CommandExecuted)] == [1]


@pytest.mark.parametrize(
    "words", ["Access has been denied: ask for permission to use it", "the deployment\nneeds approval"]
)
def test_a_server_that_speaks_of_permissions_is_not_called_denied(words: str) -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="x", cwd="/"), SessionTotals())
    use: Json = {"type": "tool_use", "id": "t1", "name": "mcp__srv__deploy", "input": {}}
    result: Json = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": words}
    for kind, block in (("assistant", use), ("user", result)):
        frame = {"type": kind, "message": {"model": "m", "content": [block]}}
        events = dialect.receive(json.dumps(frame).encode()).events
    assert events == [ToolFailed(id="t1", name="mcp__srv__deploy", output=words)]


def test_calls_of_tools_that_were_taken_away_are_denied_calls_too() -> None:
    denied = summarize(events_of(DRIVER, "review-other-tools")).denials
    assert [(call.name, call.message.split(".")[0].rpartition(": ")[2]) for call in denied] == [
        ("Read", "Permission to use Read has been denied because Claude Code is running in don't ask mode"),
        ("Grep", "Permission to use Grep has been denied because Claude Code is running in don't ask mode"),
        ("Glob", "Permission to use Glob has been denied because Claude Code is running in don't ask mode"),
        ("Edit", "Edit"),
        ("Write", "Write"),
        ("Task", "Task"),
        ("Read", "Permission to use Read has been denied because Claude Code is running in don't ask mode"),
    ]
    assert denied[3].input == {"file_path": "/WORK/a", "old_string": "x", "new_string": "y"}


@pytest.mark.parametrize(("name", "answer"), [("schema-good", '{"n":1}'), ("schema-bad-once", '{"n":2}')])
def test_an_answer_that_fits_is_given_as_json(name: str, answer: str) -> None:
    events = events_of(DRIVER, name, output_schema={})
    assert [event for event in events if isinstance(event, AnswerGiven)] == [AnswerGiven(text=answer)]
    assert summarize(events).answer == answer


def test_without_the_tool_for_answers_the_answer_is_what_was_said() -> None:
    events = events_of(DRIVER, "schema-never", output_schema={})
    assert [event for event in events if isinstance(event, AnswerGiven)] == []
    assert summarize(events).answer == "just text"


@pytest.mark.parametrize(
    ("name", "asked", "failed"),
    [
        ("mcp", ("srv",), []),
        ("mcp-failed", ("srv",), [McpServerFailed(name="srv", message="failed")]),
        ("mcp-pending", ("srv",), [McpServerFailed(name="srv", message="pending")]),
        ("mcp-failed", (), [McpServerFailed(name="srv", message="failed")]),
        ("mcp-pending", (), []),
        (
            "text-sj",
            ("srv",),
            [McpServerFailed(name="srv", message="dropped: its settings were not understood")],
        ),
    ],
)
def test_a_server_that_was_asked_for_and_is_not_there_is_missed(
    name: str, asked: tuple[str, ...], failed: list[McpServerFailed]
) -> None:
    servers = {each: McpServer(command="x") for each in asked}
    events = events_of(DRIVER, name, mcp_servers=servers)
    assert [event for event in events if isinstance(event, McpServerFailed)] == failed


def test_a_tool_of_a_server_gives_its_text() -> None:
    events = events_of(DRIVER, "mcp")
    assert [(event.name, event.output.split()[0]) for event in events if isinstance(event, ToolCompleted)] == [
        ("mcp__srv__echo", "echo:hi")
    ]
    assert [(event.name, event.denied) for event in events if isinstance(event, ToolFailed)] == [
        ("mcp__srv__boom", True)
    ]


def test_hooks_of_the_user_come_before_the_thread_and_tell_nothing() -> None:
    assert kinds_of(DRIVER, "hooks").startswith("ThreadStarted TurnStarted ")
