"""The Agent Client Protocol, word by word, with an agent that is imagined where the real ones show nothing."""

from typing import Any

import pytest

from inspan.dialects.acp.profile import AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.protocol.commands import Cancel, Ping, SendMessage
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    PermissionAnswered,
    PlanChanged,
    PlanStep,
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
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Mode

from .acp_wire import AcpWire

_PROMPT = [{"type": "text", "text": "do it"}]
_OPTIONS = [
    {"optionId": "z", "kind": "reject_always", "name": "Never"},
    {"optionId": "a", "kind": "allow_always", "name": "Always"},
    {"optionId": "y", "kind": "reject_once", "name": "No"},
    {"optionId": "b", "kind": "allow_once", "name": "Yes"},
]


def _text(text: str, **fields: Any) -> dict[str, Any]:
    return {"content": {"type": "text", "text": text}, **fields}


def _end(wire: AcpWire, reason: str = "end_turn", **fields: Any) -> list[Event]:
    wire.receive_message(id=100, result={"stopReason": reason, **fields})
    return wire.events[2:]


def _permit(wire: AcpWire, *, options: list[dict[str, str]] | None = None, **call: Any) -> dict[str, Any]:
    """The answer to a request for permission."""
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": options or _OPTIONS}
    (answer,) = wire.receive_message(id="p", method="session/request_permission", params=params)
    return answer["result"]["outcome"]


