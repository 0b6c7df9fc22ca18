"""Pi 1.5.0 and 0.87.1, as recorded: the stream of `pi --mode json`, and the session files that it leaves."""

import json

import pytest

from inspan.contracts.driver import match_failure
from inspan.drivers.pi import DRIVER
from inspan.drivers.pi.scrubber import scrub_line
from inspan.drivers.pi.transcript import read
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
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import RECORDINGS, events_of, kinds_of, names

FOLDER = RECORDINGS / "pi"
CALL = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
BASH, WRITE, EDIT = "toolu_7fd1f0bd173c7db5efcbbeac", "toolu_df18bfe5162c07c0553be326", "toolu_e6ecee28803ea350061d3780"
OVER, FINE = "toolu_a8e67620d6eada1cbe3a2da8", "toolu_8e727bc15575bb0c79f9d57c"
WORK: list[Event] = [
    ThreadStarted(session_id="efefecdf-ebe3-4549-a817-049cff79bf5f"),
    TurnStarted(),
    ReasoningSaid(text="Two files."),
    TextSaid(text="I will look."),
    ToolStarted(id=BASH, name="bash", input={"command": "echo out; exit 3"}),
    ToolFailed(id=BASH, name="bash", output="out\n\n\nCommand exited with code 3"),
    CommandExecuted(id=BASH, command="echo out; exit 3", exit_code=3),
    ToolStarted(id=WRITE, name="write", input={"path": "/WORK/new.txt", "content": "one\n"}),
    ToolCompleted(id=WRITE, name="write", output="Successfully wrote to /WORK/new.txt"),
    FileChanged(path="/WORK/new.txt", change="added", id=WRITE),
    ToolStarted(id=EDIT, name="edit", input={"path": "/WORK/new.txt", "edits": [{"oldText": "one", "newText": "two"}]}),
    ToolCompleted(id=EDIT, name="edit", output="Successfully replaced 1 block(s) in /WORK/new.txt."),
    FileChanged(path="/WORK/new.txt", change="modified", id=EDIT),
    ToolStarted(id=OVER, name="write", input={"path": "/WORK/old.txt", "content": "x"}),
    ToolCompleted(id=OVER, name="write", output="Successfully wrote to /WORK/old.txt"),
    FileChanged(path="/WORK/old.txt", change="modified", id=OVER),
    ToolStarted(id=FINE, name="bash", input={"command": "echo fine"}),
    ToolCompleted(id=FINE, name="bash", output="fine\n"),
    CommandExecuted(id=FINE, command="echo fine", exit_code=0),
    TextSaid(text="Done."),
    TurnCompleted(usage=Usage(input=600, output=42, cache_read=120, cache_write=60, reasoning=18), cost_usd=0.000897),
]
# Recording → how its turn failed.
FAILURES = {
    "err-401": ("authentication", "Invalid API key.", 401),
    "err-401-responses": ("authentication", "Invalid API key.", 401),
    "err-401-chat": ("authentication", "Invalid API key.", 401),
    "err-401-generate": ("authentication", "Invalid API key.", 401),
    "err-429": ("rate_limit", "Rate limit reached.", 429),
    "err-529": ("overloaded", "Overloaded.", 529),
    "err-context": ("context_too_long", "prompt is too long: 210000 tokens > 200000 maximum", 400),
    "err-cut": ("network", "terminated", None),
    "err-garbage": ("invalid_response", "Anthropic stream ended without a stop reason", None),
}


def read_frames(*frames: object) -> list[Event]:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    return [event for frame in frames for event in dialect.receive(json.dumps(frame).encode()).events]


def assistant(**fields: object) -> dict[str, object]:
    return {"type": "message_end", "message": {"role": "assistant", "content": [], **fields}}


def test_work_is_told_from_its_first_thought_to_what_it_cost() -> None:
    assert events_of(DRIVER, "work") == WORK


def test_a_saved_session_tells_the_same_story() -> None:
    assert read((FOLDER / "work.session").read_bytes()) == WORK
    assert read((FOLDER / "err-401.session").read_bytes()) == events_of(DRIVER, "err-401")


def test_the_older_version_tells_its_work_in_the_same_words() -> None:
    assert kinds_of(DRIVER, "work-0.87") == (
        "ThreadStarted TurnStarted ReasoningSaid ToolStarted ToolFailed CommandExecuted "
        "ToolStarted ToolCompleted FileChanged TextSaid TurnCompleted"
    )


def test_text_comes_in_pieces_where_they_are_asked_for() -> None:
    whole = events_of(DRIVER, "answer")
    assert events_of(DRIVER, "answer", partial=True) == [
        *whole[:2],
        TextDelta(block="3/0", text="Hello "),
        TextDelta(block="3/0", text="there."),
        *whole[2:],
    ]
    assert whole[2:] == [TextSaid(text="Hello there."), TurnCompleted(usage=CALL, cost_usd=0.0001495)]


