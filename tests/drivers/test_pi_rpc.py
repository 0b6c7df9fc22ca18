"""Pi 1.5.0 spoken with by `pi --mode rpc`: frames as the real program sent them, and what is said to it."""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from inspan.agents.select import select_channel
from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, InteractiveDialect
from inspan.contracts.driver import Attachment, Launch, LaunchContext
from inspan.drivers.pi import DRIVER
from inspan.drivers.pi.extension import ASKING_TITLE
from inspan.protocol.commands import Answer, Cancel, Command, Configure, Interrupt, Ping, SendMessage
from inspan.protocol.events import (
    CommandExecuted,
    ErrorReported,
    Event,
    PermissionAsked,
    Question,
    QuestionAsked,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import SessionTotals, Usage

from .frames import RECORDINGS, events_of
from .launches import ENDPOINT, build_launch, values_after

RPC = select_channel(DRIVER, "rpc")
CLEAN = LaunchContext(
    program="pi",
    cwd="/WORK",
    scratch="/SCRATCH",
    config="/CONFIG",
    endpoint=ENDPOINT,
    provider="anthropic",
    wire="messages",
)
USER = LaunchContext(program="pi", cwd="/WORK", scratch="/SCRATCH", provider="anthropic", wire="messages")
EXTENSION = "/SCRATCH/extension.mjs"
HEAD = ("pi", "--mode", "rpc", "--extension", EXTENSION)
HELD = ("--no-extensions",)
SKILLS = ("--skill", "/WORK/.pi/skills", "--skill", "/WORK/.agents/skills")
COUNTED = {"input": 100, "output": 7, "cacheRead": 20, "cacheWrite": 10, "reasoning": 3, "cost": {"total": 0.0007475}}
CALL = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)
DONE = TurnCompleted(usage=CALL, cost_usd=0.0007475)
THREAD = ThreadStarted(session_id="6aeda639")
AGENT_START = {"type": "agent_start"}
SETTLED = {"type": "agent_settled", "aborted": False}
BASH = {"toolCallId": "toolu_1", "toolName": "bash"}
COMMAND = {"command": "echo one > one.txt"}


class Talk:
    """A dialect that is spoken with: what came of the last step, and all events and frames so far."""

    def __init__(self, *, provider: str = "anthropic", images: Sequence[object] = (), **fields: Any) -> None:
        dialect = RPC.channels[0].dialect(Task(prompt="do it", cwd="/WORK", **fields), SessionTotals())
        assert isinstance(dialect, InteractiveDialect)
        self.dialect = dialect
        self.events: list[Event] = []
        self.frames: list[dict[str, Any]] = []
        self.last: DialectOutput = NO_OUTPUT
        self._take(dialect.begin(json.dumps({"provider": provider, "images": images}).encode()))

    def greet(self, provider: str = "anthropic") -> "Talk":
        model = {"id": "claude-opus-4-8", "provider": provider}
        return self.answer("get_state", data={"model": model, "sessionId": "6aeda639", "thinkingLevel": "off"})

    def say(self, text: str, when: Any = "queue") -> "Talk":
        return self.send(SendMessage(id=text, text=text, when=when))

    def send(self, command: Command) -> "Talk":
        self._take(self.dialect.send(command))
        return self

    def hear(self, *frames: dict[str, Any]) -> "Talk":
        for frame in frames:
            self._take(self.dialect.receive(json.dumps(frame, separators=(",", ":")).encode()))
        return self

    def answer(self, command: str, *, success: bool = True, **fields: Any) -> "Talk":
        """Pi's reply to the last command of this kind."""
        identity = next(frame["id"] for frame in reversed(self.frames) if frame["type"] == command)
        return self.hear({"id": identity, "type": "response", "command": command, "success": success, **fields})

    def accept(self, disposition: str = "started") -> "Talk":
        return self.answer("prompt", data={"disposition": disposition})

    def run(self) -> "Talk":
        """A message is accepted, and its run begins."""
        return self.accept().hear(AGENT_START)

    def commands(self) -> list[dict[str, Any]]:
        """What was said to Pi, without the ids, which are all different."""
        identities = [frame["id"] for frame in self.frames if frame["type"] != "extension_ui_response"]
        assert len(set(identities)) == len(identities)
        return [{name: value for name, value in frame.items() if name != "id"} for frame in self.frames]

    def _take(self, output: DialectOutput) -> None:
        assert all(frame.endswith(b"\n") and frame.count(b"\n") == 1 for frame in output.frames)
        self.last = output
        self.events += output.events
        self.frames += [json.loads(frame) for frame in output.frames]


