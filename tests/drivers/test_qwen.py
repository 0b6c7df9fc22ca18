"""Qwen Code 0.24, as recorded."""

import json
from typing import Any

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.qwen import DRIVER
from inspan.drivers.qwen.failures import FAILURES
from inspan.folds.summary import summarize
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
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

RECORDED: dict[str, Any] = json.loads((RECORDINGS / "qwen" / "recorded.json").read_text())
CALL = Usage(input=110, output=7, cache_read=20)
FAILED = {
    "err-401": ("authentication", 401),
    "err-402": ("unknown", 402),
    "err-403": ("authentication", 403),
    "err-404": ("model_not_found", 404),
    "err-413": ("context_too_long", None),
    "err-context": ("context_too_long", 400),
    "err-429": ("rate_limit", 429),
    "err-500": ("overloaded", 500),
    "err-cut": ("network", None),
    "err-garbage": ("invalid_response", None),
    "err-command": ("environment", None),
}
SHELL = "run_shell_command"
NONE = Usage()


def dialect(told: Usage = NONE, **fields: Any) -> Any:
    """A dialect that has heard nothing yet."""
    return DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK", **fields), SessionTotals(usage=told))


def read_frames(*frames: dict[str, Any], **fields: Any) -> list[Any]:
    """What a dialect makes of these frames."""
    reader = dialect(**fields)
    return [event for frame in frames for event in reader.receive(json.dumps(frame).encode()).events]


