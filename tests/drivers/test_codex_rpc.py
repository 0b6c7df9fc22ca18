"""Codex 0.163.0 as a server: frames as they were seen on the real program, and how it is started."""

import tomllib
from typing import Any

import msgspec
import pytest

from inspan.contracts.dialect import DialectOutput
from inspan.contracts.driver import Attachment, LaunchContext
from inspan.contracts.permissions import Rulebook
from inspan.drivers.codex import DRIVER
from inspan.drivers.codex.app_server import CodexRpcDialect
from inspan.drivers.codex.app_server_launch import Setup, launch
from inspan.protocol.commands import Answer, Configure, Interrupt, SendMessage
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    FileChanged,
    McpServerFailed,
    PermissionAsked,
    PlanChanged,
    PlanStep,
    Question,
    QuestionAsked,
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
    TurnInterrupted,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import SessionTotals, Usage

from .launches import ENDPOINT, values_after

Json = dict[str, Any]
THREAD, TURN = "01a1e661-99f1-71c0-8317-47bbb45ffa6a", "01a1e661-9a5e-7b41-a878-6575cf62905c"
COMMAND = "/bin/bash -lc 'touch made.txt'"
CLEAN = LaunchContext(program="codex", cwd="/WORK/sub", scratch="/SCRATCH", config="/CONFIG", endpoint=ENDPOINT)
USER = LaunchContext(program="codex", cwd="/WORK/sub", scratch="/SCRATCH")
PROFILE = {":root": "read", "/inspan-denies-nothing": "deny"}


