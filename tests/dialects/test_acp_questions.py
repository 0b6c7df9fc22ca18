"""Questions in the Agent Client Protocol: which are asked, in which words, and what each turn of a process used."""

from typing import Any

import pytest

from inspan.dialects.acp.profile import AcpProfile, SideLine
from inspan.dialects.question_ids import name_question
from inspan.protocol.commands import Answer, SendMessage
from inspan.protocol.events import PermissionAsked, ToolFailed, TurnCompleted
from inspan.protocol.task import McpServer
from inspan.protocol.usage import SessionTotals, Usage

from .acp_wire import AcpWire

_OPTIONS = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
_SERVERS = {"box": McpServer(command="box"), "box-two": McpServer(command="box")}


def _open(*, ask: tuple[str, ...] = ("*",), **fields: Any) -> AcpWire:
    wire = AcpWire(ask=ask, **fields).open_session()
    wire.apply(wire.dialect.send(SendMessage(id="m", text="go")))
    return wire


def _ask(wire: AcpWire, **call: Any) -> list[dict[str, Any]]:
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c", **call}, "options": _OPTIONS}
    return wire.receive_message(id=9, method="session/request_permission", params=params)


def _asked(wire: AcpWire) -> list[tuple[str, Any]]:
    return [(event.tool, event.input) for event in wire.events if isinstance(event, PermissionAsked)]


def test_a_question_waits_for_its_answer() -> None:
    wire = _open()
    assert _ask(wire, kind="execute", name="bash", rawInput={"command": "ls"}) == []
    wire.apply(wire.dialect.send(Answer(id="c", allowed=False, reason="no")))
    assert wire.said[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "n"}}


def test_the_command_of_a_call_of_which_only_the_folder_was_told_is_that_of_its_question() -> None:
    wire = _open()
    wire.update("tool_call", toolCallId="c", title="bash", kind="execute", status="pending", rawInput={"cwd": "/WORK"})
    _ask(wire, kind="execute", title="rm x", rawInput={"command": "rm x"})
    assert _asked(wire) == [("bash", {"command": "rm x", "cwd": "/WORK"})]


@pytest.mark.parametrize(
    ("told", "stated", "asked"),
    [
        ({"command": "ls"}, {"command": "rm x"}, {"command": "rm x"}),
        ({"command": "ls", "timeout": 5}, {"command": "rm x", "timeout": None}, {"command": "rm x", "timeout": 5}),
        ({"file_path": "a"}, {"path": "/etc/passwd"}, {"path": "/etc/passwd"}),
        ({"command": "ls"}, {"cmd": "rm x"}, {"command": "ls", "cmd": "rm x"}),
        ({"command": "ls"}, {}, {"command": "ls"}),
        ({"command": "ls"}, ["rm", "x"], ["rm", "x"]),
        ({}, {"command": "rm x"}, {"command": "rm x"}),
    ],
)
@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_what_a_request_states_is_what_is_asked(told: Any, stated: Any, asked: Any, status: str) -> None:
    wire = _open()
    wire.update("tool_call", toolCallId="c", name="run", kind="other", status=status, rawInput=told)
    _ask(wire, kind="other", rawInput=stated)
    assert _asked(wire) == [("run", asked)]


def test_a_request_that_names_its_tool_is_about_that_tool() -> None:
    wire = _open()
    wire.update("tool_call", toolCallId="c", name="look", status="in_progress", rawInput={"a": 1})
    _ask(wire, name="delete", rawInput={"a": 2})
    assert _asked(wire) == [("delete", {"a": 2})]


def test_two_open_questions_of_one_call_are_two_and_each_has_its_answer() -> None:
    wire = _open()
    for number, command in ((9, "ls"), (10, "rm x"), (11, "rm y")):
        call = {"toolCallId": "c", "kind": "execute", "name": "bash", "rawInput": {"command": command}}
        params = {"sessionId": "s", "toolCall": call, "options": _OPTIONS}
        wire.receive_message(id=number, method="session/request_permission", params=params)
    assert _asked(wire) == [("bash", {"command": command}) for command in ("ls", "rm x", "rm y")]
    assert [event.id for event in wire.events if isinstance(event, PermissionAsked)] == ["c", "c#2", "c#3"]
    for identity, allowed in (("c#2", False), ("c", True), ("c#3", False)):
        wire.apply(wire.dialect.send(Answer(id=identity, allowed=allowed)))
    answers = [(each["id"], each["result"]["outcome"]["optionId"]) for each in wire.said[-3:]]
    assert answers == [(10, "n"), (9, "y"), (11, "n")]


