"""GitHub Copilot 1.0.102, as recorded: its lines and the tokens on its stderr, each recording read as a replay does."""

import json
import tracemalloc
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.copilot import DRIVER
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
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

from .frames import RECORDINGS, names

FOLDER = RECORDINGS / "copilot"
CALL = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
MODEL = "claude-sonnet-5"
DENIED = (
    "Permission denied because no interactive user response was available. Retry in an interactive session so the user "
    "can approve it, or try an alternative that does not require this permission."
)
FAILURES = {
    "e401": ("authentication", 401),
    "e404": ("model_not_found", 404),
    "e429": ("rate_limit", 429),
    "e500": ("overloaded", 500),
    "context": ("context_too_long", 400),
    "cut": ("network", None),
    "garbage": ("invalid_response", None),
    "garbage-responses": ("invalid_response", None),
    "terminated": ("crashed", None),
    "interrupted": ("crashed", None),
}


def lines(name: str, suffix: str) -> list[bytes]:
    return (FOLDER / f"{name}.{suffix}").read_bytes().split(b"\n")[:-1]


def events(name: str, *, stderr_first: bool = False, **fields: Any) -> list[Event]:
    """What a recording tells, its stderr heard after all of its lines, as in a replay, or before."""
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK", **fields), SessionTotals())
    heard = [(dialect.receive, line) for line in lines(name, "jsonl")]
    overheard = [(dialect.receive_stderr, line) for line in lines(name, "err")]
    order = [*overheard, *heard] if stderr_first else [*heard, *overheard]
    return [event for read, line in order for event in read(line).events]


def of(kind: type[Event], found: list[Event]) -> list[Event]:
    return [event for event in found if isinstance(event, kind)]


def test_thoughts_words_and_commands_are_told_in_their_order() -> None:
    first, second = "toolu_d2d7a81315bb25620acb249f", "toolu_d1a7e81edc6fb40080251f78"
    shown, failing = "echo from-the-shell", "echo no >&2; exit 3"
    assert events("work") == [
        ThreadStarted(session_id="", model=MODEL),
        TurnStarted(),
        ReasoningSaid(text="pondering"),
        TextSaid(text="All right."),
        ToolStarted(id=first, name="bash", input={"command": shown, "description": "Run a command"}),
        ToolCompleted(id=first, name="bash", output="from-the-shell"),
        CommandExecuted(id=first, command=shown, exit_code=0),
        ToolStarted(id=second, name="bash", input={"command": failing, "description": "Run a command"}),
        ToolFailed(id=second, name="bash", output="no"),
        CommandExecuted(id=second, command=failing, exit_code=3),
        TextSaid(text="Finished."),
        TurnCompleted(usage=CALL + CALL + CALL),
    ]


@pytest.mark.parametrize("name", names("copilot"))
def test_it_makes_no_difference_when_its_stderr_is_heard(name: str) -> None:
    assert events(name, stderr_first=True) == events(name)


@pytest.mark.parametrize("name", ["files", "patch"])
def test_edited_files_are_told_with_the_call_that_changed_them(name: str) -> None:
    found = events(name)
    calls = [event.id for event in found if isinstance(event, ToolStarted)]
    assert of(FileChanged, found) == [
        FileChanged(path="/WORK/written.txt", change="added", id=calls[0]),
        FileChanged(path="/WORK/edited.txt", change="modified", id=calls[1]),
    ]


def test_an_editor_that_refuses_fails_its_call_and_not_the_turn() -> None:
    found = events("files")
    assert [(event.output, event.denied) for event in found if isinstance(event, ToolFailed)] == [
        ("Path already exists", False)
    ]
    assert isinstance(found[-1], TurnCompleted)


def test_in_a_review_what_it_may_not_do_and_what_it_no_longer_has_are_denials() -> None:
    failed = [event for event in events("review", mode="review") if isinstance(event, ToolFailed)]
    assert [(event.name, event.output, event.denied) for event in failed] == [
        ("bash", DENIED, True),
        ("create", "Tool 'create' does not exist.", True),
    ]


def test_a_tool_that_never_was_is_no_denial() -> None:
    failed = [event for event in events("review") if isinstance(event, ToolFailed)]
    assert [event.denied for event in failed] == [True, False]


def test_tools_of_servers_are_told_by_the_names_that_the_model_knows() -> None:
    assert [
        (event.name, event.output) for event in events("servers") if isinstance(event, ToolCompleted | ToolFailed)
    ] == [("web_x-echo", "echo: hey"), ("web_x-fail", "MCP server 'web_x': refused: hey")]


def test_a_server_that_does_not_start_is_told_once_and_the_turn_goes_on() -> None:
    found = events("server-failed")
    assert of(McpServerFailed, found) == [
        McpServerFailed(
            name="web_x",
            message="MCP server process exited before completing the MCP initialize handshake (exit code 1); "
            "last stderr: no licence",
        )
    ]
    assert found[-1] == TurnCompleted(usage=CALL)


def test_what_a_subagent_says_belongs_to_the_call_that_started_it_and_its_tokens_count() -> None:
    found = events("subagent")
    calls = [event.id for event in found if isinstance(event, ToolStarted)]
    assert of(TextSaid, found) == [TextSaid(text="Sub says.", parent=calls[0]), TextSaid(text="Done.")]
    assert found[-1] == TurnCompleted(usage=CALL + CALL + CALL)


def test_output_that_is_too_large_for_the_model_is_told_whole() -> None:
    [ended] = of(ToolCompleted, events("large"))
    assert isinstance(ended, ToolCompleted)
    assert ended.output == "".join(f"{number}\n" for number in range(1, 6001))