def prompt(text: str, behavior: str = "followUp", **fields: Any) -> dict[str, Any]:
    return {"type": "prompt", "message": text, "streamingBehavior": behavior, **fields}


def assistant(text: str = "", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    message = {"role": "assistant", "content": content, "usage": COUNTED, "stopReason": "stop", **fields}
    return {"type": "message_end", "message": message}


def dialog(method: str, identity: str = "a478146b", **fields: Any) -> dict[str, Any]:
    return {"type": "extension_ui_request", "id": identity, "method": method, **fields}


def tool_dialog(tool: str, given: dict[str, Any], identity: str = "toolu_1") -> dict[str, Any]:
    question = {"id": identity, "tool": tool, "input": given, "cwd": "/WORK"}
    return dialog("input", title=ASKING_TITLE, placeholder=json.dumps(question))


def asking() -> Talk:
    """A turn in which the tool bash waits for a permission."""
    talk = Talk(ask=("*",)).greet().say("work").run()
    return talk.hear({"type": "tool_execution_start", **BASH, "args": COMMAND}, tool_dialog("bash", COMMAND))


def reply_of(talk: Talk) -> dict[str, Any]:
    """What our extension is told in reply to its question."""
    frame = talk.frames[-1]
    assert (frame["type"], frame["id"]) == ("extension_ui_response", "a478146b")
    return json.loads(frame["value"])


def test_two_messages_are_two_turns_each_with_its_own_usage() -> None:
    talk = Talk().greet()
    talk.say("one").run().hear(assistant("Hello."), SETTLED)
    talk.say("two").run().hear(assistant("Again."), assistant("And again."), SETTLED)
    assert talk.events == [
        *(THREAD, TurnStarted(), TextSaid(text="Hello."), DONE),
        *(TurnStarted(), TextSaid(text="Again."), TextSaid(text="And again.")),
        TurnCompleted(usage=CALL + CALL, cost_usd=0.001495),
    ]
    assert talk.commands() == [{"type": "get_state"}, prompt("one"), prompt("two")]


def test_work_is_told_as_by_the_usual_channel() -> None:
    lines = (RECORDINGS / "pi" / "work.jsonl").read_bytes().splitlines()
    session, *rest = (json.loads(line) for line in lines if line)
    talk = Talk().answer("get_state", data={"sessionId": session["id"]}).say("work").accept().hear(*rest)
    assert talk.events == events_of(DRIVER, "work")


def test_text_comes_in_pieces_where_they_are_asked_for() -> None:
    piece = {"type": "text_delta", "contentIndex": 0, "delta": "Hel"}
    talk = Talk(partial=True).greet().say("one").run()
    talk.hear({"type": "message_start"}, {"type": "message_update", "assistantMessageEvent": piece})
    assert talk.last.events == [TextDelta(block="1/0", text="Hel")]


def test_a_message_waits_until_pi_listens() -> None:
    talk = Talk().say("early")
    assert (talk.last, talk.commands()) == (NO_OUTPUT, [{"type": "get_state"}])
    talk.greet()
    assert talk.events == [THREAD, TurnStarted()]
    assert talk.commands()[1:] == [prompt("early")]


def test_a_message_that_still_waits_is_dropped_by_an_interrupt() -> None:
    talk = Talk().say("early").send(Interrupt())
    assert (talk.events, talk.commands()) == ([TurnInterrupted()], [{"type": "get_state"}])
    talk.greet()
    assert talk.events == [TurnInterrupted(), THREAD]


def test_what_is_to_go_into_a_turn_that_waits_is_kept_by_pi_and_dropped_with_it() -> None:
    talk = Talk().say("early").say("and this", "steer")
    assert talk.commands()[1:] == [{"type": "steer", "message": "and this"}]
    talk.send(Interrupt())
    assert talk.commands()[2:] == [{"type": "clear_queue"}]


def test_a_program_that_tells_no_state_ends_the_run() -> None:
    talk = Talk().say("early").answer("get_state", success=False, error="No API key found for anthropic")
    failed = TurnFailed(failure="authentication", message="No API key found for anthropic")
    assert (talk.events, talk.last.done) == ([TurnStarted(), failed], True)


@pytest.mark.parametrize("order", [Interrupt(), Cancel()])
def test_an_interrupt_ends_the_turn_with_what_it_has_used_and_the_session_stays(order: Command) -> None:
    talk = Talk().greet().say("one").run().send(order)
    assert talk.commands()[2:] == [{"type": "clear_queue"}, {"type": "abort"}]
    talk.hear(assistant("Hel", stopReason="aborted"), {"type": "agent_settled", "aborted": True}).answer("abort")
    assert talk.events[2:] == [TextSaid(text="Hel"), TurnInterrupted(usage=CALL, cost_usd=0.0007475)]
    talk.say("two").run().hear(assistant("Hello."), SETTLED)
    assert talk.events[4:] == [TurnStarted(), TextSaid(text="Hello."), DONE]


def test_an_interrupt_before_the_run_has_begun_is_said_again() -> None:
    talk = Talk().greet().say("one").send(Interrupt()).run()
    assert [each["type"] for each in talk.commands()[2:]] == ["clear_queue", "abort", "abort"]
    talk.hear(SETTLED)
    assert talk.events[2:] == [TurnInterrupted(usage=Usage())]


def test_without_a_turn_there_is_nothing_to_interrupt() -> None:
    assert Talk().greet().send(Interrupt()).last == NO_OUTPUT


def test_a_message_goes_into_the_running_turn() -> None:
    talk = Talk().greet().say("one").run().say("use blue", "steer").accept("queued")
    talk.hear({"type": "queue_update", "steering": [], "followUp": []}, assistant("Blue."), SETTLED)
    assert talk.events == [THREAD, TurnStarted(), TextSaid(text="Blue."), DONE]
    # What a run that failed has left would be said in the next turn.
    assert talk.commands()[2:] == [prompt("use blue", "steer"), {"type": "clear_queue"}]


def test_a_message_that_comes_too_late_for_the_run_still_belongs_to_its_turn() -> None:
    talk = Talk().greet().say("one").run().hear(assistant("Hello.")).say("late", "steer").hear(SETTLED)
    assert talk.last.events == []
    talk.run().hear(assistant("Late."), SETTLED)
    usage = TurnCompleted(usage=CALL + CALL, cost_usd=0.001495)
    assert talk.events[1:] == [TurnStarted(), TextSaid(text="Hello."), TextSaid(text="Late."), usage]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"data": {"disposition": "handled"}}, []),
        ({"success": False, "error": "no"}, [ErrorReported(message="prompt: no")]),
    ],
)
def test_a_late_message_that_starts_nothing_ends_the_turn(fields: dict[str, Any], told: list[Event]) -> None:
    talk = Talk().greet().say("one").run().hear(assistant("Hello.")).say("late", "steer").hear(SETTLED)
    assert talk.answer("prompt", **fields).last.events == [*told, DONE]