def test_the_first_word_says_what_we_offer() -> None:
    (first,) = AcpWire().said
    assert (first["id"], first["method"]) == (1, "initialize")
    params = first["params"]
    assert params["protocolVersion"] == 1
    assert params["clientCapabilities"] == {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
    assert params["clientInfo"]["name"] == "inspan"


def test_a_new_session_then_the_prompt() -> None:
    wire = AcpWire().open_session()
    assert wire.said[1:] == [
        {"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": "/WORK", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 100, "method": "session/prompt", "params": {"sessionId": "s", "prompt": _PROMPT}},
    ]
    assert wire.events == [ThreadStarted(session_id="s"), TurnStarted()]


@pytest.mark.parametrize(
    ("abilities", "fork", "identity", "method"),
    [
        ({"loadSession": True}, False, 4, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, False, 5, "session/resume"),
        ({"sessionCapabilities": {"fork": {}}}, True, 6, "session/fork"),
    ],
)
def test_an_old_session_is_entered_as_the_agent_offers(
    abilities: dict[str, Any], fork: bool, identity: int, method: str
) -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", prompt=_PROMPT, resume="old", fork=fork))
    wire.receive_message(id=1, result={"protocolVersion": 1, "agentCapabilities": abilities})
    params: dict[str, Any] = {"cwd": "/WORK", "mcpServers": [], "sessionId": "old"}
    assert wire.said[1] == {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    wire.receive_message(id=identity, result={"sessionId": "copy"} if fork else {})
    assert wire.said[2]["params"]["sessionId"] == ("copy" if fork else "old")
    assert wire.events == [ThreadStarted(session_id="copy" if fork else "old"), TurnStarted()]


def test_an_agent_that_knows_no_old_sessions_ends_the_run_and_says_so() -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", resume="old"))
    wire.receive_message(id=1, result={"protocolVersion": 1})
    message = "it cannot resume an earlier session"
    assert wire.events == [TurnStarted(), TurnFailed(failure="environment", message=message)]
    assert wire.done


def test_a_resume_that_is_offered_and_unknown_becomes_a_load() -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", resume="old"))
    abilities: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    wire.receive_message(id=1, result={"protocolVersion": 1, "agentCapabilities": abilities})
    wire.receive_message(id=5, error={"code": -32601, "message": "Method not found"})
    assert wire.said[-1]["method"] == "session/load"


def test_a_session_that_is_not_found_is_told_as_that() -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", resume="old"))
    wire.receive_message(id=1, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    wire.receive_message(id=4, error={"code": -32603, "message": "Internal error", "data": {"details": "gone"}})
    assert wire.events[-1] == TurnFailed(failure="session_not_found", message="Internal error: gone")


def test_another_version_of_the_protocol_is_refused() -> None:
    wire = AcpWire()
    wire.receive_message(id=1, result={"protocolVersion": 2})
    message = "it speaks version 2 of the Agent Client Protocol; inspan speaks 1"
    assert wire.events[-1] == TurnFailed(failure="environment", message=message)


def test_it_signs_in_once_where_that_needs_nobody() -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", sign_in=["key"]))
    wire.receive_message(id=1, result={"protocolVersion": 1, "authMethods": [{"id": "browser"}, {"id": "key"}]})
    wire.receive_message(id=3, error={"code": -32000, "message": "Authentication required"})
    assert wire.said[-1] == {"jsonrpc": "2.0", "id": 2, "method": "authenticate", "params": {"methodId": "key"}}
    wire.receive_message(id=2, result={})
    assert wire.said[-1]["method"] == "session/new"
    wire.receive_message(id=3, error={"code": -32000, "message": "Authentication required"})
    assert wire.events[-1] == TurnFailed(failure="authentication", message="Authentication required")


def test_settings_are_made_one_by_one_before_the_prompt() -> None:
    wire = AcpWire(
        opening=SessionSetup(cwd="/WORK", model="big", modes=["free", "open"], options={"thought_level": "high"})
    )
    wire.open_session(
        modes={"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "open"}]},
        models={"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "big"}]},
        configOptions=[{"id": "think", "category": "thought_level", "options": [{"options": [{"value": "high"}]}]}],
    )
    wire.receive_message(id=7, result={})
    wire.receive_message(id=8, result={})
    wire.receive_message(id=20, result={})
    assert [(message["method"], message["params"]) for message in wire.said[2:]] == [
        ("session/set_mode", {"sessionId": "s", "modeId": "open"}),
        ("session/set_model", {"sessionId": "s", "modelId": "big"}),
        ("session/set_config_option", {"sessionId": "s", "configId": "think", "value": "high"}),
        ("session/prompt", {"sessionId": "s", "prompt": []}),
    ]
    assert wire.events == [ThreadStarted(session_id="s", model="big"), TurnStarted()]


def test_a_model_that_is_an_option_is_set_as_one() -> None:
    option = {"id": "m", "category": "model", "currentValue": "a", "options": [{"value": "a"}, {"value": "b"}]}
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", model="b")).open_session(configOptions=[option])
    assert wire.said[-1]["params"] == {"sessionId": "s", "configId": "m", "value": "b"}


@pytest.mark.parametrize(
    ("opening", "kind", "message"),
    [
        (SessionSetup(model="none"), "model_not_found", "it has no model none; it offers a, b"),
        (SessionSetup(modes=["safe"]), "environment", "it has no mode safe"),
        (SessionSetup(options={"effort": "9"}), "environment", "it has no effort 9"),
    ],
)
def test_what_is_not_offered_ends_the_run_and_names_what_is(
    opening: SessionSetup, kind: FailureKind, message: str
) -> None:
    models = {"availableModels": [{"modelId": "a"}, {"modelId": "b"}]}
    wire = AcpWire(opening=opening).open_session(models=models)
    assert wire.events[-1] == TurnFailed(failure=kind, message=message)
    assert wire.done


@pytest.mark.parametrize(
    ("opening", "message"),
    [
        (SessionSetup(prompt=[{"type": "image"}]), "it does not support images"),
        (SessionSetup(servers=[{"type": "http"}]), "it does not support MCP servers over HTTP"),
    ],
)
def test_what_it_does_not_take_is_said_before_anything_is_done(opening: SessionSetup, message: str) -> None:
    wire = AcpWire(opening=opening)
    wire.receive_message(id=1, result={"protocolVersion": 1})
    assert wire.events[-1] == TurnFailed(failure="environment", message=message)


def test_extra_folders_go_along_where_they_are_offered() -> None:
    wire = AcpWire(opening=SessionSetup(cwd="/WORK", folders=["/more"], meta={"a": 1}))
    abilities: dict[str, Any] = {"sessionCapabilities": {"additionalDirectories": {}}}
    wire.receive_message(id=1, result={"protocolVersion": 1, "agentCapabilities": abilities})
    params = {"cwd": "/WORK", "mcpServers": [], "additionalDirectories": ["/more"], "_meta": {"a": 1}}
    assert wire.said[-1]["params"] == params


def test_chunks_of_a_message_are_one_text() -> None:
    wire = AcpWire().open_session()
    wire.update("agent_thought_chunk", **_text("\n\nhm"))
    wire.update("agent_thought_chunk", **_text(" well"))
    wire.update("agent_message_chunk", **_text("One "))
    wire.update("usage_update", used=1, size=2)
    wire.update("agent_message_chunk", **_text("two."))
    assert _end(wire) == [ReasoningSaid(text="hm well"), TextSaid(text="One two."), TurnCompleted()]


def test_another_message_is_another_text() -> None:
    wire = AcpWire().open_session()
    wire.update("agent_message_chunk", **_text("One", messageId="1"))
    wire.update("agent_message_chunk", **_text("Two", messageId="2"))
    assert _end(wire) == [TextSaid(text="One"), TextSaid(text="Two"), TurnCompleted()]


def test_pieces_are_told_only_where_they_are_wanted() -> None:
    wire = AcpWire(partial=True).open_session()
    wire.update("agent_message_chunk", **_text("One "))
    wire.update("agent_message_chunk", **_text("two."))
    assert _end(wire) == [
        TextDelta(block="text-1", text="One "),
        TextDelta(block="text-1", text="two."),
        TextSaid(text="One two."),
        TurnCompleted(),
    ]


@pytest.mark.parametrize("partial", [False, True])
def test_what_a_command_puts_out_is_told_only_where_pieces_are_wanted(partial: bool) -> None:
    wire = AcpWire(partial=partial).open_session()
    before = {"kind": "execute", "status": "in_progress", "rawInput": {"command": "make"}}
    described = [{"type": "content", "content": {"type": "text", "text": "Build it"}}]
    wire.update("tool_call", toolCallId="shown", title="make", **before, content=described)
    wire.update("tool_call_update", toolCallId="shown", content=[{"content": {"type": "text", "text": "one\ntwo"}}])
    wire.update("tool_call", toolCallId="streamed", title="make", **before)
    for data in ("thr", "ee\n"):
        wire.update("tool_call_update", toolCallId="streamed", _meta={"terminal_output": {"data": data}})
    told = [event for event in wire.events if isinstance(event, ToolOutput)]
    expected = [("shown", "one\ntwo"), ("streamed", "thr"), ("streamed", "three\n")]
    assert [(event.id, event.text) for event in told] == (expected if partial else [])


def test_an_input_that_comes_later_is_waited_for() -> None:
    wire = AcpWire().open_session()
    wire.update("tool_call", toolCallId="t", title="read", kind="read", status="pending", rawInput={"cwd": "/"})
    assert wire.events[2:] == []
    wire.update("tool_call_update", toolCallId="t", status="in_progress", rawInput={"path": "a"}, title="a")
    wire.update("tool_call_update", toolCallId="t", status="completed", rawOutput={"output": "text"})
    wire.update("tool_call_update", toolCallId="t", status="completed")
    assert _end(wire) == [
        ToolStarted(id="t", name="read", input={"path": "a"}),
        ToolCompleted(id="t", name="read", output="text"),
        TurnCompleted(),
    ]


@pytest.mark.parametrize(
    "told",
    [
        {"rawOutput": {"stdout": "out", "exit_code": 3}},
        {"rawOutput": {"output": "out", "metadata": {"exit": 3}}},
        {"_meta": {"terminal_output": {"data": "out"}, "terminal_exit": {"exit_code": 3}}},
    ],
)
def test_a_command_that_failed_is_told_with_its_code(told: dict[str, Any]) -> None:
    wire = AcpWire().open_session()
    wire.update("tool_call", toolCallId="t", title="sh", kind="execute", rawInput={"command": ["a", "b c"]})
    wire.update("tool_call_update", toolCallId="t", status="completed", **told)
    assert _end(wire)[1:3] == [
        ToolFailed(id="t", name="sh", output="out"),
        CommandExecuted(id="t", command="a 'b c'", exit_code=3),
    ]


@pytest.mark.parametrize(
    ("kind", "content", "change"),
    [
        ("edit", [{"type": "diff", "path": "a", "oldText": "x", "newText": "y"}], "modified"),
        ("edit", [{"type": "diff", "path": "a", "oldText": None, "newText": "y"}], "added"),
        ("edit", [], "modified"),
        ("delete", [], "deleted"),
    ],
)
def test_a_changed_file_is_told_by_its_whole_path(kind: str, content: list[Any], change: Any) -> None:
    wire = AcpWire().open_session()
    told = {"kind": kind, "content": content, "locations": [{"path": "a"}]}
    wire.update("tool_call", toolCallId="t", title="write", status="in_progress", **told)
    wire.update("tool_call_update", toolCallId="t", status="completed")
    assert _end(wire)[1] == FileChanged(path="/WORK/a", change=change, id="t")


def test_a_file_written_through_us_that_no_call_tells_of_is_told_at_the_end() -> None:
    wire = AcpWire().open_session()
    wire.receive_message(
        id=9, method="fs/write_text_file", params={"sessionId": "s", "path": "/WORK/a", "content": "x"}
    )
    assert _end(wire) == [FileChanged(path="/WORK/a", change="added"), TurnCompleted()]


def test_a_plan_is_told_with_the_state_of_its_steps() -> None:
    wire = AcpWire().open_session()
    states = ("pending", "in_progress", "completed", "unheard of")
    wire.update("plan", entries=[{"content": state, "status": state} for state in states])
    assert _end(wire)[0] == PlanChanged(
        steps=[
            PlanStep(text="pending"),
            PlanStep(text="in_progress", state="active"),
            PlanStep(text="completed", state="done"),
            PlanStep(text="unheard of"),
        ]
    )


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("max_turn_requests", "max_turns"), ("refusal", "refused"), ("max_tokens", "invalid_response")],
)
def test_a_turn_that_stopped_early_failed(reason: str, kind: FailureKind) -> None:
    (ended,) = _end(AcpWire().open_session(), reason)
    assert isinstance(ended, TurnFailed)
    assert ended.failure == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, "rate_limit"),
        ({"code": 503, "message": "busy"}, "overloaded"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "429 Too Many Requests"}}, "rate_limit"),
        ({"code": -32603, "message": "Internal error", "data": "fetch failed"}, "network"),
        ({"code": -32603, "message": "Internal error", "data": ["overloaded_error"]}, "overloaded"),
        ({"code": -32603, "message": "Reached maximum number of turns (2)"}, "max_turns"),
        ({"code": -32603, "message": "prompt is too long"}, "context_too_long"),
        ({"code": -32000, "message": "odd"}, "authentication"),
        ({"code": -32603, "message": "odd"}, "unknown"),
    ],
)
def test_an_error_is_told_by_its_code_or_its_words(error: dict[str, Any], kind: FailureKind) -> None:
    wire = AcpWire().open_session()
    wire.update("agent_message_chunk", **_text("so far"))
    wire.receive_message(id=100, error=error)
    assert wire.events[2] == TextSaid(text="so far")
    ended = wire.events[3]
    assert isinstance(ended, TurnFailed)
    assert ended.failure == kind
    assert wire.done