def test_what_a_command_prints_after_its_call_is_not_held() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    for line in lines("large", "jsonl"):
        dialect.receive(line)
    [late, *_] = [line for line in lines("large", "jsonl") if b"tool.shell_output" in line]
    tracemalloc.start()
    try:
        for _ in range(500):
            dialect.receive(late)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 20 * len(late)


def test_pieces_of_text_are_told_where_they_are_asked_for() -> None:
    block = "27ef413c-b60d-4ffd-857a-65d10a0a46db"
    pieces = of(TextDelta, events("work", partial=True))
    assert pieces[:2] == [TextDelta(block=block, text="All "), TextDelta(block=block, text="right.")]
    assert of(TextDelta, events("work")) == []


@pytest.mark.parametrize(("name", "told"), FAILURES.items())
def test_a_failed_turn_is_told_once_with_its_kind(name: str, told: tuple[str, int | None]) -> None:
    found = events(name)
    assert [(event.failure, event.status) for event in found if isinstance(event, TurnFailed)] == [told]
    assert of(TurnCompleted, found) == []


def test_the_words_of_a_failure_are_the_providers_with_the_status() -> None:
    assert events("e429")[-1] == TurnFailed(failure="rate_limit", message="429 Rate limit reached.", status=429)


def test_a_call_that_is_made_again_is_told_and_its_failure_forgotten() -> None:
    assert events("retried") == [
        ThreadStarted(session_id="", model=MODEL),
        TurnStarted(),
        ErrorReported(message="a model call failed and is made again: 500 Internal server error."),
        TextSaid(text="At last."),
        TurnCompleted(usage=CALL),
    ]


def test_an_end_from_outside_is_not_put_down_to_a_failure_that_was_overcome() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    for line in lines("retried", "jsonl")[:-1]:
        dialect.receive(line)
    assert list(dialect.receive(b'{"type":"abort","data":{"reason":"user_abort"}}').events) == [
        TurnFailed(failure="crashed", message="it was ended in the middle of its turn (user_abort)")
    ]


@pytest.mark.parametrize("name", names("copilot"))
def test_no_line_of_a_recording_is_unknown(name: str) -> None:
    assert of(Unrecognized, events(name)) == []


@pytest.mark.parametrize("line", [b'{"type":"session.new_idea","data":{}}', b"Welcome!", b'{"type":"abort","data":7}'])
def test_a_line_that_is_not_known_is_kept(line: bytes) -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    [event] = dialect.receive(line).events
    assert isinstance(event, Unrecognized)
    assert event.raw == line.decode()


@pytest.mark.parametrize(
    "line", [b"", b"Error executing prompt", b'{"type":"span","attributes":7}', b'{"type":"metric"}']
)
def test_other_lines_of_its_stderr_say_nothing(line: bytes) -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    assert list(dialect.receive_stderr(line).events) == []


def test_with_githubs_own_models_a_turn_ends_without_tokens_where_none_are_told() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    own = [line.replace(b'"isByok":true', b'"isByok":false') for line in lines("chat", "jsonl")]
    assert [event for line in own for event in dialect.receive(line).events][-1] == TurnCompleted()


def test_a_turn_is_not_done_before_its_tokens_are_told() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    told = [event for line in lines("chat", "jsonl") for event in dialect.receive(line).events]
    assert not summarize(told).turn_done


def test_a_session_reads_back_as_its_runs_told_it() -> None:
    assert DRIVER.sessions.transcript
    found = list(DRIVER.sessions.transcript.read((FOLDER / "session.transcript").read_bytes()))
    shell, file = [event.id for event in found if isinstance(event, ToolStarted)]
    assert found == [
        ReasoningSaid(text="hm"),
        TextSaid(text="One."),
        ToolStarted(id=shell, name="bash", input={"command": "echo a; exit 3", "description": "Run a command"}),
        ToolFailed(id=shell, name="bash", output="a"),
        CommandExecuted(id=shell, command="echo a; exit 3", exit_code=3),
        ToolStarted(id=file, name="create", input={"path": "/WORK/n.txt", "file_text": "x"}),
        FileChanged(path="/WORK/n.txt", change="added", id=file),
        ToolCompleted(id=file, name="create", output="Created file /WORK/n.txt with 1 characters"),
        TextSaid(text="First."),
        TurnCompleted(usage=CALL + CALL + CALL),
        TextSaid(text="Second."),
        TurnCompleted(usage=CALL),
    ]


def test_half_a_line_at_the_end_of_a_session_is_left_out() -> None:
    assert DRIVER.sessions.transcript
    whole = (FOLDER / "session.transcript").read_bytes()
    assert list(DRIVER.sessions.transcript.read(whole + b'{"type":"assistant.mess')) == list(
        DRIVER.sessions.transcript.read(whole)
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Error: No session, task, or name matched 'f4300ee4'.", "session_not_found"),
        ("BYOK providers require an explicit model.", "model_not_found"),
        ("No such agent: mine, available:", "environment"),
    ],
)
def test_words_of_its_stderr_tell_why_it_did_not_start(words: str, kind: str) -> None:
    assert match_failure(DRIVER.failures, words) == kind


def test_recordings_hold_nothing_of_the_vendors_prompts() -> None:
    for path in FOLDER.iterdir():
        for line in path.read_bytes().splitlines():
            frame: dict[str, Any] = json.loads(line) if line.startswith(b"{") else {}
            assert frame.get("type") != "system.message" or frame["data"]["content"] == "[left out]"
            assert frame.get("data", {}).get("skills", []) == []