def test_a_message_that_an_extension_handles_is_a_turn_without_a_run() -> None:
    talk = Talk().greet().say("/hello you").accept("handled")
    assert talk.events[1:] == [TurnStarted(), TurnCompleted(usage=Usage())]


def test_a_message_that_is_not_taken_is_a_turn_that_failed() -> None:
    talk = Talk().greet().say("one").answer("prompt", success=False, error="No API key found for anthropic.")
    failed = TurnFailed(failure="authentication", message="No API key found for anthropic.")
    assert talk.events[1:] == [TurnStarted(), failed]
    assert talk.say("two").last.events == [TurnStarted()]


def test_a_call_that_failed_fails_the_turn_although_our_extension_aborts_it() -> None:
    words = '401 {"error":{"message":"Invalid API key."}}'
    broken = assistant(stopReason="error", errorMessage=words, usage=None)
    talk = Talk().greet().say("one").run().hear(broken, {"type": "agent_settled", "aborted": True})
    failed = TurnFailed(failure="authentication", message="Invalid API key.", status=401, usage=Usage())
    assert talk.events[2:] == [failed]


def test_images_go_with_the_first_message_alone() -> None:
    image = {"type": "image", "data": "cG5n", "mimeType": "image/png"}
    talk = Talk(images=[image]).greet().say("look").run().hear(SETTLED).say("again")
    assert talk.commands()[1:] == [prompt("look", images=[image]), prompt("again")]