def test_words_of_the_program_are_not_the_models() -> None:
    habits = AcpProfile(classify_notice=lambda update: "" if update.get("messageId") else "complaint")
    wire = AcpWire(habits=habits).open_session()
    wire.update("agent_message_chunk", **_text("Warning: odd\n"))
    wire.update("agent_message_chunk", **_text("Hello", messageId="1"))
    assert _end(wire) == [ErrorReported(message="Warning: odd"), TextSaid(text="Hello"), TurnCompleted()]


def test_a_failure_that_only_the_programs_last_words_tell_fails_the_turn() -> None:
    habits = AcpProfile(classify_notice=lambda update: "" if update.get("messageId") else "complaint")
    wire = AcpWire(habits=habits).open_session()
    wire.update("agent_message_chunk", **_text("last status: 429 Too Many Requests"))
    message = "last status: 429 Too Many Requests"
    assert _end(wire) == [ErrorReported(message=message), TurnFailed(failure="rate_limit", message=message)]


def test_what_comes_after_the_turn_is_told_at_once() -> None:
    wire = AcpWire().open_session()
    _end(wire)
    wire.update("agent_message_chunk", **_text("late"))
    assert wire.events[-1] == TextSaid(text="late")


def test_what_was_held_back_is_told_when_the_agent_is_gone() -> None:
    wire = AcpWire().open_session()
    wire.update("agent_message_chunk", **_text("half a"))
    wire.apply(wire.dialect.close())
    assert wire.events[2:] == [TextSaid(text="half a")]


