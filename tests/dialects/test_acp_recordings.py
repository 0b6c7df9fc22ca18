"""The dialect on what real agents said."""

import pytest

from inspan.protocol.events import (
    CommandExecuted,
    Event,
    FileChanged,
    PermissionAnswered,
    PermissionAsked,
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
from inspan.protocol.usage import SessionTotals, Usage

from .acp_wire import load_recorded, names

_COMMAND = "echo mock-tool > mock_out.txt; cat mock_out.txt"
_DONE = TextSaid(text="MOCK-DONE after tool.")


def _permission_events(identity: str, name: str, given: dict[str, str], *, mode: str = "exec") -> list[Event]:
    return [
        ToolStarted(id=identity, name=name, input=given),
        PermissionAsked(id=identity, tool=name, input=given),
        PermissionAnswered(id=identity, allowed=True, by="policy", reason=f"mode {mode}"),
    ]


def test_a_command_is_told_from_its_first_word_to_its_last() -> None:
    assert load_recorded("goose-tool").events == [
        ThreadStarted(session_id="20261115_5", model="gpt-4o", agent_version="1.52.0"),
        TurnStarted(),
        *_permission_events("call_mock52", "shell", {"command": _COMMAND}),
        ToolCompleted(id="call_mock52", name="shell", output="mock-tool"),
        CommandExecuted(id="call_mock52", command=_COMMAND, exit_code=0),
        _DONE,
        TurnCompleted(usage=Usage(input=101, output=7), cost_usd=0.0006375),
    ]


def test_a_file_that_is_written_through_us_is_told_with_its_call() -> None:
    given = {"content": "mock-written\n", "filePath": "mock_written.txt"}
    wire = load_recorded("opencode-write")
    started, _, answered = _permission_events("toolu_mock225", "write", given)
    stated = next(each.input for each in wire.events if isinstance(each, PermissionAsked))
    assert stated == {**given, "filepath": "/WORK/mock_written.txt", "diff": stated["diff"]}
    assert wire.events[2:] == [
        started,
        PermissionAsked(id="toolu_mock225", tool="write", input=stated),
        answered,
        FileChanged(path="/WORK/mock_written.txt", change="added", id="toolu_mock225"),
        ToolCompleted(id="toolu_mock225", name="write", output="Wrote file successfully."),
        _DONE,
        TurnCompleted(usage=Usage(input=101, output=7, cache_read=3)),
    ]
    assert {"jsonrpc": "2.0", "id": 1, "result": {}} in wire.said


def test_output_that_is_streamed_beside_the_protocol_is_put_together() -> None:
    assert load_recorded("codex-tool").events[4:7] == [
        ToolStarted(id="call_mock72", name="exec_command", input={"command": _COMMAND, "cwd": "/WORK"}),
        ToolCompleted(id="call_mock72", name="exec_command", output="mock-tool\n"),
        CommandExecuted(id="call_mock72", command=_COMMAND, exit_code=0),
    ]


def test_a_command_that_stands_only_in_a_title_is_found_there() -> None:
    identity = "run_shell_command__run_shell_command_1794724988833_0"
    assert load_recorded("gemini-tool").events[2:7] == [
        *_permission_events(identity, _COMMAND, {"command": _COMMAND}),
        ToolCompleted(id=identity, name=_COMMAND),
        CommandExecuted(id=identity, command=_COMMAND),
    ]


def test_the_past_of_a_session_is_not_told_again() -> None:
    told = SessionTotals(cost_usd=0.00031875)
    assert load_recorded("goose-load", told=told).events == [
        ThreadStarted(session_id="20261115_15", model="gpt-4o", agent_version="1.52.0"),
        TurnStarted(),
        TextSaid(text="MOCK-TEXT-OK hello."),
        TurnCompleted(usage=Usage(input=101, output=7), cost_usd=0.00031875),
    ]


def test_tokens_that_are_told_call_by_call_are_summed() -> None:
    assert load_recorded("qwen-tool").events[-1] == TurnCompleted(usage=Usage(input=196, output=14, cache_read=6))


# What the input includes is told by the total: with the cached tokens in it, and without.
@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("copilot-tool", Usage(input=202, output=14, cache_read=6)),
        ("codex-tool", Usage(input=196, output=14, cache_read=6)),
        ("claude-tool", Usage(input=202, output=14, cache_read=6)),
        ("gemini-tool", Usage(input=202, output=14)),
        ("pi-tool", None),
    ],
)
def test_tokens_are_told_in_our_sense(name: str, usage: Usage | None) -> None:
    ended = load_recorded(name).events[-1]
    assert isinstance(ended, TurnCompleted)
    assert ended.usage == usage


@pytest.mark.parametrize(
    ("name", "message", "status"),
    [
        ("goose-e401", "Authentication required", None),
        ("claude-e401", "Authentication required", None),
        ("codex-e401", "Authentication required", None),
        ("opencode-e401", "Internal error: mock invalid api key", None),
        ("qwen-e401", "Internal error: 401 mock invalid api key", None),
        ("gemini-e401", '{"error":{"code":401,"message":"mock invalid api key","status":"UNAUTHENTICATED"}}', 401),
    ],
)
def test_a_refused_key_ends_the_turn_as_that(name: str, message: str, status: int | None) -> None:
    wire = load_recorded(name)
    assert wire.done
    assert wire.events[-1] == TurnFailed(failure="authentication", message=message, status=status)


@pytest.mark.parametrize("name", [name for name in names() if name.endswith("-deny")])
def test_in_a_completion_every_tool_is_refused(name: str) -> None:
    wire = load_recorded(name, mode="complete")
    denied = [event for event in wire.events if isinstance(event, ToolFailed)]
    answers = [event for event in wire.events if isinstance(event, PermissionAnswered)]
    assert [(event.denied, event.output != "") for event in denied] == [(True, True)]
    assert [(event.allowed, event.reason) for event in answers] == [(False, "mode complete")]
    refusals = [message["result"]["outcome"] for message in wire.said if "outcome" in str(message.get("result"))]
    assert [refusal["outcome"] for refusal in refusals] == ["selected"]
    assert refusals[0]["optionId"] in ("reject_once", "reject", "cancel")


@pytest.mark.parametrize("name", names())
def test_every_frame_is_known_but_for_methods_of_their_own(name: str) -> None:
    own = ("notification _auth/status_update", "request craft/drainMidTurnQueue")
    unknown = [event.note for event in load_recorded(name).events if isinstance(event, Unrecognized)]
    assert [note for note in unknown if note not in own] == []


@pytest.mark.parametrize("name", names())
def test_every_conversation_ends(name: str) -> None:
    assert load_recorded(name).done