def test_what_a_tool_puts_out_is_told_where_pieces_are_asked_for() -> None:
    told = [event for event in events_of(DRIVER, "work", partial=True) if isinstance(event, ToolOutput)]
    assert [event.text for event in told] == ["out\n", "fine\n"]
    assert not any(isinstance(event, ToolOutput) for event in events_of(DRIVER, "work"))


@pytest.mark.parametrize(
    ("wire", "usage"),
    [("responses", CALL), ("chat", CALL), ("generate", Usage(input=110, output=7, cache_read=20, reasoning=3))],
)
def test_every_wire_tells_reasoning_text_and_usage_alike(wire: str, usage: Usage) -> None:
    *_, reasoning, text, ended = events_of(DRIVER, wire)
    assert (reasoning, text) == (ReasoningSaid(text="hm"), TextSaid(text="x"))
    assert isinstance(ended, TurnCompleted)
    assert ended.usage == usage


@pytest.mark.parametrize(("name", "told"), FAILURES.items())
def test_a_failed_turn_tells_its_kind_its_words_and_its_status(name: str, told: tuple[str, str, int | None]) -> None:
    last = events_of(DRIVER, name)[-1]
    assert isinstance(last, TurnFailed)
    assert (last.failure, last.message, last.status) == told


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_its_exit_code_says_nothing_of_a_failed_turn(name: str) -> None:
    recorded = json.loads((FOLDER / "recordings.json").read_bytes())[name]
    assert recorded["exit_code"] == 0


def test_a_tool_that_is_not_offered_is_a_denial() -> None:
    for name, tool in (("review", "write"), ("complete", "bash")):
        assert summarize(events_of(DRIVER, name)).denied == [tool]


def test_a_command_beyond_its_pattern_is_a_denial_and_no_command() -> None:
    failed, executed = (
        [event for event in events_of(DRIVER, "allowed") if isinstance(event, kind)]
        for kind in (ToolFailed, CommandExecuted)
    )
    words = "Not allowed in this run: more than one plain command"
    assert failed == [ToolFailed(id="toolu_f3d60c05620e75193de4530b", name="bash", output=words, denied=True)]
    assert [event.command for event in executed if isinstance(event, CommandExecuted)] == ["ls -a"]


def test_a_tool_of_a_server_is_a_tool_like_any_other() -> None:
    call = "toolu_7755dff3a5096944b635de70"
    assert events_of(DRIVER, "mcp")[2:4] == [
        ToolStarted(id=call, name="mcp__my_box__echo", input={"text": "hi"}),
        ToolCompleted(id=call, name="mcp__my_box__echo", output="echo: hi"),
    ]


def test_a_server_that_failed_is_overheard_and_nothing_else_is() -> None:
    lines = json.loads((FOLDER / "recordings.json").read_bytes())["mcp-failed"]["stderr"]
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    assert [event for line in lines for event in dialect.receive_stderr(line.encode()).events] == [
        McpServerFailed(name="my-box", message="it did not start, or has no tools")
    ]


def test_a_call_that_it_tries_again_belongs_to_the_same_turn() -> None:
    assert events_of(DRIVER, "retry")[1:] == [
        TurnStarted(),
        ErrorReported(message="model call failed (Overloaded.); the agent tries again"),
        TextSaid(text="again"),
        TurnCompleted(usage=CALL, cost_usd=0.0001495),
    ]


def test_line_separators_of_other_alphabets_stay_in_their_texts() -> None:
    said = [event for event in events_of(DRIVER, "unicode") if isinstance(event, ToolCompleted | TextSaid)]
    call = "toolu_53a70afa610c79bf7a5f7a10"
    assert said == [ToolCompleted(id=call, name="bash", output="a\u2028b 😀"), TextSaid(text="a\u2028b")]


@pytest.mark.parametrize("name", names("pi"))
def test_every_line_of_every_recording_is_known(name: str) -> None:
    assert [event for event in events_of(DRIVER, name) if isinstance(event, Unrecognized)] == []


def test_every_recording_names_its_version() -> None:
    recorded = json.loads((FOLDER / "recordings.json").read_bytes())
    assert sorted(recorded) == names("pi")
    assert {each["version"] for each in recorded.values()} == {"1.5.0", "0.87.1"}


def test_what_is_not_known_is_kept_as_it_came() -> None:
    dialect = DRIVER.channels[0].dialect(Task(prompt="do it", cwd="/WORK"), SessionTotals())
    told = [event for line in (b'{"type":"news"}', b"[1]", b"\xff{") for event in dialect.receive(line).events]
    assert [(type(event), getattr(event, "raw", "")) for event in told] == [
        (Unrecognized, '{"type":"news"}'),
        (Unrecognized, "[1]"),
        (Unrecognized, "\ufffd{"),
    ]