def test_a_permission_is_asked_with_the_exact_command_and_given() -> None:
    talk = asking()
    assert talk.events[2:] == [
        ToolStarted(id="toolu_1", name="bash", input=COMMAND),
        PermissionAsked(id="toolu_1", tool="bash", input=COMMAND),
    ]
    assert reply_of(talk.send(Answer(id="toolu_1"))) == {"allowed": True}
    talk.hear({"type": "tool_execution_end", **BASH, "result": {"content": "(no output)"}, "isError": False})
    assert talk.last.events == [
        ToolCompleted(id="toolu_1", name="bash", output="(no output)"),
        CommandExecuted(id="toolu_1", command="echo one > one.txt", exit_code=0),
    ]
    assert talk.send(Answer(id="toolu_1")).last == NO_OUTPUT


def test_a_denial_reaches_the_model_with_its_reason() -> None:
    talk = asking().send(Answer(id="toolu_1", allowed=False, reason="not now"))
    assert reply_of(talk) == {"allowed": False, "reason": "not now", "ends": False}
    words = "Not allowed in this run: not now"
    talk.hear({"type": "tool_execution_end", **BASH, "result": {"content": words}, "isError": True})
    assert talk.last.events == [ToolFailed(id="toolu_1", name="bash", output=words, denied=True)]


def test_a_question_that_ends_with_its_turn_leads_to_no_other_call() -> None:
    talk = asking().send(Answer(id="toolu_1", allowed=False, reason="the turn was interrupted", by="inspan"))
    assert reply_of(talk)["ends"]


def test_a_changed_command_is_the_one_that_is_told() -> None:
    other = {"command": "echo two"}
    talk = asking().send(Answer(id="toolu_1", input=other))
    assert reply_of(talk) == {"allowed": True, "input": other}
    talk.hear({"type": "tool_execution_end", **BASH, "result": {"content": "two"}, "isError": False})
    assert talk.last.events[1:] == [CommandExecuted(id="toolu_1", command="echo two", exit_code=0)]


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/WORK/src/a.py", "src/a.py"), ("src/../../etc/x", "/etc/x"), ("./a.py", "a.py"), ("/etc/x", "/etc/x")],
)
def test_a_file_is_named_as_rules_name_it_wherever_its_path_leads(path: str, shown: str) -> None:
    talk = Talk(ask=("*",)).greet().say("work").run().hear(tool_dialog("write", {"path": path, "content": "x"}))
    given = {"path": path, "content": "x", "file_path": shown}
    assert talk.last.events == [PermissionAsked(id="toolu_1", tool="write", input=given)]


