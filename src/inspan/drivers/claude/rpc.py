"""Claude Code spoken with as it works: stream-json both ways, and its control requests (2.1.325)."""

from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.file_requests import FileResult
from inspan.contracts.permissions import Rulebook
from inspan.contracts.prompt_fallbacks import escape_slash
from inspan.dialects.elicitation import fill_form, read_questions
from inspan.dialects.json_values import as_object, as_objects, get_text
from inspan.protocol.commands import Answer, AnswerHook, Cancel, Command, Configure, Interrupt, SendMessage
from inspan.protocol.events import (
    ErrorReported,
    Event,
    HookCalled,
    PermissionAsked,
    Question,
    QuestionAsked,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

from .dialect import ClaudeDialect, Frame
from .launch import build_attachments
from .launch import launch as launch_stream

INITIALIZE = "inspan-initialize"
# Our hook → its own, and what it calls ours by; a tool that failed has one of its own.
_HOOKS: dict[str, tuple[str, ...]] = {
    "before_tool": ("PreToolUse",),
    "after_tool": ("PostToolUse", "PostToolUseFailure"),
}
# It gives up on a hook by itself; ours has a limit of its own, which counts.
_LONGEST_HOOK_S = 86_400
_ASK_USER = "AskUserQuestion"
# Our mode → its word for what it may do without asking.
_MODES = {"review": "plan"}
_TurnEnd = TurnCompleted | TurnFailed
_CONTROL = (b'"control_request"', b'"control_response"', b'"control_cancel_request"')


class Setup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the dialect needs to know of its launch: what is attached to the first message, and its usual mode.

    `options` are there for a process that starts the program, and has to be told with which.
    """

    attached: list[dict[str, Any]] = []
    permission_mode: str = "default"
    options: dict[str, Any] | None = None


class ControlFrame(msgspec.Struct, gc=False):
    """A line about the conversation, and not of it."""

    type: str
    request_id: str = ""
    request: dict[str, Any] = {}
    response: dict[str, Any] = {}


_decode_setup = msgspec.json.Decoder(know_type(Setup)).decode
_decode_control = msgspec.json.Decoder(know_type(ControlFrame)).decode


def launch(task: Task, context: LaunchContext) -> Launch:
    """The same program with the same options; what it is told comes in messages."""
    usual = launch_stream(task, context)
    argv = [*usual.argv]
    if "--input-format" not in argv:
        argv += ["--input-format", "stream-json"]
    argv.append("--replay-user-messages")
    setup = Setup(
        attached=build_attachments(context),
        permission_mode=argv[argv.index("--permission-mode") + 1],
    )
    return msgspec.structs.replace(
        usual, argv=tuple(argv), stdin=msgspec.json.encode(setup), keeps_stdin=True, conversation=True
    )


class ClaudeRpcDialect(ClaudeDialect):
    """The language of its usual channel, and what goes down: messages, interrupts, answers."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        super().__init__(task, reported)
        self._task = task
        self._setup = Setup()
        self._ask_rules = Rulebook(ask=tuple(pattern for pattern in task.ask if pattern != "*"))
        self._requests = 0
        self._asked: dict[str, tuple[str, dict[str, Any]]] = {}
        self._hooked: dict[str, dict[str, Any]] = {}
        self._forms: dict[str, ControlFrame] = {}
        self._interrupting = False
        self._unheard: list[str] = []
        self._held: _TurnEnd | None = None
        self._configuring: dict[str, str] = {}
        self._control_handlers: dict[str, Callable[[ControlFrame], DialectOutput]] = {
            "control_request": self._on_control_request,
            "control_response": self._on_control_response,
            "control_cancel_request": self._on_control_cancel,
        }

    def open(self) -> DialectOutput:
        return self.begin(b"{}")

    def begin(self, setup: bytes) -> DialectOutput:
        self._setup = _decode_setup(setup)
        wanted = {*self._task.hooks, *(["before_tool"] if self._ask_rules.ask else [])}
        hooks = {
            own: [{"matcher": None, "hookCallbackIds": [name], "timeout": _LONGEST_HOOK_S}]
            for name in _HOOKS
            if name in wanted
            for own in _HOOKS[name]
        }
        request: dict[str, Any] = {"subtype": "initialize", "hooks": hooks or None}
        if self._setup.options is not None:
            request |= {"options": self._setup.options, "asks": bool(self._task.ask)}
        return DialectOutput(frames=[_encode_request(INITIALIZE, request)])

    def receive(self, frame: bytes) -> DialectOutput:
        if not any(word in frame for word in _CONTROL):
            return self._read_turn(super().receive(frame))
        try:
            decoded = _decode_control(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        handler = self._control_handlers.get(decoded.type)
        return handler(decoded) if handler else self._read_turn(super().receive(frame))

    def send(self, command: Command) -> DialectOutput:
        if isinstance(command, SendMessage):
            return self._send_message(command)
        if isinstance(command, Interrupt | Cancel):
            self._interrupting = True
            return DialectOutput(frames=[self._control({"subtype": "interrupt"})])
        if isinstance(command, Answer):
            return self._send_answer(command)
        if isinstance(command, AnswerHook):
            return self._send_hook_answer(command)
        if isinstance(command, Configure):
            return self._send_configuration(command)
        return NO_OUTPUT

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        return NO_OUTPUT  # It works on files itself.

    def close(self) -> DialectOutput:
        return NO_OUTPUT

    def _send_message(self, message: SendMessage) -> DialectOutput:
        text = escape_slash(message.text, self._task.mode)
        content: Any = text
        if self._setup.attached:
            content = [*self._setup.attached, {"type": "text", "text": text}]
            self._setup = msgspec.structs.replace(self._setup, attached=[])
        if message.when == "steer":
            self._unheard.append(text)
        spelled = {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}
        return DialectOutput(frames=[msgspec.json.encode(spelled) + b"\n"])

    def _send_answer(self, answer: Answer) -> DialectOutput:
        if form := self._forms.pop(answer.id, None):
            return self._send_form(form, answer)
        request_id, given = self._asked.pop(answer.id, ("", {}))
        if not request_id:
            return NO_OUTPUT
        if answer.answers:
            response = {"behavior": "allow", "updatedInput": {**given, "answers": answer.answers}}
        elif answer.allowed:
            response = {"behavior": "allow", "updatedInput": given if answer.input is None else answer.input}
            if answer.input is not None and answer.id in self._calls:
                self._calls[answer.id] = (self._calls[answer.id][0], answer.input)
        else:
            response = {"behavior": "deny", "message": answer.reason or "the user said no"}
            self._denied.add(answer.id)
        return DialectOutput(frames=[_encode_response(request_id, response)])

    def _send_configuration(self, command: Configure) -> DialectOutput:
        frames: list[bytes] = []
        if command.model:
            frames.append(self._control({"subtype": "set_model", "model": command.model}))
        if command.mode:
            mode = _MODES.get(command.mode, self._setup.permission_mode)
            frames.append(self._control({"subtype": "set_permission_mode", "mode": mode}))
        return DialectOutput(frames=frames)

    def _control(self, request: dict[str, Any]) -> bytes:
        self._requests += 1
        identity = f"inspan-{self._requests}"
        self._configuring[identity] = request["subtype"]
        return _encode_request(identity, request)

    def _on_user(self, frame: Frame) -> list[Event]:
        if not frame.is_replay:
            return super()._on_user(frame)
        # A message of ours, told when it is taken up.
        said = frame.message if isinstance(frame.message, str) else frame.message.content
        if isinstance(said, str) and said in self._unheard:
            self._unheard.remove(said)
        return []

    def _on_init(self, frame: Frame) -> list[Event]:
        return [] if self._held else super()._on_init(frame)

    def _read_turn(self, output: DialectOutput) -> DialectOutput:
        """A turn ends once all that was said into it was heard: what came too late is taken up by another turn of its
        own. One that failed because it was interrupted was interrupted."""
        events = [event for event in output.events if not isinstance(event, TurnCompleted | TurnFailed)]
        ends = [event for event in output.events if isinstance(event, TurnCompleted | TurnFailed)]
        if not ends:
            # An interrupt that came before the turn had begun was heard, and forgotten.
            begun = self._interrupting and any(isinstance(event, TurnStarted) for event in events)
            return DialectOutput(events, [self._control({"subtype": "interrupt"})]) if begun else output
        end = _merge_ends(self._held, ends[-1])
        if self._unheard:
            self._held = end
            return DialectOutput(events, [self._control({"subtype": "interrupt"})] if self._interrupting else ())
        interrupted = self._interrupting
        self._held, self._interrupting = None, False
        return DialectOutput([*events, _to_interrupted(end) if interrupted else end])

    def _on_control_request(self, frame: ControlFrame) -> DialectOutput:
        kind = frame.request.get("subtype")
        if kind == "can_use_tool":
            return self._on_permission_request(frame)
        if kind == "hook_callback":
            return self._on_hook(frame)
        if kind == "elicitation" and self._task.ask and frame.request.get("mode") == "form":
            return self._on_form(frame)
        error = {"subtype": "error", "request_id": frame.request_id, "error": f"not supported: {kind}"}
        return DialectOutput(
            [build_unrecognized(msgspec.json.encode(frame.request), f"control request {kind}")],
            [_encode_line({"type": "control_response", "response": error})],
        )

    def _on_permission_request(self, frame: ControlFrame) -> DialectOutput:
        request = frame.request
        given = as_object(request.get("input"))
        identity = get_text(request, "tool_use_id") or frame.request_id
        tool = get_text(request, "tool_name")
        self._asked[identity] = (frame.request_id, given)
        if tool == _ASK_USER:
            return DialectOutput([QuestionAsked(id=identity, questions=_read_questions(given))])
        why = get_text(request, "decision_reason")
        return DialectOutput([PermissionAsked(id=identity, tool=tool, input=given, reason=why)])

    def _on_form(self, frame: ControlFrame) -> DialectOutput:
        """What an MCP server wants to know from the user."""
        identity = f"asked-{frame.request_id}"
        self._forms[identity] = frame
        words = get_text(frame.request, "message")
        questions = read_questions(words, frame.request.get("requested_schema"))
        return DialectOutput([QuestionAsked(id=identity, questions=questions)])

    def _send_form(self, frame: ControlFrame, answer: Answer) -> DialectOutput:
        words, schema = get_text(frame.request, "message"), frame.request.get("requested_schema")
        filled = fill_form(words, schema, answer.answers) if answer.allowed else None
        told: dict[str, Any] = {"action": "decline"} if filled is None else {"action": "accept", "content": filled}
        return DialectOutput(frames=[_encode_response(frame.request_id, told)])

    def _on_hook(self, frame: ControlFrame) -> DialectOutput:
        name, data = get_text(frame.request, "callback_id"), as_object(frame.request.get("input"))
        if name not in self._task.hooks:
            told = self._ask_by_rule(data, data.get("tool_input"))
            return DialectOutput(frames=[_encode_response(frame.request_id, told)])
        identity = f"hook-{frame.request_id}"
        self._hooked[identity] = {**data, "request_id": frame.request_id}
        called = HookCalled(
            id=identity,
            hook="before_tool" if name == "before_tool" else "after_tool",
            tool=get_text(data, "tool_name"),
            tool_id=get_text(data, "tool_use_id"),
            input=data.get("tool_input"),
            output=_read_output(data),
            failed=data.get("hook_event_name") == "PostToolUseFailure",
        )
        return DialectOutput([called])

    def _ask_by_rule(self, data: dict[str, Any], given: Any) -> dict[str, Any]:
        """What a rule wants asked is asked, also where the program itself would not."""
        if self._ask_rules.rule(get_text(data, "tool_name"), given) != "ask":
            return {}
        return _spell_hook("PreToolUse", permissionDecision="ask")

    def _send_hook_answer(self, answer: AnswerHook) -> DialectOutput:
        data = self._hooked.pop(answer.id, None)
        if data is None:
            return NO_OUTPUT
        event = get_text(data, "hook_event_name")
        if event != "PreToolUse":
            told = _spell_hook(event, additionalContext=answer.text) if answer.text else {}
        elif answer.allowed:
            told = self._let_through(data, answer)
        else:
            self._denied.add(get_text(data, "tool_use_id"))
            reason = answer.reason or "a hook denied it"
            told = _spell_hook(event, permissionDecision="deny", permissionDecisionReason=reason)
        return DialectOutput(frames=[_encode_response(data["request_id"], told)])

    def _let_through(self, data: dict[str, Any], answer: AnswerHook) -> dict[str, Any]:
        """A hook allows nothing by itself: what would be asked about still is, with the input that it changed."""
        if answer.input is None:
            return self._ask_by_rule(data, data.get("tool_input"))
        identity = get_text(data, "tool_use_id")
        if identity in self._calls:
            self._calls[identity] = (self._calls[identity][0], answer.input)
        told = self._ask_by_rule(data, answer.input) or _spell_hook("PreToolUse")
        told["hookSpecificOutput"]["updatedInput"] = answer.input
        return told

    def _on_control_response(self, frame: ControlFrame) -> DialectOutput:
        response = frame.response
        what = self._configuring.pop(get_text(response, "request_id"), "")
        if response.get("subtype") != "error" or what == "interrupt":
            return NO_OUTPUT
        return DialectOutput([ErrorReported(message=f"{what or 'initialize'}: {response.get('error')}")])

    def _on_control_cancel(self, frame: ControlFrame) -> DialectOutput:
        """It waits for an answer no more; the turn's end closes the question."""
        for identity, (request_id, _) in list(self._asked.items()):
            if request_id == frame.request_id:
                del self._asked[identity]
        return NO_OUTPUT


def _merge_ends(earlier: _TurnEnd | None, later: _TurnEnd) -> _TurnEnd:
    """The later one, with what both have used."""
    if earlier is None:
        return later
    usage = (earlier.usage or Usage()) + (later.usage or Usage())
    cost_usd = (earlier.cost_usd or 0.0) + (later.cost_usd or 0.0)
    return msgspec.structs.replace(later, usage=usage, cost_usd=round(cost_usd, 9))


def _to_interrupted(end: _TurnEnd) -> TurnInterrupted:
    return TurnInterrupted(usage=end.usage, cost_usd=end.cost_usd)


def _read_questions(given: dict[str, Any]) -> list[Question]:
    return [
        Question(
            text=get_text(each, "question"),
            options=[get_text(option, "label") for option in as_objects(each.get("options"))],
            several=bool(each.get("multiSelect")),
        )
        for each in as_objects(given.get("questions"))
    ]


def _spell_hook(event: str, **fields: object) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def _read_output(data: dict[str, Any]) -> str:
    """What a tool gave: its text where it is one, else all of it."""
    given = data.get("tool_response", data.get("error"))
    fields = as_object(given)
    text = given if isinstance(given, str) else fields.get("stdout")
    return text if isinstance(text, str) else "" if given is None else msgspec.json.encode(given).decode()


def _encode_request(identity: str, request: dict[str, Any]) -> bytes:
    return _encode_line({"type": "control_request", "request_id": identity, "request": request})


def _encode_response(identity: str, response: dict[str, Any]) -> bytes:
    given = {"subtype": "success", "request_id": identity, "response": response}
    return _encode_line({"type": "control_response", "response": given})


def _encode_line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