@pytest.mark.parametrize(
    ("mode", "kind", "option"),
    [
        ("exec", "edit", "b"),
        ("exec", "other", "b"),
        ("review", "read", "b"),
        ("review", "execute", "b"),
        ("review", "edit", "y"),
        ("review", "delete", "y"),
        ("review", "switch_mode", "y"),
        ("review", "other", "y"),
        ("review", "", "y"),
        ("complete", "read", "y"),
    ],
)
def test_the_mode_decides_and_an_option_is_chosen_by_its_kind(mode: Mode, kind: str, option: str) -> None:
    wire = AcpWire(mode=mode).open_session()
    assert _permit(wire, kind=kind, title="tool") == {"outcome": "selected", "optionId": option}


def test_without_an_option_for_once_it_is_for_always() -> None:
    wire = AcpWire().open_session()
    assert _permit(wire, options=_OPTIONS[:2])["optionId"] == "a"


@pytest.mark.parametrize(("mode", "kept"), [("exec", "reject"), ("review", "allow")])
def test_without_an_option_that_fits_the_answer_is_none(mode: Mode, kept: str) -> None:
    wire = AcpWire(mode=mode).open_session()
    options = [option for option in _OPTIONS if option["kind"].startswith(kept)]
    assert _permit(wire, options=options, kind="edit") == {"outcome": "cancelled"}
    answers = [event for event in wire.events if isinstance(event, PermissionAnswered)]
    assert [answer.allowed for answer in answers] == [False]


