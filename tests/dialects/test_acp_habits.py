"""What single agents do differently in the Agent Client Protocol, as their habits say it."""

import re
from typing import Any

import msgspec

from inspan.dialects.acp.command_line import after, without
from inspan.dialects.acp.opening import Opening
from inspan.dialects.acp.recordable import recordable
from inspan.dialects.acp.speaker import Beside, Habits
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

from .wires import Wire

_RUN = {"toolCallId": "t", "title": "sh", "kind": "execute", "status": "in_progress", "rawInput": {"command": "ls"}}
_STARTED = ToolStarted(id="t", name="sh", input={"command": "ls"})


def _beside(line: bytes) -> Beside | None:
    told = msgspec.json.decode(line, type=dict[str, Any])
    if "tokens" in told:
        return Beside(usage=Usage(input=told["tokens"]))
    if "failed" in told:
        return Beside(problem=told["failed"])
    if "server" in told:
        return Beside(events=[McpServerFailed(name=told["server"])])
    return Beside(id="t", output=told["out"], exit_code=told.get("code")) if "out" in told else None


def _chunk(wire: Wire, text: str) -> None:
    wire.update("agent_message_chunk", content={"type": "text", "text": text})


def test_tokens_told_beside_the_protocol_are_summed() -> None:
    wire = Wire(habits=Habits(usage="call", beside=_beside)).opened()
    for count in (3, 4):
        wire.receive(b'{"tokens": %d}' % count)
    wire.hear(id=100, result={"stopReason": "end_turn", "usage": {"inputTokens": 4, "outputTokens": 1}})
    assert wire.events[2:] == [TurnCompleted(usage=Usage(input=7))]


def test_a_call_waits_for_what_is_told_of_it_beside_the_protocol() -> None:
    wire = Wire(habits=Habits(beside=_beside, waits=True)).opened()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed")
    assert wire.events[2:] == [_STARTED]
    wire.receive(b'{"out": "gone", "code": 3}')
    assert wire.events[3:] == [
        ToolFailed(id="t", name="sh", output="gone"),
        CommandExecuted(id="t", command="ls", exit_code=3),
    ]


def test_a_call_of_which_nothing_more_is_told_ends_before_the_next_text() -> None:
    wire = Wire(habits=Habits(beside=_beside, waits=True)).opened()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="out")
    _chunk(wire, "Done.")
    wire.hear(id=100, result={"stopReason": "end_turn"})
    assert wire.events[3:] == [
        ToolCompleted(id="t", name="sh", output="out"),
        CommandExecuted(id="t", command="ls"),
        TextSaid(text="Done."),
        TurnCompleted(),
    ]


def test_a_failure_told_beside_the_protocol_fails_the_turn_however_it_ends() -> None:
    wire = Wire(habits=Habits(beside=_beside)).opened()
    wire.receive(b'{"failed": "429 Too Many Requests"}')
    wire.receive(b'{"server": "shop"}')
    wire.hear(id=100, result={"stopReason": "cancelled"})
    assert wire.events[2:] == [
        McpServerFailed(name="shop"),
        TurnFailed(failure="rate_limit", message="429 Too Many Requests"),
    ]


def test_an_agent_that_says_that_it_tries_again_is_cancelled_once() -> None:
    habits = Habits(own_words=lambda update: "aside", retrying=re.compile("Retrying"))
    wire = Wire(habits=habits).opened()
    before = len(wire.said)
    _chunk(wire, "Info: 500. Retrying...")
    _chunk(wire, "Info: 500. Retrying...")
    assert [message["method"] for message in wire.said[before:]] == ["session/cancel"]
    wire.hear(id=100, result={"stopReason": "cancelled"})
    assert wire.events[2:] == [TurnFailed(failure="overloaded", message="Info: 500. Retrying...")]


def test_a_call_that_the_agent_itself_did_not_let_run_was_denied() -> None:
    wire = Wire(habits=Habits(refused=re.compile("skipped"))).opened()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="skipped in this mode")
    assert wire.events[3:] == [ToolFailed(id="t", name="sh", output="skipped in this mode", denied=True)]


def test_what_stands_behind_an_output_is_read_and_left_out() -> None:
    habits = Habits(trailer=re.compile(r"\n<exited with exit code \d+>$"))
    wire = Wire(habits=habits).opened()
    wire.update("tool_call", **_RUN)
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput="out\n<exited with exit code 2>")
    assert wire.events[3:] == [
        ToolFailed(id="t", name="sh", output="out"),
        CommandExecuted(id="t", command="ls", exit_code=2),
    ]


def test_an_agent_that_tells_no_code_of_a_success_left_with_zero() -> None:
    wire = Wire(habits=Habits(zero_if_done=True)).opened()
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
    wire = Wire(opening=Opening(cwd="/WORK", modes=["own"])).opened(configOptions=[option])
    assert wire.said[-1]["params"] == {"sessionId": "s", "configId": "mode", "value": "own"}


def test_a_mode_that_is_the_current_one_is_left_alone() -> None:
    modes = {"currentModeId": "own", "availableModes": [{"id": "own"}]}
    wire = Wire(opening=Opening(cwd="/WORK", modes=["own"])).opened(modes=modes)
    assert wire.said[-1]["method"] == "session/prompt"


def test_a_recorded_line_has_no_descriptions_in_it() -> None:
    told = b'{"params":{"update":{"availableCommands":[{"name":"x","description":"long"}]}}}'
    assert recordable(told) == b'{"params":{"update":{"availableCommands":[]}}}'
    skills = b'{"availableCommands":[],"_meta":{"availableSkills":["a"],"details":[{"name":"a","body":"long"}]}}'
    assert recordable(skills) == (b'{"availableCommands":[],"_meta":{"availableSkills":[],"details":[{"name":"a"}]}}')
    assert recordable(b'{"modes":{"availableModes":[{"id":"a","description":"long"}]}}') == (
        b'{"modes":{"availableModes":[{"id":"a"}]}}'
    )
    assert [recordable(line) for line in (b"plain", b'{"availableCommands": [')] == [
        b"plain",
        b'{"availableCommands": [',
    ]


def test_options_are_taken_out_of_a_command_line_with_their_values() -> None:
    argv = ("--format", "json", "--model=big", "--quiet", "--dir", "/a", "--format=x", "word")
    assert without(argv, ("--format", "--model"), flags=("--quiet",)) == ("--dir", "/a", "word")
    assert (after(argv, "--dir"), after(argv, "--none"), after(argv, "word")) == ("/a", "", "")