@pytest.mark.parametrize(
    ("changed", "used"),
    [
        ({"path": "a.py", "content": "y", "file_path": "a.py"}, {"path": "a.py", "content": "y"}),
        ({"path": "a.py", "content": "x", "file_path": "b.py"}, {"path": "b.py", "content": "x"}),
        ({"path": "c.py", "content": "x", "file_path": "a.py"}, {"path": "c.py", "content": "x"}),
    ],
)
def test_a_changed_file_reaches_the_tool_in_its_own_words(changed: dict[str, Any], used: dict[str, Any]) -> None:
    talk = Talk(ask=("*",)).greet().say("work").run().hear(tool_dialog("write", {"path": "a.py", "content": "x"}))
    assert reply_of(talk.send(Answer(id="toolu_1", input=changed)))["input"] == used


@pytest.mark.parametrize(("path", "asks"), [("secret/key", True), ("src/a.py", False)])
def test_a_tool_that_only_reads_is_asked_about_where_a_pattern_says_so(path: str, asks: bool) -> None:
    talk = Talk(mode="review", ask=("Read(secret/*)",)).greet().say("work").run()
    talk.hear(tool_dialog("read", {"path": path}))
    assert [type(event) for event in talk.last.events] == [PermissionAsked] * asks
    assert asks or reply_of(talk) == {"allowed": True}


@pytest.mark.parametrize(
    ("request_frame", "question", "value", "reply"),
    [
        (
            dialog("select", title="Which colour?", options=["red", "blue"]),
            Question(text="Which colour?", options=["red", "blue"]),
            "blue",
            {"value": "blue"},
        ),
        (
            dialog("confirm", title="Sure?", message="All is lost."),
            Question(text="Sure?\nAll is lost.", options=["Yes", "No"]),
            "Yes",
            {"confirmed": True},
        ),
        (
            dialog("confirm", title="Sure?", message=""),
            Question(text="Sure?", options=["Yes", "No"]),
            "No",
            {"confirmed": False},
        ),
        (dialog("input", title="Your name", placeholder="type"), Question(text="Your name"), "Ada", {"value": "Ada"}),
        (dialog("editor", title="Edit", prefill="a"), Question(text="Edit"), "b\nc", {"value": "b\nc"}),
    ],
    ids=["select", "confirm", "refuse", "input", "editor"],
)
def test_what_another_extension_asks_is_a_question(
    request_frame: dict[str, Any], question: Question, value: str, reply: dict[str, Any]
) -> None:
    talk = Talk().greet().say("one").run().hear(request_frame)
    assert talk.last.events == [QuestionAsked(id="a478146b", questions=[question])]
    talk.send(Answer(id="a478146b", answers={question.text: value}))
    assert talk.frames[-1] == {"type": "extension_ui_response", "id": "a478146b", **reply}


def test_a_question_that_nobody_answers_is_cancelled() -> None:
    talk = Talk().greet().hear(dialog("select", title="Which?", options=["a"]))
    talk.send(Answer(id="a478146b", allowed=False, reason="nobody is there to answer"))
    assert talk.frames[-1] == {"type": "extension_ui_response", "id": "a478146b", "cancelled": True}


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (dialog("notify", message="hi", notifyType="info"), []),
        (dialog("notify", message="bad thing", notifyType="error"), [ErrorReported(message="bad thing")]),
        (dialog("setStatus", statusKey="x", statusText="busy"), []),
        (dialog("setWidget", widgetKey="w", widgetLines=["a"]), []),
        (
            {"type": "extension_error", "extensionPath": "/x.mjs", "event": "agent_start", "error": "boom"},
            [ErrorReported(message="an extension failed at agent_start: boom")],
        ),
    ],
)
def test_what_extensions_only_show_is_told_where_it_is_a_problem(frame: dict[str, Any], told: list[Event]) -> None:
    talk = Talk().greet().hear(frame)
    assert (talk.last.events, talk.last.frames) == (told, [])


@pytest.mark.parametrize(
    "frame",
    [{"type": "surprise"}, {"type": "response", "command": 7}, {"type": "extension_ui_request", "method": []}],
)
def test_a_frame_that_is_not_known_is_kept(frame: dict[str, Any]) -> None:
    (event,) = Talk().greet().hear(frame).last.events
    assert isinstance(event, Unrecognized)
    assert json.loads(event.raw) == frame