@pytest.mark.parametrize("name", ["mcp__shop__buy", "shop__buy", "mcp.shop.buy", "mcp_shop_buy", "shop - buy"])
def test_a_servers_tool_that_was_allowed_may_run(name: str) -> None:
    wire = AcpWire(mode="review", allowed_tools=("mcp__shop__buy",)).open_session()
    assert _permit(wire, kind="other", title=name)["optionId"] == "b"


def test_a_tool_that_is_not_on_the_list_may_not_run() -> None:
    wire = AcpWire(allowed_tools=("Read",)).open_session()
    assert _permit(wire, kind="edit", title="Write")["optionId"] == "y"


def test_a_refused_call_of_which_nothing_more_comes_is_told_as_denied_at_the_end() -> None:
    wire = AcpWire(mode="review").open_session()
    _permit(wire, kind="edit", title="write", rawInput={"path": "a"})
    assert _end(wire)[-2:] == [
        ToolFailed(id="t", name="write", output="mode review allows no edit tool", denied=True),
        TurnCompleted(),
    ]


def test_a_file_is_read_for_the_agent() -> None:
    wire = AcpWire().open_session()
    params = {"sessionId": "s", "path": "/WORK/a"}
    assert wire.receive_message(id="r", method="fs/read_text_file", params=params) == [
        {"jsonrpc": "2.0", "id": "r", "result": {"content": ""}}
    ]


@pytest.mark.parametrize(("mode", "method"), [("review", "write"), ("complete", "write"), ("complete", "read")])
def test_a_mode_that_has_no_such_thing_refuses_it(mode: Mode, method: str) -> None:
    wire = AcpWire(mode=mode).open_session()
    params = {"sessionId": "s", "path": "/WORK/a", "content": "x"}
    (answer,) = wire.receive_message(id=5, method=f"fs/{method}_text_file", params=params)
    assert answer["error"]["code"] == -32602
    refused = wire.events[-1]
    assert isinstance(refused, ToolFailed)
    assert refused.denied


def test_cancel_is_said_while_a_turn_runs_and_not_before_or_after() -> None:
    wire = AcpWire()
    assert wire.dialect.send(Cancel()).frames == ()
    wire.open_session()
    assert [wire.dialect.send(command).frames for command in (Ping(), SendMessage(id="m", text="x"))] == [(), ()]
    wire.apply(wire.dialect.send(Cancel()))
    assert wire.said[-1] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
    assert _end(wire, "cancelled") == []
    assert wire.dialect.send(Cancel()).frames == ()


def test_a_turn_that_the_agent_itself_cancelled_failed() -> None:
    (ended,) = _end(AcpWire().open_session(), "cancelled")
    assert isinstance(ended, TurnFailed)


@pytest.mark.parametrize("method", ["terminal/create", "elicitation/create", "_vendor/ask"])
def test_a_request_that_nobody_knows_is_refused_and_told(method: str) -> None:
    wire = AcpWire().open_session()
    (answer,) = wire.receive_message(id=9, method=method, params={"a": 1})
    assert (answer["id"], answer["error"]["code"]) == (9, -32601)
    assert wire.events[-1] == Unrecognized(raw='{"a":1}', note=f"request {method}")


@pytest.mark.parametrize(
    "line",
    [
        b"Update available!",
        b'{"jsonrpc":"2.0","method":"_vendor/note","params":{}}',
        b'{"jsonrpc":"2.0","id":777,"result":{}}',
        b'{"jsonrpc":"2.0","id":"mine","result":{}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"brand_new"}}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":[]}',
    ],
)
def test_what_nobody_knows_is_kept(line: bytes) -> None:
    wire = AcpWire().open_session()
    wire.receive(line)
    (kept,) = wire.events[2:]
    assert isinstance(kept, Unrecognized)
    assert kept.raw == line.decode()


def test_methods_that_tell_nothing_are_left_out_where_they_are_known() -> None:
    wire = AcpWire(habits=AcpProfile(ignored_methods=frozenset({"_vendor/note"}))).open_session()
    wire.receive_message(method="_vendor/note", params={})
    assert wire.events[2:] == []