def assistant_frame(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def test_an_answer_is_told_from_the_thread_to_its_tokens() -> None:
    thread, *rest = events_of(DRIVER, "text")
    assert isinstance(thread, ThreadStarted)
    assert (thread.session_id, thread.model, thread.agent_version) == (
        "11111111-2222-4333-8444-000000000001",
        "mock-model",
        RECORDED["version"],
    )
    assert SHELL in thread.tools
    assert rest == [TurnStarted(), TextSaid(text="hello there"), TurnCompleted(usage=CALL)]


def test_tools_are_told_from_start_to_end() -> None:
    events = events_of(DRIVER, "work")
    ok, fails, killed, silent, write, read, edit, refused, grep, unknown = [
        event.id for event in events if isinstance(event, ToolStarted)
    ]
    described = {"description": "Run a command"}
    report = (
        "Command: {}\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: {}\nProcess Group PGID: 100"
    )
    loud = "echo out; echo err >&2; exit 3"
    unread = [event for event in events if isinstance(event, ToolFailed) and event.id == refused]
    assert events[1:] == [
        TurnStarted(),
        ReasoningSaid(text="hm"),
        TextSaid(text="Looking."),
        ToolStarted(id=ok, name=SHELL, input={"command": "echo from-the-shell", **described}),
        ToolCompleted(id=ok, name=SHELL, output="from-the-shell"),
        CommandExecuted(id=ok, command="echo from-the-shell", exit_code=0),
        ToolStarted(id=fails, name=SHELL, input={"command": loud, **described}),
        ToolFailed(id=fails, name=SHELL, output=report.format(loud, "out\nerr", 3, "(none)")),
        CommandExecuted(id=fails, command=loud, exit_code=3),
        ToolStarted(id=killed, name=SHELL, input={"command": "kill -9 $$", **described}),
        ToolFailed(id=killed, name=SHELL, output=report.format("kill -9 $$", "(empty)", 0, 9)),
        CommandExecuted(id=killed, command="kill -9 $$", exit_code=137),
        ToolStarted(id=silent, name=SHELL, input={"command": "true", **described}),
        ToolCompleted(id=silent, name=SHELL, output=report.format("true", "(empty)", 0, "(none)")),
        CommandExecuted(id=silent, command="true", exit_code=0),
        ToolStarted(id=write, name="write_file", input={"file_path": "/WORK/new.txt", "content": "one\n"}),
        ToolCompleted(id=write, name="write_file", output="Successfully created and wrote to new file: /WORK/new.txt."),
        FileChanged(path="/WORK/new.txt", change="added", id=write),
        ToolStarted(id=read, name="read_file", input={"file_path": "/WORK/a.txt"}),
        ToolCompleted(id=read, name="read_file", output="one two\n"),
        ToolStarted(id=edit, name="edit", input={"file_path": "/WORK/a.txt", "old_string": "one", "new_string": "1"}),
        ToolCompleted(
            id=edit,
            name="edit",
            output="The file: /WORK/a.txt has been updated. Showing lines 1-2 of 2 from the edited file:"
            "\n\n---\n\n1 two\n",
        ),
        FileChanged(path="/WORK/a.txt", change="modified", id=edit),
        ToolStarted(id=refused, name="write_file", input={"file_path": "/WORK/b.txt", "content": "y\n"}),
        *unread,
        ToolStarted(id=grep, name="grep_search", input={"pattern": "two"}),
        ToolCompleted(id=grep, name="grep_search", output="Found 1 match"),
        ToolStarted(id=unknown, name="nothing", input={}),
        ToolFailed(
            id=unknown,
            name="nothing",
            output='Tool "nothing" not found in registry. Tools must use the exact names that are registered. '
            'Did you mean one of: "skill", "agent", "monitor"?',
            denied=True,
        ),
        TextSaid(text="Done."),
        TurnCompleted(usage=sum([CALL] * 11, Usage())),
    ]
    assert [event.denied for event in unread] == [False]


def test_a_review_tells_what_was_denied_and_ran_nothing_of_it() -> None:
    events = events_of(DRIVER, "review")
    denied = [(event.name, event.denied) for event in events if isinstance(event, ToolFailed)]
    assert denied == [(SHELL, True), (SHELL, True), ("write_file", True)]
    assert [event.command for event in events if isinstance(event, CommandExecuted)] == ["cat a.txt"]
    assert [event for event in events if isinstance(event, FileChanged)] == []
    assert summarize(events).denied == [SHELL, SHELL, "write_file"]


def test_pieces_of_text_come_before_their_block_when_they_are_asked_for() -> None:
    events = events_of(DRIVER, "partial", partial=True)
    assert [event for event in events if isinstance(event, TextDelta | TextSaid)] == [
        TextDelta(block="2", text="All "),
        TextDelta(block="2", text="right."),
        TextSaid(text="All right."),
        TextDelta(block="4", text="do"),
        TextDelta(block="4", text="ne"),
        TextSaid(text="done"),
    ]
    assert [event for event in events_of(DRIVER, "partial") if isinstance(event, TextDelta)] == []


def test_a_server_that_is_not_connected_has_failed() -> None:
    asked = {name: McpServer(command="x") for name in ("notes", "broken", "lost")}
    failed = [event for event in events_of(DRIVER, "mcp", mcp_servers=asked) if isinstance(event, McpServerFailed)]
    assert failed == [
        McpServerFailed(name="broken", message="disconnected"),
        McpServerFailed(name="lost", message="dropped: its settings were not understood"),
    ]


def test_a_tool_of_a_server_that_fails_was_not_denied() -> None:
    (failed,) = [event for event in events_of(DRIVER, "mcp") if isinstance(event, ToolFailed)]
    assert (failed.name, failed.denied) == ("mcp__notes__fail", False)


def test_a_plan_is_told_with_the_tool_that_writes_it() -> None:
    assert [event for event in events_of(DRIVER, "todo") if isinstance(event, PlanChanged)] == [
        PlanChanged(
            steps=[
                PlanStep(text="first", state="done"),
                PlanStep(text="second", state="active"),
                PlanStep(text="third"),
            ]
        )
    ]


def test_tokens_of_a_subagent_are_in_the_turns() -> None:
    assert events_of(DRIVER, "subagent")[-1] == TurnCompleted(usage=sum([CALL] * 4, Usage()))


def test_thoughts_are_output_where_the_provider_counts_them_apart() -> None:
    assert events_of(DRIVER, "google")[-1] == TurnCompleted(usage=Usage(input=220, output=14, cache_read=40))


@pytest.mark.parametrize(
    ("told", "fields", "used"),
    [
        (CALL, {"resume": "@last"}, CALL),
        (NONE, {"resume": "@last"}, CALL),
        (NONE, {}, CALL + CALL),
    ],
    ids=["counted on from what was told", "counted by calls where nothing was told", "a session from its start"],
)
def test_a_resumed_turn_is_counted_alone(told: Usage, fields: dict[str, str], used: Usage) -> None:
    reader = dialect(told, **fields)
    lines = (RECORDINGS / "qwen" / "resumed.jsonl").read_bytes().splitlines()
    events = [event for line in lines for event in reader.receive(line).events]
    assert events[-1] == TurnCompleted(usage=used)


@pytest.mark.parametrize(("name", "told"), FAILED.items())
def test_a_failed_turn_says_how(name: str, told: tuple[str, int | None]) -> None:
    last = events_of(DRIVER, name)[-1]
    assert isinstance(last, TurnFailed)
    assert (last.failure, last.status) == told
    assert RECORDED["exit_codes"][name] == 1


@pytest.mark.parametrize("name", FAILED)
def test_the_programs_own_words_for_a_failed_call_are_no_answer(name: str) -> None:
    texts = [event.text for event in events_of(DRIVER, name) if isinstance(event, TextSaid)]
    wanted = {
        "err-cut": ["so farso farso farso far"],
        "err-command": ['The command "/help" is not supported in this mode.'],
    }
    assert texts == wanted.get(name, [])


def test_calls_that_are_made_again_are_told() -> None:
    again = [event for event in events_of(DRIVER, "err-cut") if isinstance(event, ErrorReported)]
    assert again == [ErrorReported(message="a model call failed; the agent tries again")] * 3


def test_words_that_look_like_an_error_are_text_when_the_turn_goes_on() -> None:
    words = "It printed [API Error: 401 no]"
    result = {"type": "result", "subtype": "success", "usage": {"input_tokens": 1, "total_tokens": 1}}
    kept = [TextSaid(text="It printed "), TextSaid(text="[API Error: 401 no]")]
    assert read_frames(assistant_frame(words), result) == [*kept, TurnCompleted(usage=Usage(input=1))]
    assert read_frames(assistant_frame(words), assistant_frame("And on.")) == [*kept, TextSaid(text="And on.")]
    blocks = [{"type": "text", "text": words}] * 2
    assert read_frames({"type": "assistant", "message": {"content": blocks}}, result)[:-1] == [*kept, *kept]


def test_turns_that_are_used_up_end_without_a_result() -> None:
    reader = dialect()
    lines = (RECORDINGS / "qwen" / "max-turns.jsonl").read_bytes().splitlines()
    events = [event for line in lines for event in reader.receive(line).events]
    assert not [event for event in events if isinstance(event, TurnCompleted | TurnFailed)]
    (line,) = RECORDED["stderr"]["max-turns"]
    assert reader.receive_stderr(line.encode()).events == [
        TurnFailed(failure="max_turns", message=line, usage=CALL + CALL)
    ]
    assert reader.receive_stderr(b"Retrying provider attempt").events == ()


def test_a_session_that_is_not_there_is_told_by_stderr_alone() -> None:
    (line,) = RECORDED["stderr"]["no-session"]
    assert match_failure(FAILURES, line) == "session_not_found"


def test_a_denial_in_the_words_of_0_21_is_one_too() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True}
    words = f'Tool "{SHELL}" is denied by permission rules.'
    (failed,) = read_frames({"type": "user", "message": {"content": [{**result, "content": words}]}})
    assert failed == ToolFailed(id="a", output=words, denied=True)


def test_a_background_command_has_not_run_to_its_end() -> None:
    call = {"type": "tool_use", "id": "a", "name": SHELL, "input": {"command": "serve", "is_background": True}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "Background shell started."}
    events = read_frames(
        {"type": "assistant", "message": {"content": [call]}}, {"type": "user", "message": {"content": [result]}}
    )
    assert [type(event) for event in events] == [ToolStarted, ToolCompleted]


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (b'{"type":"news","subtype":"x"}', "frame 'news' x"),
        (b'{"type":"system","subtype":"news"}', "frame 'system' news"),
        (b"Update available!", "JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_what_nobody_knows_is_kept(line: bytes, note: str) -> None:
    assert dialect().receive(line).events == [Unrecognized(raw=line.decode(), note=note)]


@pytest.mark.parametrize("name", names("qwen"))
def test_every_frame_of_every_recording_is_known(name: str) -> None:
    assert [event for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)] == []


def test_settings_of_the_user_that_cannot_be_read_are_named() -> None:
    line = "Error: Cannot read operator sandbox policy from /HOME/.qwen/settings.json: SyntaxError: Unexpected token"
    assert match_failure(FAILURES, line) == "environment"
