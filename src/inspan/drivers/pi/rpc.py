"""Pi spoken with as it works: `pi --mode rpc`, its commands, its events and the dialogs of its extensions (1.5.0)."""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import Launch, LaunchContext, match_failure
from inspan.contracts.file_requests import FileResult
from inspan.contracts.permissions import Rulebook
from inspan.dialects.json_values import as_object, get_object, get_text
from inspan.protocol.commands import Answer, Cancel, Command, Configure, Interrupt, SendMessage
from inspan.protocol.events import (
    ErrorReported,
    Event,
    PermissionAsked,
    QuestionAsked,
    ThreadStarted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from .dialect import Frame, PiDialect
from .dialogs import (
    Request,
    ToolRequest,
    decode_request,
    encode_reply,
    read_question,
    read_tool_request,
    reply_to_question,
    reply_to_tool,
)
from .frames import FAILURES, Call, TurnUsage
from .launch import EFFORTS, build_launch, list_unquestioned

# Frames that only this channel has; each begins with its type, or with the id of our command before it.
_OWN_TYPES = (b'"response"', b'"extension_ui_request"', b'"extension_error"')
_LOOKED_AT_BYTES = 200


class _Setup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the dialect needs to know of its launch.

    `images` go with the first message; behind a gateway, `provider` is the only one whose models can be chosen.
    """

    images: list[dict[str, str]] = []
    provider: str = ""


class _Head(msgspec.Struct, gc=False):
    type: str


class _Response(msgspec.Struct, gc=False):
    command: str
    id: str = ""
    success: bool = True
    data: Any = None
    error: str = ""


class _ExtensionError(msgspec.Struct, gc=False):
    event: str = ""
    error: str = ""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A dialog that Pi waits with, and the tool that it is about where it is ours."""

    request: Request
    tool: ToolRequest | None = None


_decode_setup = msgspec.json.Decoder(know_type(_Setup)).decode
_decode_head = msgspec.json.Decoder(know_type(_Head)).decode
_decode_response = msgspec.json.Decoder(know_type(_Response)).decode
_decode_extension_error = msgspec.json.Decoder(know_type(_ExtensionError)).decode


def launch(task: Task, context: LaunchContext) -> Launch:
    """The same program with the same options; what it is told comes in messages."""
    setup = _Setup(
        images=[{"type": "image", "data": each.base64, "mimeType": each.media_type} for each in context.attachments],
        provider=context.provider if context.endpoint else "",
    )
    return msgspec.structs.replace(
        build_launch(task, context, ("--mode", "rpc")),
        stdin=msgspec.json.encode(setup),
        keeps_stdin=True,
        conversation=True,
    )


class PiRpcDialect(PiDialect):
    """The language of its usual channel, and what goes down: messages, interrupts, answers, settings.

    A turn begins with the message that is sent, and ends when Pi has settled and owes no reply to a message: one that
    was to go into the turn, and came a moment too late, begins a run of its own that still belongs to it.
    """

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        super().__init__(task, reported)
        self._setup = _Setup()
        self._provider = ""
        self._unquestioned = list_unquestioned(task)
        self._ask_rules = Rulebook(ask=tuple(pattern for pattern in task.ask if pattern != "*"))
        self._commands = 0
        self._outbox: list[bytes] = []
        self._greeted = False
        self._held: SendMessage | None = None
        self._configuring: deque[dict[str, Any]] = deque()
        self._is_configuring = False
        self._unanswered: set[str] = set()
        self._opening = ""
        self._running = False
        self._settled = False
        self._steered = False
        self._interrupting = False
        self._asked: dict[str, _Asked] = {}
        self._senders: dict[type, Callable[[Any], DialectOutput]] = {
            SendMessage: self._send_message,
            Interrupt: lambda _: self._send_interrupt(),
            Cancel: lambda _: self._send_interrupt(),
            Answer: self._send_answer,
            Configure: self._send_configuration,
        }
        self._own_handlers: dict[str, Callable[[bytes], DialectOutput]] = {
            "response": self._on_response,
            "extension_ui_request": self._on_dialog,
            "extension_error": _on_extension_error,
        }
        self._response_handlers: dict[str, Callable[[_Response], DialectOutput]] = {
            "get_state": self._on_state,
            "prompt": self._on_prompt_taken,
            "set_model": self._on_configured,
            "set_thinking_level": self._on_configured,
        }

    def open(self) -> DialectOutput:
        return self.begin(b"{}")

    def begin(self, setup: bytes) -> DialectOutput:
        self._setup = _decode_setup(setup)
        self._provider = self._setup.provider
        return DialectOutput(frames=[self._command("get_state")])

    def receive(self, frame: bytes) -> DialectOutput:
        output = self._receive_own(frame) or super().receive(frame)
        frames, self._outbox = [*output.frames, *self._outbox], []
        return output._replace(frames=frames)

    def send(self, command: Command) -> DialectOutput:
        sender = self._senders.get(type(command))
        return sender(command) if sender else NO_OUTPUT

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        return NO_OUTPUT  # It works on files itself.

    def close(self) -> DialectOutput:
        return NO_OUTPUT

    def _receive_own(self, frame: bytes) -> DialectOutput | None:
        """Reads a frame that only this channel has."""
        if not any(word in frame[:_LOOKED_AT_BYTES] for word in _OWN_TYPES):
            return None
        try:
            handler = self._own_handlers.get(_decode_head(frame).type)
            return handler(frame) if handler else None
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])

    # What goes down.

    def _command(self, kind: str, **fields: Any) -> bytes:
        self._commands += 1
        return _encode_line({"id": f"inspan-{self._commands}", "type": kind, **fields})

    def _send_message(self, message: SendMessage) -> DialectOutput:
        if self._held:  # It is to go into a turn that has not begun: Pi keeps it for the next one.
            self._steered = True
            return DialectOutput(frames=[self._command("steer", message=message.text)])
        if self._spent is not None and message.when == "steer":
            self._steered = True
            return DialectOutput(frames=[self._prompt(message, "steer")])
        if not self._greeted or self._configuring:
            self._held = message
            return NO_OUTPUT
        return self._start_turn(message)

    def _start_turn(self, message: SendMessage) -> DialectOutput:
        self._held = None
        self._spent, self._last, self._settled = TurnUsage(), None, False
        images = {"images": self._setup.images} if self._setup.images else {}
        self._setup = msgspec.structs.replace(self._setup, images=[])
        # An extension may have begun a run of its own: then the message follows that.
        frame = self._prompt(message, "followUp", **images)
        self._opening = f"inspan-{self._commands}"
        return DialectOutput([TurnStarted()], [frame])

    def _prompt(self, message: SendMessage, behavior: str, **fields: Any) -> bytes:
        frame = self._command("prompt", message=message.text, streamingBehavior=behavior, **fields)
        self._unanswered.add(f"inspan-{self._commands}")
        return frame

    def _send_interrupt(self) -> DialectOutput:
        """Messages that wait to go into the turn would else follow it."""
        if self._held:
            self._held = None
            frames = [self._command("clear_queue")] if self._steered else []
            self._steered = False
            return DialectOutput([TurnInterrupted()], frames)
        if self._spent is None:
            return NO_OUTPUT
        self._interrupting = True
        return DialectOutput(frames=[self._command("clear_queue"), self._command("abort")])

    def _send_answer(self, answer: Answer) -> DialectOutput:
        asked = self._asked.pop(answer.id, None)
        if asked is None:
            return NO_OUTPUT
        if asked.tool is None:
            reply = reply_to_question(answer, asked.request.method)
        else:
            reply = reply_to_tool(answer, self._change_input(answer, asked.tool))
        return DialectOutput(frames=[encode_reply(asked.request.id, reply)])

    def _change_input(self, answer: Answer, tool: ToolRequest) -> dict[str, Any] | None:
        """What is put in place of a tool's input, if anything is: what the tool then did is told by that."""
        if not answer.allowed or answer.input is None:
            return None
        changed = tool.restore_input(answer.input)
        self._calls[tool.id] = Call(id=tool.id, name=tool.tool, input=changed)
        return changed

    def _send_configuration(self, command: Configure) -> DialectOutput:
        """One setting after the other, and before the next turn: Pi works on several commands at once.

        In a running turn it would set them at once: then it is asked for what changes nothing, and told at the end.
        """
        settings: list[dict[str, Any]] = []
        if command.effort and command.effort not in EFFORTS:
            return NO_OUTPUT
        if command.model:
            provider, model = self._split_model(command.model)
            if not provider:
                return NO_OUTPUT
            settings.append({"kind": "set_model", "provider": provider, "modelId": model})
        if command.effort:
            settings.append({"kind": "set_thinking_level", "level": command.effort})
        if not settings:
            return NO_OUTPUT
        self._configuring.extend(settings)
        return DialectOutput(frames=self._next_setting() or [self._command("get_state")])

    def _next_setting(self) -> list[bytes]:
        """The command for the first setting that waits, where it need not wait any more."""
        if not self._configuring or self._is_configuring or self._spent is not None:
            return []
        self._is_configuring = True
        return [self._command(**self._configuring[0])]

    def _split_model(self, model: str) -> tuple[str, str]:
        """A model's provider and its id: behind the gateway, no other provider's than the gateway's own."""
        if self._setup.provider:
            return self._setup.provider, model.removeprefix(f"{self._setup.provider}/")
        provider, slash, name = model.partition("/")
        return (provider, name) if slash else (self._provider, model)

    # Replies to commands.

    def _on_response(self, frame: bytes) -> DialectOutput:
        response = _decode_response(frame)
        handler = self._response_handlers.get(response.command)
        if handler:
            return handler(response)
        return NO_OUTPUT if response.success else DialectOutput([_build_error(response)])

    def _on_state(self, response: _Response) -> DialectOutput:
        if not response.success:
            return DialectOutput([TurnStarted(), _build_failure(response)], done=True)
        if self._greeted:
            return NO_OUTPUT
        self._greeted = True
        state = as_object(response.data)
        self._provider = self._provider or get_text(get_object(state, "model"), "provider")
        started = ThreadStarted(session_id=get_text(state, "sessionId"), model=self._model)
        return self._release(started)

    def _on_configured(self, response: _Response) -> DialectOutput:
        done = self._configuring.popleft() if self._configuring else {}
        if response.success and response.command == "set_model":
            self._provider = done.get("provider", self._provider)
        self._is_configuring = False
        self._outbox += self._next_setting()
        return self._release(*([] if response.success else [_build_error(response)]))

    def _release(self, *events: Event) -> DialectOutput:
        """Sends the message that had to wait, if it need not wait any more."""
        if self._held is None or self._configuring or not self._greeted:
            return DialectOutput(events)
        output = self._start_turn(self._held)
        return DialectOutput([*events, *output.events], output.frames)

    def _on_prompt_taken(self, response: _Response) -> DialectOutput:
        """Where a message started no run, nothing else will tell that its turn is over."""
        self._unanswered.discard(response.id)
        if not response.success and response.id == self._opening and not self._running:
            return DialectOutput(self._end_turn(_build_failure(response)))
        if response.success and get_text(as_object(response.data), "disposition") != "handled":
            self._settled = False
            return NO_OUTPUT
        events = [] if response.success else [_build_error(response)]
        if self._unanswered or (self._running and not self._settled):
            return DialectOutput(events)
        return DialectOutput([*events, *self._end_turn()])

    # The turn.

    def _on_agent_start(self, frame: Frame) -> list[Event]:
        self._running = True
        self._settled = False
        if self._interrupting:  # It came before there was a run to abort.
            self._outbox.append(self._command("abort"))
        return super()._on_agent_start(frame)

    def _on_agent_settled(self, frame: Frame) -> list[Event]:
        self._settled = True
        return [] if self._unanswered else self._end_turn()

    def _end_turn(self, failure: TurnFailed | None = None) -> list[Event]:
        if self._spent is None:
            return []
        ended = self._close_turn()
        if self._interrupting:
            ended = TurnInterrupted(usage=ended.usage, cost_usd=ended.cost_usd)
        if self._steered:  # A run that failed leaves them for the next.
            self._outbox.append(self._command("clear_queue"))
        self._running = self._settled = self._steered = self._interrupting = False
        self._opening = ""
        self._outbox += self._next_setting()
        return [failure if failure and not isinstance(ended, TurnInterrupted) else ended]

    # What its extensions ask.

    def _on_dialog(self, frame: bytes) -> DialectOutput:
        request = decode_request(frame)
        if request.is_shown_only:
            return DialectOutput([ErrorReported(message=request.problem)] if request.problem else [])
        if tool := read_tool_request(request):
            return self._on_tool_request(request, tool)
        question = read_question(request)
        if question is None:
            return DialectOutput(
                [build_unrecognized(frame, f"dialog {request.method!r}")],
                [encode_reply(request.id, {"cancelled": True})],
            )
        self._asked[request.id] = _Asked(request=request)
        return DialectOutput([QuestionAsked(id=request.id, questions=[question])])

    def _on_tool_request(self, request: Request, tool: ToolRequest) -> DialectOutput:
        """Our extension does not know the patterns of `ask`: a call of such a tool may be none of theirs."""
        shown = tool.shown_input
        if tool.tool in self._unquestioned and self._ask_rules.rule(tool.tool, shown) != "ask":
            return DialectOutput(frames=[encode_reply(request.id, reply_to_tool(Answer(id=tool.id), None))])
        self._asked[tool.id] = _Asked(request=request, tool=tool)
        return DialectOutput([PermissionAsked(id=tool.id, tool=tool.tool, input=shown)])


def _on_extension_error(frame: bytes) -> DialectOutput:
    failed = _decode_extension_error(frame)
    return DialectOutput([ErrorReported(message=f"an extension failed at {failed.event}: {failed.error}")])


def _build_error(response: _Response) -> ErrorReported:
    return ErrorReported(message=f"{response.command}: {response.error}")


def _build_failure(response: _Response) -> TurnFailed:
    return TurnFailed(failure=match_failure(FAILURES, response.error) or "unknown", message=response.error)


def _encode_line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