@pytest.mark.parametrize(
    ("given", "identity"),
    [("", "asked"), ("..", "asked.."), ("a\nb\u202e\ud800", "a_b__"), ("x" * 300, "x" * 100), ("tool 1/2", "tool 1/2")],
)
def test_whatever_a_call_is_called_its_question_can_be_answered(given: str, identity: str) -> None:
    assert name_question(given, ()) == identity
    assert name_question(given, {identity}) == f"{identity}#2"


def test_a_change_that_is_only_shown_is_what_the_tool_was_given() -> None:
    wire = _open()
    _ask(wire, kind="edit", name="write_file", content=[{"type": "diff", "path": "/a", "oldText": "", "newText": "x"}])
    assert _asked(wire) == [("write_file", {"file_path": "/a", "old_text": "", "new_text": "x"})]


@pytest.mark.parametrize(("text", "given"), [('{"a":1}', {"a": 1}), ("what it does", None), ("[1]", None)])
def test_json_that_is_only_shown_is_what_the_tool_was_given(text: str, given: Any) -> None:
    wire = _open()
    _ask(wire, kind="other", name="add", content=[{"type": "content", "content": {"type": "text", "text": text}}])
    assert _asked(wire) == [("add", given)]


def test_an_input_that_was_told_beside_the_protocol_is_that_of_the_question() -> None:
    wire = _open(habits=AcpProfile(parse_side_line=lambda _: SideLine(id="c", input={"a": 1})))
    wire.receive(b"beside")
    _ask(wire, kind="other", name="add", rawInput={})
    assert _asked(wire) == [("add", {"a": 1})]


@pytest.mark.parametrize(
    ("name", "kind", "tool"),
    [
        ("box-add", "other", "mcp__box__add"),
        ("box-two-add", "other", "mcp__box-two__add"),
        ("box-add", "execute", "box-add"),
        ("boxes-add", "other", "boxes-add"),
    ],
)
def test_a_tool_of_a_server_is_named_as_rules_name_it(name: str, kind: str, tool: str) -> None:
    wire = _open(habits=AcpProfile(mcp_prefix="{server}-"), mcp_servers=_SERVERS)
    _ask(wire, kind=kind, name=name, rawInput={"a": 1})
    assert _asked(wire) == [(tool, {"a": 1})]


def test_a_review_that_asks_denies_what_a_review_denies() -> None:
    wire = _open(mode="review")
    (answer,) = _ask(wire, kind="edit", name="edit", rawInput={"path": "/a"})
    wire.receive_message(id=100, result={"stopReason": "end_turn"})
    assert answer["result"]["outcome"]["optionId"] == "n"
    assert (_asked(wire), [event.denied for event in wire.events if isinstance(event, ToolFailed)]) == ([], [True])


@pytest.mark.parametrize(("command", "asked"), [("git log", True), ("ls", False)])
def test_a_review_asks_about_what_a_pattern_names_and_does_the_rest(command: str, asked: bool) -> None:
    wire = _open(mode="review", ask=("Bash(git *)",))
    answers = _ask(wire, kind="execute", name="bash", rawInput={"command": command})
    assert [each["result"]["outcome"]["optionId"] for each in answers] == ([] if asked else ["y"])
    assert bool(_asked(wire)) is asked


def test_a_session_in_which_nobody_is_asked_reports_no_questions() -> None:
    wire = _open(ask=(), session=True, mode="review")
    assert len(_ask(wire, kind="execute", name="bash", rawInput={"command": "ls"})) == 1
    assert _asked(wire) == []


def test_the_tokens_of_a_process_are_told_apart_by_turn() -> None:
    before = SessionTotals(usage=Usage(input=1000))
    wire = _open(habits=AcpProfile(usage_scope="process"), told=before)
    for number in (1, 2):
        tokens = {"inputTokens": 10 * number, "outputTokens": number, "totalTokens": 11 * number}
        wire.receive_message(id=99 + number, result={"stopReason": "end_turn", "usage": tokens})
        wire.apply(wire.dialect.send(SendMessage(id=f"m{number}", text="go on")))
    ends = [event.usage for event in wire.events if isinstance(event, TurnCompleted)]
    assert ends == [Usage(input=10, output=1), Usage(input=10, output=1)]