def test_a_dialog_that_is_not_known_is_cancelled() -> None:
    talk = Talk().greet().hear(dialog("dance"))
    (event,) = talk.last.events
    assert isinstance(event, Unrecognized)
    assert talk.frames[-1] == {"type": "extension_ui_response", "id": "a478146b", "cancelled": True}


def test_words_of_the_protocol_in_an_answer_are_words() -> None:
    said = 'they wrote "response" and "extension_ui_request"'
    frame = {"type": "message_end", "message": {"role": "assistant", "content": said}}
    assert Talk().greet().say("one").run().hear(frame).last.events == [TextSaid(text=said)]


def test_settings_are_made_one_after_the_other_and_the_next_message_waits_for_them() -> None:
    talk = Talk().greet().send(Configure(model="claude-haiku-4-5", effort="low")).say("two")
    model = {"type": "set_model", "provider": "anthropic", "modelId": "claude-haiku-4-5"}
    assert talk.commands()[1:] == [model]
    talk.answer("set_model", data={"id": "claude-haiku-4-5"})
    assert talk.commands()[2:] == [{"type": "set_thinking_level", "level": "low"}]
    talk.answer("set_thinking_level")
    assert (talk.events[1:], talk.commands()[3:]) == ([TurnStarted()], [prompt("two")])


def test_a_setting_that_is_refused_is_told_and_the_session_goes_on() -> None:
    talk = Talk().greet().send(Configure(model="nonsense")).say("two")
    talk.answer("set_model", success=False, error="Model not found: anthropic/nonsense")
    told = ErrorReported(message="set_model: Model not found: anthropic/nonsense")
    assert talk.last.events == [told, TurnStarted()]


@pytest.mark.parametrize(
    ("gateway", "asked", "given"),
    [
        ("anthropic", "anthropic/claude-haiku-4-5", ("anthropic", "claude-haiku-4-5")),
        ("anthropic", "openai/gpt-5.2", ("anthropic", "openai/gpt-5.2")),
        ("", "openai/gpt-5.2", ("openai", "gpt-5.2")),
        ("", "gpt-5.2", ("groq", "gpt-5.2")),
    ],
)
def test_behind_the_gateway_no_model_of_another_provider_is_chosen(
    gateway: str, asked: str, given: tuple[str, str]
) -> None:
    talk = Talk(provider=gateway).greet(provider="groq").send(Configure(model=asked))
    frame = talk.frames[-1]
    assert (frame["provider"], frame["modelId"]) == given


@pytest.mark.parametrize("command", [Configure(mode="review"), Configure(effort="huge"), Ping(), Answer(id="x")])
def test_what_pi_has_no_word_for_is_not_said(command: Command) -> None:
    assert Talk().greet().send(command).last == NO_OUTPUT


def test_a_setting_made_in_a_turn_counts_from_the_next_one_on() -> None:
    talk = Talk().greet().say("one").run().send(Configure(effort="low")).send(Configure(effort="high"))
    assert talk.commands()[2:] == [{"type": "get_state"}, {"type": "get_state"}]
    talk.greet().hear(assistant("Hello."), SETTLED).say("two")
    assert talk.commands()[4:] == [{"type": "set_thinking_level", "level": "low"}]
    talk.answer("set_thinking_level").answer("set_thinking_level")
    assert talk.commands()[5:] == [{"type": "set_thinking_level", "level": "high"}, prompt("two")]
    assert talk.events == [THREAD, TurnStarted(), TextSaid(text="Hello."), DONE, TurnStarted()]