class Talk:
    """A dialect, and what was said to its server so far."""

    def __init__(self, *, setup: Setup | None = None, reported: Usage | None = None, **fields: Any) -> None:
        task = Task(prompt="do it", cwd="/WORK", **fields)
        self.dialect = CodexRpcDialect(task, SessionTotals(usage=reported or Usage()))
        self.sent: list[Json] = []
        self._note(self.dialect.begin(msgspec.json.encode(setup or Setup(thread={"sandbox": "danger-full-access"}))))

    def receive(self, message: Json) -> list[Any]:
        return self._note(self.dialect.receive(msgspec.json.encode(message)))

    def tell(self, method: str, **params: Any) -> list[Any]:
        return self.receive({"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def send(self, command: Any) -> list[Any]:
        return self._note(self.dialect.send(command))

    def answer(self, value: Any, *, kind: str = "result") -> list[Any]:
        """The server's answer to the last request."""
        last = next(each for each in reversed(self.sent) if "method" in each and "id" in each)
        return self.receive({"id": last["id"], kind: value})

    def open(self, **result: Any) -> list[Any]:
        self.answer({"userAgent": "inspan/0.163.0"})
        thread = {"id": THREAD, "cliVersion": "0.163.0"}
        return self.answer({"thread": thread, "model": "gpt-5.5", "sandbox": {"type": "dangerFullAccess"}, **result})

    def start(self, text: str = "do it", *, turn: str = TURN) -> list[Any]:
        events = self.send(SendMessage(id=text, text=text))
        self.answer({"turn": {"id": turn, "status": "inProgress"}})
        return events

    def end(self, status: str = "completed", *, turn: str = TURN, error: Json | None = None) -> list[Any]:
        return self.tell("turn/completed", turn={"id": turn, "status": status, "error": error})

    def _note(self, output: DialectOutput) -> list[Any]:
        self.sent += [msgspec.json.decode(frame) for frame in output.frames]
        return list(output.events)

    @property
    def last(self) -> Json:
        """What was said last, without what all messages have."""
        return {name: value for name, value in self.sent[-1].items() if name != "jsonrpc"}


def opened(**fields: Any) -> Talk:
    talk = Talk(**fields)
    talk.open()
    return talk


def running(**fields: Any) -> Talk:
    talk = opened(**fields)
    talk.start()
    return talk


def total(tokens: int, *, output: int = 7) -> Json:
    counted = {"inputTokens": tokens, "cachedInputTokens": 20, "cacheWriteInputTokens": 10, "outputTokens": output}
    return {"total": {**counted, "reasoningOutputTokens": 3}, "last": {}}


def command(status: str = "inProgress", **more: Any) -> Json:
    return {"type": "commandExecution", "id": "call_1", "command": COMMAND, "status": status, **more}


def patch(status: str = "inProgress", *paths: str) -> Json:
    changes = [{"path": path, "kind": {"type": "add"}, "diff": "new words\n"} for path in paths or ("/WORK/new.txt",)]
    return {"type": "fileChange", "id": "call_2", "changes": changes, "status": status}


def test_a_thread_is_opened_before_anything_is_said() -> None:
    talk = Talk()
    assert talk.sent[0]["method"] == "initialize"
    talk.answer({"userAgent": "inspan/0.163.0"})
    assert [each["method"] for each in talk.sent[1:]] == ["initialized", "thread/start"]
    assert talk.last["params"] == {"sandbox": "danger-full-access"}
    assert talk.answer({"thread": {"id": THREAD, "cliVersion": "0.163.0"}, "model": "gpt-5.5"}) == [
        ThreadStarted(session_id=THREAD, model="gpt-5.5", agent_version="0.163.0")
    ]


def test_a_message_that_comes_early_waits_for_the_thread() -> None:
    talk = Talk()
    assert talk.send(SendMessage(id="first", text="do it")) == []
    assert len(talk.sent) == 1
    assert talk.open()[1:] == [TurnStarted()]
    assert talk.last["method"] == "turn/start"
    assert talk.last["params"] == {"threadId": THREAD, "input": [{"type": "text", "text": "do it"}]}


def test_a_message_that_is_interrupted_while_it_waits_is_not_sent() -> None:
    talk = Talk()
    talk.send(SendMessage(id="first", text="do it"))
    assert talk.send(Interrupt()) == [TurnInterrupted()]
    assert [type(event) for event in talk.open()] == [ThreadStarted]


def test_the_first_message_carries_what_belongs_to_it_and_every_turn_the_schema() -> None:
    schema = {"type": "object"}
    image = {"type": "localImage", "path": "/SCRATCH/attached-0.png"}
    talk = opened(setup=Setup(attached=[image], head="Be brief.", tail="Answer in JSON.", schema=schema))
    talk.send(SendMessage(id="first", text="do it"))
    said = "Be brief.\n\ndo it\n\nAnswer in JSON."
    assert talk.last["params"]["input"] == [image, {"type": "text", "text": said}]
    talk.answer({"turn": {"id": TURN}})
    talk.end()
    talk.send(SendMessage(id="second", text="again"))
    assert talk.last["params"]["input"] == [{"type": "text", "text": "again"}]
    assert talk.last["params"]["outputSchema"] == schema


def test_each_turn_has_its_own_tokens() -> None:
    talk = opened()
    assert talk.start() == [TurnStarted()]
    talk.tell("thread/tokenUsage/updated", tokenUsage=total(130))
    talk.tell("thread/tokenUsage/updated", tokenUsage=total(260, output=14))
    assert talk.end() == [TurnCompleted(usage=Usage(input=230, output=14, cache_read=20, cache_write=10, reasoning=3))]
    assert talk.start("again", turn="second") == [TurnStarted()]
    talk.tell("thread/tokenUsage/updated", turnId="second", tokenUsage=total(360, output=21))
    assert talk.end(turn="second") == [TurnCompleted(usage=Usage(input=100, output=7))]


def test_what_a_resumed_thread_has_used_before_is_not_counted() -> None:
    talk = opened(setup=Setup(method="thread/resume", thread={"threadId": THREAD}))
    talk.send(SendMessage(id="first", text="do it"))
    talk.tell("thread/tokenUsage/updated", turnId="an earlier turn", tokenUsage=total(130))
    talk.answer({"turn": {"id": TURN}})
    talk.tell("thread/tokenUsage/updated", tokenUsage=total(230, output=14))
    assert talk.end() == [TurnCompleted(usage=Usage(input=100, output=7))]


def test_a_turn_tells_what_is_said_thought_run_and_changed() -> None:
    talk = running()
    events = [
        *talk.tell("item/completed", item={"type": "userMessage", "id": "u", "content": []}),
        *talk.tell("item/completed", item={"type": "reasoning", "id": "r", "summary": ["Hm."], "content": []}),
        *talk.tell("item/completed", item={"type": "agentMessage", "id": "m", "text": "Looking."}),
        *talk.tell("item/started", item=command()),
        *talk.tell("item/completed", item=command("failed", aggregatedOutput="no\n", exitCode=3)),
        *talk.tell("item/started", item=patch()),
        *talk.tell("item/completed", item=patch("completed")),
        *talk.tell("turn/plan/updated", plan=[{"step": "look", "status": "inProgress"}]),
    ]
    assert events == [
        ReasoningSaid(text="Hm."),
        TextSaid(text="Looking."),
        ToolStarted(id="call_1", name="shell", input={"command": COMMAND}),
        ToolFailed(id="call_1", name="shell", output="no\n"),
        CommandExecuted(id="call_1", command=COMMAND, exit_code=3),
        ToolStarted(id="call_2", name="apply_patch", input=["/WORK/new.txt"]),
        FileChanged(path="/WORK/new.txt", change="added", id="call_2"),
        ToolCompleted(id="call_2", name="apply_patch"),
        PlanChanged(steps=[PlanStep(text="look", state="active")]),
    ]


@pytest.mark.parametrize("partial", [False, True])
def test_text_comes_in_pieces_where_that_is_wanted(partial: bool) -> None:
    talk = running(partial=partial)
    unwanted = talk.sent[0]["params"]["capabilities"]["optOutNotificationMethods"]
    assert ("item/agentMessage/delta" in unwanted) is not partial
    told = talk.tell("item/agentMessage/delta", itemId="m", delta="Loo")
    assert told == ([TextDelta(block="m", text="Loo")] if partial else [])


@pytest.mark.parametrize("partial", [False, True])
def test_what_a_command_puts_out_is_told_where_that_is_wanted(partial: bool) -> None:
    talk = running(partial=partial)
    name = "item/commandExecution/outputDelta"
    assert (name in talk.sent[0]["params"]["capabilities"]["optOutNotificationMethods"]) is not partial
    item = {"type": "commandExecution", "id": "call_1", "command": COMMAND, "status": "inProgress"}
    talk.tell("item/started", item=item)
    told = [*talk.tell(name, itemId="call_1", delta="on"), *talk.tell(name, itemId="call_1", delta="e\ntwo")]
    expected = [ToolOutput(id="call_1", text="on"), ToolOutput(id="call_1", text="one\ntwo")]
    assert told == (expected if partial else [])
    talk.tell("item/completed", item={**item, "status": "completed", "exitCode": 0, "aggregatedOutput": "one\ntwo"})
    assert talk.tell(name, itemId="call_1", delta="late") == []


def test_an_interrupted_turn_ends_with_its_commands_and_the_session_goes_on() -> None:
    talk = running()
    talk.tell("item/started", item=command(processId="3937"))
    talk.send(Interrupt())
    assert talk.last["method"] == "turn/interrupt"
    assert talk.last["params"] == {"threadId": THREAD, "turnId": TURN}
    assert talk.answer({}) == []
    talk.tell("thread/tokenUsage/updated", tokenUsage=total(130))
    usage = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
    assert talk.end("interrupted") == [TurnInterrupted(usage=usage)]
    assert talk.last["method"] == "thread/backgroundTerminals/terminate"
    assert talk.last["params"] == {"threadId": THREAD, "processId": "3937"}
    assert talk.start("again", turn="second") == [TurnStarted()]
    assert talk.end(turn="second") == [TurnCompleted(usage=Usage())]


def test_a_turn_that_has_no_id_yet_is_interrupted_once_it_has_one() -> None:
    talk = opened()
    talk.send(SendMessage(id="first", text="do it"))
    talk.send(Interrupt())
    assert talk.last["method"] == "turn/start"
    talk.answer({"turn": {"id": TURN}})
    assert talk.last["method"] == "turn/interrupt"
    assert talk.end("interrupted") == [TurnInterrupted()]


def test_a_message_goes_into_the_running_turn() -> None:
    talk = running()
    assert talk.send(SendMessage(id="more", text="and that", when="steer")) == []
    said = {"threadId": THREAD, "expectedTurnId": TURN, "input": [{"type": "text", "text": "and that"}]}
    assert (talk.last["method"], talk.last["params"]) == ("turn/steer", said)
    assert talk.answer({"code": -32600, "message": "no active turn"}, kind="error") == [
        ErrorReported(message="the message did not go into the turn: no active turn")
    ]


def test_a_message_does_not_go_into_a_turn_that_has_not_begun() -> None:
    talk = Talk()
    talk.send(SendMessage(id="first", text="do it"))
    talk.send(SendMessage(id="more", text="and that", when="steer"))
    assert len(talk.sent) == 1


@pytest.mark.parametrize(("allowed", "decision"), [(True, "accept"), (False, "decline")])
def test_a_command_is_asked_about_as_the_model_gave_it(allowed: bool, decision: str) -> None:
    talk = running(ask=("*",))
    talk.tell("item/started", item=command())
    params = {"threadId": THREAD, "itemId": "call_1", "command": COMMAND, "cwd": "/WORK", "reason": "to try"}
    asked = talk.receive({"method": "item/commandExecution/requestApproval", "id": 0, "params": params})
    given = {"command": "touch made.txt", "cwd": "/WORK"}
    assert asked == [PermissionAsked(id="call_1", tool="shell", input=given, reason="to try")]
    talk.send(Answer(id="call_1", allowed=allowed))
    assert talk.last == {"id": 0, "result": {"decision": decision}}
    assert talk.dialect.send(Answer(id="call_1", allowed=True)).frames == ()


def test_a_declined_command_and_patch_are_denied_once() -> None:
    talk = running(ask=("*",))
    line = (
        b'\x1b[31mERROR\x1b[0m error=exec_command failed: CreateProcess { message: "Rejected(\\"rejected by user\\")" }'
    )
    assert talk.dialect.receive_stderr(line).events == ()
    assert talk.dialect.receive_stderr(b"ERROR error=patch rejected by user").events == ()
    assert [
        *talk.tell("item/completed", item=command("declined")),
        *talk.tell("item/completed", item=patch("declined")),
    ] == [
        ToolFailed(id="call_1", name="shell", denied=True),
        ToolFailed(id="call_2", name="apply_patch", denied=True),
    ]


def test_what_only_its_log_tells_is_a_denial_too() -> None:
    said = b"patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    (denied,) = running().dialect.receive_stderr(b"\x1b[3merror\x1b[0m\x1b[2m=\x1b[0m" + said).events
    assert isinstance(denied, ToolFailed)
    assert (denied.name, denied.denied) == ("apply_patch", True)


def test_a_patch_is_asked_about_with_its_files_and_what_changes() -> None:
    talk = running(ask=("*",))
    talk.tell("item/started", item=patch())
    asked = talk.receive({"method": "item/fileChange/requestApproval", "id": 2, "params": {"itemId": "call_2"}})
    given = {"file_path": "/WORK/new.txt", "diff": "new words\n"}
    assert asked == [PermissionAsked(id="call_2", tool="apply_patch", input=given)]


def test_a_rule_for_one_file_of_a_patch_denies_all_of_it_and_allows_none() -> None:
    talk = running(ask=("*",))
    talk.tell("item/started", item=patch("inProgress", "/WORK/a.txt", "/WORK/secret.txt"))
    (asked,) = talk.receive({"method": "item/fileChange/requestApproval", "id": 2, "params": {"itemId": "call_2"}})
    assert Rulebook(deny=("Edit(*/secret.txt)",)).rule("apply_patch", asked.input) == "deny"
    assert Rulebook(allow=("Edit(/WORK/*)",), otherwise="ask").rule("apply_patch", asked.input) == "ask"


def test_a_patch_of_a_subagent_is_asked_about_though_its_work_is_not_told() -> None:
    talk = running(ask=("*",))
    assert talk.tell("item/started", threadId="another", item=patch()) == []
    (asked,) = talk.receive({"method": "item/fileChange/requestApproval", "id": 2, "params": {"itemId": "call_2"}})
    assert asked.input["file_path"] == "/WORK/new.txt"


@pytest.mark.parametrize(
    ("allowed", "answer"),
    [
        (True, {"action": "accept", "content": {}, "_meta": None}),
        (False, {"action": "decline", "content": None, "_meta": None}),
    ],
)
def test_a_tool_of_a_server_is_asked_about_by_its_name_in_rules(allowed: bool, answer: Json) -> None:
    talk = running(ask=("*",))
    talk.tell(
        "item/started",
        item={"type": "mcpToolCall", "id": "call_3", "server": "srv", "tool": "add", "arguments": {"a": 1}},
    )
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": {"a": 1}}
    params = {"serverName": "srv", "mode": "form", "_meta": meta, "message": "Allow it?"}
    asked = talk.receive({"method": "mcpServer/elicitation/request", "id": 4, "params": params})
    assert asked == [PermissionAsked(id="call_3", tool="mcp__srv__add", input={"a": 1}, reason="Allow it?")]
    talk.send(Answer(id="call_3", allowed=allowed))
    assert talk.last == {"id": 4, "result": answer}


def test_what_a_server_itself_wants_to_know_is_declined_and_told() -> None:
    talk = running()
    params = {"serverName": "srv", "mode": "form", "_meta": None, "message": "Your name?"}
    (told,) = talk.receive({"method": "mcpServer/elicitation/request", "id": 4, "params": params})
    assert isinstance(told, ErrorReported)
    assert talk.last["result"]["action"] == "decline"


def test_a_question_is_answered_by_its_text() -> None:
    talk = running(ask=("*",))
    options = [{"label": "blue", "description": "b"}, {"label": "red", "description": "r"}]
    questions = [{"id": "q1", "question": "Which color?", "isSecret": False, "options": options}]
    params = {"itemId": "call_5", "questions": questions}
    assert talk.receive({"method": "item/tool/requestUserInput", "id": 5, "params": params}) == [
        QuestionAsked(id="call_5", questions=[Question(text="Which color?", options=["blue", "red"])])
    ]
    talk.send(Answer(id="call_5", answers={"Which color?": "blue"}))
    assert talk.last == {"id": 5, "result": {"answers": {"q1": {"answers": ["blue"]}}}}


def test_model_and_effort_are_set_for_the_turns_to_come() -> None:
    talk = opened()
    talk.send(Configure(model="gpt-5.4", effort="high"))
    assert talk.last["method"] == "thread/settings/update"
    assert talk.last["params"] == {"threadId": THREAD, "model": "gpt-5.4", "effort": "high"}
    assert talk.dialect.send(Configure(mode="review")).frames == ()


def test_a_failed_turn_tells_its_kind_and_status() -> None:
    talk = running()
    message = "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://127.0.0.1:1/v1/responses"
    error = {"message": message, "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}}
    assert talk.tell("error", error=error, willRetry=False) == [ErrorReported(message=message)]
    assert talk.end("failed", error=error) == [TurnFailed(failure="authentication", message=message, status=401)]


def test_an_error_without_known_words_is_told_by_its_kind() -> None:
    (failed,) = running().end("failed", error={"message": "No.", "codexErrorInfo": "usageLimitExceeded"})
    assert failed == TurnFailed(failure="rate_limit", message="No.")


def test_a_turn_that_is_not_taken_has_failed() -> None:
    talk = opened()
    talk.send(SendMessage(id="first", text="do it"))
    assert talk.answer({"code": -32600, "message": "input is empty"}, kind="error") == [
        TurnFailed(failure="unknown", message="input is empty")
    ]
    assert talk.start("again") == [TurnStarted()]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "no rollout found for thread id X",
            [TurnFailed(failure="session_not_found", message="no rollout found for thread id X")],
        ),
        (
            "required MCP servers failed to initialize: srv: connection closed",
            [
                McpServerFailed(name="srv", message="connection closed"),
                TurnFailed(failure="environment", message="the MCP server srv could not be started: connection closed"),
            ],
        ),
    ],
    ids=["session", "server"],
)
def test_without_a_thread_it_is_over(words: str, told: list[Any]) -> None:
    talk = Talk()
    talk.send(SendMessage(id="first", text="do it"))
    talk.answer({})
    assert talk.dialect.receive_stderr(f"ERROR Failed to create session: {words}".encode()).events == ()
    output = talk.dialect.receive(msgspec.json.encode({"id": 2, "error": {"code": -32600, "message": words}}))
    assert (list(output.events), output.done) == ([TurnStarted(), *told], True)


@pytest.mark.parametrize(("sandbox", "done"), [("readOnly", False), ("workspaceWrite", True)])
def test_a_thread_that_could_write_where_it_must_not_is_left_at_once(sandbox: str, done: bool) -> None:
    talk = Talk(setup=Setup(read_only=True), mode="review")
    talk.answer({})
    result = {"thread": {"id": THREAD}, "sandbox": {"type": sandbox}}
    assert talk.dialect.receive(msgspec.json.encode({"id": 2, "result": result})).done is done


def test_a_turn_that_it_begins_by_itself_is_a_turn() -> None:
    talk = opened()
    assert talk.tell("turn/started", turn={"id": "own"}) == [TurnStarted()]
    assert talk.end(turn="own") == [TurnCompleted(usage=Usage())]


@pytest.mark.parametrize(
    "frame",
    [b"not json", b'{"method":"thread/sang"}', b'{"id":77,"result":{}}', b'{"id":1,"method":"attestation/generate"}'],
)
def test_a_frame_that_is_not_known_is_kept(frame: bytes) -> None:
    (event,) = running().dialect.receive(frame).events
    assert isinstance(event, Unrecognized)
    assert event.raw == frame.decode()


def test_a_request_that_is_not_known_is_refused() -> None:
    talk = running()
    talk.receive({"id": 9, "method": "attestation/generate", "params": {}})
    assert (talk.last["id"], talk.last["error"]["code"]) == (9, -32601)


def _launch(place: LaunchContext, **fields: Any) -> tuple[tuple[str, ...], Json, Setup]:
    """The words of a command line but for its settings, those settings, and what the dialect is told."""
    given = launch(Task(prompt="do it", cwd=place.cwd, **fields), place)
    assert (given.keeps_stdin, given.conversation) == (True, True)
    skipped = {index + step for index, word in enumerate(given.argv) if word == "-c" for step in (0, 1)}
    words = tuple(word for index, word in enumerate(given.argv) if index not in skipped)
    settings = tomllib.loads("\n".join(values_after(given.argv, "-c")))
    return words, settings, msgspec.json.decode(given.stdin, type=Setup)


def test_in_exec_everything_is_allowed_and_the_folder_is_not_named() -> None:
    words, settings, setup = _launch(USER, model="gpt-5.5")
    assert (words, settings) == (("codex", "app-server"), {})
    thread = {"approvalPolicy": "never", "sandbox": "danger-full-access", "model": "gpt-5.5"}
    assert setup == Setup(thread=thread)


@pytest.mark.parametrize("fields", [{"mode": "review"}, {"mode": "complete", "allowed_tools": ("Read",)}], ids=str)
@pytest.mark.parametrize("resume", ["", "R"])
def test_reading_is_held_by_a_profile_that_no_rule_gets_around(fields: Json, resume: str) -> None:
    _, settings, setup = _launch(msgspec.structs.replace(USER, resume=resume), **fields)
    assert settings["default_permissions"] == "inspan"
    assert settings["permissions"]["inspan"]["filesystem"] == PROFILE
    assert settings["features"] == {"hooks": False}
    assert settings["projects"]["/WORK/sub"] == {"trust_level": "untrusted"}
    assert setup.read_only
    assert (setup.thread["permissions"], setup.thread["approvalPolicy"]) == ("inspan", "never")
    assert "sandbox" not in setup.thread


def test_a_completion_has_no_tools_and_nobody_is_asked() -> None:
    given = launch(Task(prompt="do it", cwd="/WORK", mode="complete", ask=("*",)), USER)
    assert given.env["CODEX_EXEC_SERVER_URL"] == "none"
    _, settings, setup = _launch(USER, mode="complete", ask=("*",))
    assert settings["agents"] == {"enabled": False}
    assert setup.thread["approvalPolicy"] == "never"


@pytest.mark.parametrize(("mode", "held"), [("exec", "sandbox"), ("review", "permissions")])
def test_it_asks_about_everything_where_somebody_is_to_be_asked(mode: str, held: str) -> None:
    servers = {"srv": McpServer(command="run")}
    _, settings, setup = _launch(USER, mode=mode, ask=("Bash(git push*)",), mcp_servers=servers)
    assert setup.thread["approvalPolicy"] == "untrusted"
    assert held in setup.thread
    assert settings["features"]["default_mode_request_user_input"] is True
    assert settings["mcp_servers"]["srv"]["default_tools_approval_mode"] == "prompt"


def test_a_config_folder_of_ours_forgets_which_projects_are_trusted() -> None:
    given = launch(Task(prompt="do it", cwd="/WORK"), CLEAN)
    assert given.files == {"/CONFIG/config.toml": b""}
    assert "run-token" not in " ".join(given.argv)
    words, settings, _ = _launch(CLEAN)
    assert words == ("codex", "app-server", "--disable", "plugins")
    assert settings["features"] == {"hooks": False}
    assert settings["model_provider"] == "inspan"


@pytest.mark.parametrize(
    ("resume", "fork", "method"),
    [("", False, "thread/start"), ("R", False, "thread/resume"), ("R", True, "thread/fork")],
)
def test_a_thread_is_started_resumed_or_forked(resume: str, fork: bool, method: str) -> None:
    place = msgspec.structs.replace(USER, resume=resume)
    _, _, setup = _launch(place, fork=fork, append_system_prompt="Be brief.")
    assert setup.method == method
    assert setup.thread.get("threadId", "") == resume
    assert (setup.thread.get("developerInstructions", ""), setup.head) == (
        ("", "Be brief.") if resume else ("Be brief.", "")
    )


def test_images_and_schemas_go_with_the_messages() -> None:
    strict: Json = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    image = Attachment(path="/a.png", media_type="image/png", data=b"x")
    place = msgspec.structs.replace(USER, attachments=(image,))
    _, _, setup = _launch(place, mode="complete", output_schema=strict)
    assert setup.attached == [{"type": "localImage", "path": "/SCRATCH/attached-0.png"}]
    assert (setup.schema, setup.tail) == (strict, "")
    _, _, setup = _launch(USER, mode="complete", output_schema={"type": "array"})
    assert setup.schema is None
    assert '{"type":"array"}' in setup.tail


def test_the_channel_stands_between_the_stream_and_the_others() -> None:
    assert [channel.name for channel in DRIVER.channels] == ["stream", "rpc", "acp", "sdk"]