def test_what_a_summary_and_a_tool_have_spent_is_part_of_the_turn() -> None:
    spent = {"input": 5, "output": 2, "cost": {"total": 0.5}}
    told = read_frames(
        {"type": "agent_start"},
        assistant(stopReason="stop", usage=spent),
        {"type": "compaction_end", "reason": "threshold", "result": {"summary": "short", "usage": spent}},
        {"type": "tool_execution_end", "toolCallId": "a", "toolName": "codemode", "result": {"usage": spent}},
        {
            "type": "tool_execution_end",
            "toolCallId": "a/1",
            "parentToolCallId": "a",
            "toolName": "read",
            "result": {"usage": spent},
        },
        {"type": "agent_settled"},
    )
    assert told[-1] == TurnCompleted(usage=Usage(input=15, output=6), cost_usd=1.5)


def test_a_model_without_a_price_costs_an_unknown_amount() -> None:
    usage = {"input": 5, "output": 2, "cost": {"total": 0}}
    told = read_frames({"type": "agent_start"}, assistant(stopReason="stop", usage=usage), {"type": "agent_settled"})
    assert told[-1] == TurnCompleted(usage=Usage(input=5, output=2), cost_usd=None)


def test_an_answer_that_was_cut_off_is_said_to_be() -> None:
    (told,) = read_frames(assistant(stopReason="length"))
    assert told == ErrorReported(message="the answer was cut off: it is as long as the model's answers may be")


def test_a_tool_within_a_tool_names_it() -> None:
    frame = {"type": "tool_execution_start", "toolCallId": "a/1", "parentToolCallId": "a", "toolName": "read"}
    assert read_frames(frame) == [ToolStarted(id="a/1", name="read", parent="a")]


def test_a_file_is_told_by_its_whole_path() -> None:
    given = {"toolCallId": "a", "toolName": "edit"}
    told = read_frames(
        {"type": "session", "id": "s", "cwd": "/ELSEWHERE"},
        {"type": "tool_execution_start", **given, "args": {"path": "./in/f.txt"}},
        {"type": "tool_execution_end", **given, "result": {}, "isError": False},
    )
    assert told[-1] == FileChanged(path="/ELSEWHERE/in/f.txt", change="modified", id="a")


@pytest.mark.parametrize(("words", "kind"), [("503: {}", "overloaded"), ("418 {}", "unknown")])
def test_a_status_tells_the_kind_of_failure_where_no_words_do(words: str, kind: str) -> None:
    failed = assistant(stopReason="error", errorMessage=words)
    last = read_frames({"type": "agent_start"}, failed, {"type": "agent_settled"})[-1]
    assert isinstance(last, TurnFailed)
    assert (last.failure, last.message, last.status) == (kind, words, int(words[:3]))


def test_a_call_in_a_message_that_broke_off_was_never_made() -> None:
    call = {"type": "toolCall", "id": "a", "name": "bash", "arguments": {"command": "ls"}}
    entry = {"type": "message", "message": {"role": "assistant", "content": [call], "stopReason": "error"}}
    assert read(json.dumps(entry).encode()) == []


def test_a_session_of_two_turns_counts_each_and_tells_of_a_torn_line() -> None:
    first = (FOLDER / "err-401.session").read_bytes()
    torn = b'{"type":"message","mess'
    kinds = [type(event).__name__ for event in read(first + first + torn)]
    once = ["ThreadStarted", "TurnStarted"]
    assert kinds == [*once, "ThreadStarted", "TurnFailed", "TurnStarted", "Unrecognized", "TurnFailed"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("No session found matching 'e59f5ec6'", "session_not_found"),
        ("Warning: No project session found with id 'e59f5ec6'; creating a new session with that id.", None),
        ("No API key found for openai.", "authentication"),
        ('Error: Model "nosuch/x" not found. Use --list-models to see available models.', "model_not_found"),
        ('Error: Failed to load extension "/x.mjs"', "environment"),
        ("inspan: openai/gpt-5.2 does not go through the gateway: choose a model of anthropic", "environment"),
        ("The model refused to complete the request", "refused"),
        ("connect ECONNREFUSED 127.0.0.1:9", "network"),
    ],
)
def test_its_last_words_tell_the_kind_of_failure(words: str, kind: str | None) -> None:
    assert match_failure(DRIVER.failures, words) == kind


def test_its_own_prompt_is_not_recorded() -> None:
    prompt = b'{"role":"system","content":"","sections":{"preamble":"words of the vendor"}}'
    said = b'{"role":"assistant","content":[{"type":"text","text":"hello"}]}'
    line = b'{"type":"agent_end","messages":[%b,%b]}'
    assert scrub_line(line % (prompt, said)) == line % (b'{"role":"system","content":""}', said)
    assert [scrub_line(each) for each in (b'{"type":"agent_start"}', b'{"role":"system"')] == [
        b'{"type":"agent_start"}',
        b'{"role":"system"',
    ]
