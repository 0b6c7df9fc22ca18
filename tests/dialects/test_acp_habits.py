"""What single agents do differently in the Agent Client Protocol, as their habits say it."""

import re
from typing import Any

import msgspec

from inspan.dialects.acp.command_line import option_value, remove_options
from inspan.dialects.acp.profile import AcpProfile, SideLine
from inspan.dialects.acp.scrubber import scrub_line
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.protocol.events import (
    CommandExecuted,
    McpServerFailed,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
)
from inspan.protocol.usage import Usage

from .acp_wire import AcpWire

_RUN = {"toolCallId": "t", "title": "sh", "kind": "execute", "status": "in_progress", "rawInput": {"command": "ls"}}
_STARTED = ToolStarted(id="t", name="sh", input={"command": "ls"})


def _read_side_line(line: bytes) -> SideLine | None:
    told = msgspec.json.decode(line, type=dict[str, Any])
    if "tokens" in told:
        return SideLine(usage=Usage(input=told["tokens"]))
    if "failed" in told:
        return SideLine(problem=told["failed"])
    if "server" in told:
        return SideLine(events=[McpServerFailed(name=told["server"])])
    return SideLine(id="t", output=told["out"], exit_code=told.get("code")) if "out" in told else None


def _chunk(wire: AcpWire, text: str) -> None:
    wire.update("agent_message_chunk", content={"type": "text", "text": text})


def test_tokens_told_beside_the_protocol_are_summed() -> None:
    wire = AcpWire(habits=AcpProfile(usage_scope="call", parse_side_line=_read_side_line)).open_session()
    for count in (3, 4):
        wire.receive(b'{"tokens": %d}' % count)
    wire.receive_message(id=100, result={"stopReason": "end_turn", "usage": {"inputTokens": 4, "outputTokens": 1}})
    assert wire.events[2:] == [TurnCompleted(usage=Usage(input=7))]


def test_a_call_waits_for_what_is_told_of_it_beside_the_protocol() -> None:
    wire = AcpWire(habits=AcpProfile(parse_side_line=_read_side_line, waits_for_side_line=True)).open_session()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed")
    assert wire.events[2:] == [_STARTED]
    wire.receive(b'{"out": "gone", "code": 3}')
    assert wire.events[3:] == [
        ToolFailed(id="t", name="sh", output="gone"),
        CommandExecuted(id="t", command="ls", exit_code=3),
    ]


def test_a_call_of_which_nothing_more_is_told_ends_before_the_next_text() -> None:
    wire = AcpWire(habits=AcpProfile(parse_side_line=_read_side_line, waits_for_side_line=True)).open_session()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="out")
    _chunk(wire, "Done.")
    wire.receive_message(id=100, result={"stopReason": "end_turn"})
    assert wire.events[3:] == [
        ToolCompleted(id="t", name="sh", output="out"),
        CommandExecuted(id="t", command="ls"),
        TextSaid(text="Done."),
        TurnCompleted(),
    ]


def test_a_failure_told_beside_the_protocol_fails_the_turn_however_it_ends() -> None:
    wire = AcpWire(habits=AcpProfile(parse_side_line=_read_side_line)).open_session()
    wire.receive(b'{"failed": "429 Too Many Requests"}')
    wire.receive(b'{"server": "shop"}')
    wire.receive_message(id=100, result={"stopReason": "cancelled"})
    assert wire.events[2:] == [
        McpServerFailed(name="shop"),
        TurnFailed(failure="rate_limit", message="429 Too Many Requests"),
    ]


def test_an_agent_that_says_that_it_tries_again_is_cancelled_once() -> None:
    habits = AcpProfile(classify_notice=lambda update: "aside", retry_pattern=re.compile("Retrying"))
    wire = AcpWire(habits=habits).open_session()
    before = len(wire.said)
    _chunk(wire, "Info: 500. Retrying...")
    _chunk(wire, "Info: 500. Retrying...")
    assert [message["method"] for message in wire.said[before:]] == ["session/cancel"]
    wire.receive_message(id=100, result={"stopReason": "cancelled"})
    assert wire.events[2:] == [TurnFailed(failure="overloaded", message="Info: 500. Retrying...")]


def test_a_call_that_the_agent_itself_did_not_let_run_was_denied() -> None:
    wire = AcpWire(habits=AcpProfile(refusal_pattern=re.compile("skipped"))).open_session()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="skipped in this mode")
    assert wire.events[3:] == [ToolFailed(id="t", name="sh", output="skipped in this mode", denied=True)]


def test_what_stands_behind_an_output_is_read_and_left_out() -> None:
    habits = AcpProfile(trailer_pattern=re.compile(r"\n<exited with exit code \d+>$"))
    wire = AcpWire(habits=habits).open_session()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="out\n<exited with exit code 2>")
    assert wire.events[3:] == [
        ToolFailed(id="t", name="sh", output="out"),
        CommandExecuted(id="t", command="ls", exit_code=2),
    ]


def test_an_agent_that_tells_no_code_of_a_success_left_with_zero() -> None:
    wire = AcpWire(habits=AcpProfile(implies_exit_zero=True)).open_session()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="out")
    assert wire.events[-1] == CommandExecuted(id="t", command="ls", exit_code=0)


def test_a_mode_that_is_an_option_is_set_as_one() -> None:
    option = {
        "id": "mode",
        "category": "mode",
        "currentValue": "build",
        "options": [{"value": "build"}, {"value": "own"}],
    }
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", modes=["own"])).open_session(configOptions=[option])
    assert wire.said[-1]["params"] == {"sessionId": "s", "configId": "mode", "value": "own"}


def test_a_mode_that_is_the_current_one_is_left_alone() -> None:
    modes = {"currentModeId": "own", "availableModes": [{"id": "own"}]}
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", modes=["own"])).open_session(modes=modes)
    assert wire.said[-1]["method"] == "session/prompt"


def test_a_recorded_line_has_no_descriptions_in_it() -> None:
    told = b'{"params":{"update":{"availableCommands":[{"name":"x","description":"long"}]}}}'
    assert scrub_line(told) == b'{"params":{"update":{"availableCommands":[]}}}'
    skills = b'{"availableCommands":[],"_meta":{"availableSkills":["a"],"details":[{"name":"a","body":"long"}]}}'
    assert scrub_line(skills) == (b'{"availableCommands":[],"_meta":{"availableSkills":[],"details":[{"name":"a"}]}}')
    assert scrub_line(b'{"modes":{"availableModes":[{"id":"a","description":"long"}]}}') == (
        b'{"modes":{"availableModes":[{"id":"a"}]}}'
    )
    assert [scrub_line(line) for line in (b"plain", b'{"availableCommands": [')] == [
        b"plain",
        b'{"availableCommands": [',
    ]


def test_options_are_taken_out_of_a_command_line_with_their_values() -> None:
    argv = ("--format", "json", "--model=big", "--quiet", "--dir", "/a", "--format=x", "word")
    assert remove_options(argv, ("--format", "--model"), flags=("--quiet",)) == ("--dir", "/a", "word")
    assert (option_value(argv, "--dir"), option_value(argv, "--none"), option_value(argv, "word")) == ("/a", "", "")