def run_of(launch: Launch) -> dict[str, Any]:
    """What the extension knows of its run."""
    found = re.search(rb"^const RUN = (\{.*\});$", launch.files[EXTENSION], re.MULTILINE)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mode": "review"},
        {"mode": "complete"},
        {"allowed_tools": ("Read", "Bash(git diff *)")},
        {"disallowed_tools": ("Write", "Bash(rm *)")},
        {"model": "sonnet", "effort": "high", "system_prompt": "one", "options": ("--no-context-files",)},
    ],
    ids=["exec", "review", "complete", "allowed", "denied", "choices"],
)
@pytest.mark.parametrize("place", [CLEAN, USER], ids=["clean", "user"])
def test_it_is_started_as_in_the_usual_channel_and_told_its_prompt_later(
    fields: dict[str, Any], place: LaunchContext
) -> None:
    usual, launch = build_launch(DRIVER, place, **fields), build_launch(RPC, place, **fields)
    assert launch.argv == (*HEAD, *usual.argv[6:])
    assert (launch.env, launch.files) == (usual.env, usual.files)
    assert (launch.keeps_stdin, launch.conversation) == (True, True)
    assert b"do it" not in launch.stdin
    assert "unasked" not in run_of(launch)


def test_what_is_attached_is_said_and_is_no_argument() -> None:
    image = Attachment(path="/a.png", media_type="image/png", data=b"png")
    launch = build_launch(RPC, msgspec.structs.replace(CLEAN, attachments=(image,)))
    assert json.loads(launch.stdin) == {
        "images": [{"type": "image", "data": "cG5n", "mimeType": "image/png"}],
        "provider": "anthropic",
    }
    assert [word for word in launch.argv if word.startswith("@")] == []


@pytest.mark.parametrize("driver", [DRIVER, RPC], ids=["stream", "rpc"])
@pytest.mark.parametrize(
    ("fields", "tools", "unasked", "rules"),
    [
        ({"ask": ("*",)}, [], ["read", "grep", "find", "ls"], {}),
        ({"ask": ("*", "Read(secret/*)")}, [], ["grep", "find", "ls"], {}),
        ({"ask": ("*",), "allowed_tools": ("Read", "Bash(git *)")}, [], ["read"], {}),
        (
            {"ask": ("Bash(git push *)",), "allowed_tools": ("Read", "Bash(git *)", "Edit(docs/**)")},
            ["read,bash,edit"],
            ["read"],
            {"edit": ["docs/**"]},
        ),
        ({"ask": ("*",), "mode": "review"}, ["read,bash,ls"], ["read", "grep", "find", "ls"], {}),
        ({"ask": ("Edit",), "mode": "review"}, ["read,bash,ls"], ["read", "grep", "find", "ls", "bash"], {}),
        ({"ask": ("*",), "mode": "complete"}, [], ["read", "grep", "find", "ls"], {}),
    ],
)
def test_where_somebody_is_asked_our_extension_asks_and_no_other_is_loaded(
    driver: Any, fields: dict[str, Any], tools: list[str], unasked: list[str], rules: dict[str, list[str]]
) -> None:
    launch = build_launch(driver, USER, **fields)
    assert "--no-extensions" in launch.argv
    assert "--no-approve" in launch.argv
    assert values_after(launch.argv, "--tools") == tools
    assert ("--no-tools" in launch.argv) == (fields.get("mode") == "complete")
    assert (run_of(launch)["unasked"], run_of(launch)["allowed"]) == (unasked, rules)


def test_mcp_servers_are_there_where_somebody_is_asked() -> None:
    servers = {"box": McpServer(command="run"), "far": McpServer(url="https://example.com/mcp")}
    launch = build_launch(RPC, USER, ask=("*",), mcp_servers=servers)
    assert values_after(launch.argv, "--extension") == [EXTENSION, "builtin:mcp"]
    assert list(run_of(launch)["servers"]) == ["box", "far"]
    named = build_launch(RPC, USER, ask=("mcp__far",), allowed_tools=("Read",), mcp_servers=servers)
    assert values_after(named.argv, "--tools") == ["read,mcp__far__*"]
    assert list(run_of(named)["servers"]) == ["far"]


def test_the_session_can_do_what_was_seen() -> None:
    session = RPC.channels[0].session
    told = {name: getattr(session, name) for name in session.__struct_fields__ if getattr(session, name)}
    assert list(told) == [
        *("messages", "steer", "interrupt", "ask", "ask_patterns", "changed_input", "questions", "model", "effort")
    ]
