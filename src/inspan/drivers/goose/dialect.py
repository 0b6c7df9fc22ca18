"""Reads what `goose run --output-format stream-json` prints, as it speaks in 1.52."""

import os.path
import re
from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.dialects.json_values import as_object, get_text, parts_to_text
from inspan.protocol.commands import Command
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
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from .failures import classify_failure, is_failure_text, parse_status
from .frames import Call, Frame, Message, Part, Result, ToolRequest, ToolResponse, session_usage

_decode = msgspec.json.Decoder(know_type(Frame)).decode
_SERVER_FAILED = re.compile(r"Failed to start extension '([^']*)' \((.*?)(?:\), continuing without it)?$")
_NOT_OFFERED = re.compile(r"-32600: Tool '(.*)' was not advertised")
# How a call that was not allowed to run comes back; in its mode `chat` it does not even count as failed.
_SKIPPED = "Let the user know the tool call was skipped in goose chat mode"
_READ_ONLY = "(os error 30)"
_SKIPPED_MESSAGE = re.compile(rb'(%s)(?:[^"\\]|\\.)*' % _SKIPPED.encode())
_EDITORS = ("write", "edit")
# What it would ask a person after a SIGINT; its last frame follows on the same line.
_INTERRUPTED = "Yes — what would you like me to do?"


def scrub_line(line: bytes) -> bytes:
    """The line without what the program tells the model to say of a call that it skipped."""
    return _SKIPPED_MESSAGE.sub(rb"\1", line)


class GooseDialect:
    """Puts pieces of text together, remembers open tool calls, and whether the turn has failed."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._task = task
        self._reported = reported
        self._calls: dict[str, Call] = {}
        self._opened = False
        self._failure = ""
        self._over = False
        self._piece: tuple[str, str] = ("", "")
        self._pieces: list[str] = []
        self._blocks = 0
        self._raw = b""
        self._handlers: dict[str, Callable[[Frame], list[Event]]] = {
            "message": lambda frame: self.read_message(frame.message or Message()),
            # Progress and logs of a tool that runs, subagents among them; its result tells the rest.
            "notification": lambda frame: [],
            "error": self._on_error,
            "complete": self._on_complete,
        }
        self._part_handlers: dict[str, Callable[[Part, Message], list[Event]]] = {
            "text": self._on_text,
            "thinking": lambda part, message: self._add_text("thinking", part.thinking, message),
            "reasoning": lambda part, message: self._add_text("thinking", part.text, message),
            "redactedThinking": lambda part, message: self._add_text("thinking", "", message),
            "toolRequest": self._on_tool_request,
            "toolResponse": self._on_tool_response,
            "error": lambda part, message: self._give_up(part.message),
            "systemNotification": self._on_notification,
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """An MCP server that could not be started: only its stderr tells."""
        failed = _SERVER_FAILED.search(line.decode(errors="replace").rstrip())
        return DialectOutput([McpServerFailed(name=failed[1], message=failed[2])]) if failed else NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        if not frame.lstrip().startswith((b"{", b"[")):
            return DialectOutput(self._on_plain_line(frame))
        try:
            decoded = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        self._raw = frame
        if decoded.type == "before":
            self._count_from(decoded)
            return NO_OUTPUT
        handler = self._handlers.get(decoded.type)
        if handler is None:
            return DialectOutput([build_unrecognized(frame, f"frame {decoded.type!r}")])
        return DialectOutput([*self._start_events(decoded), *handler(decoded)])

    def read_message(self, message: Message) -> list[Event]:
        """What one message tells, or a piece of one."""
        return [event for part in message.content for event in self._on_part(part, message)]

    def flush(self) -> list[Event]:
        """The block of text that was open until now, whole."""
        (kind, _), text = self._piece, "".join(self._pieces)
        self._piece, self._pieces = ("", ""), []
        if not kind:
            return []
        return [TextSaid(text=text) if kind == "text" else ReasoningSaid(text=text)]

    def _count_from(self, frame: Frame) -> None:
        if frame.accumulated_usage:
            self._reported = SessionTotals(
                usage=session_usage(frame.accumulated_usage), cost_usd=frame.accumulated_cost or 0.0
            )

    def _start_events(self, frame: Frame) -> list[Event]:
        """The session's own id is not in the stream: it was given a name."""
        if self._opened:
            return []
        self._opened = True
        inference = frame.message.metadata.inference if frame.message else None
        model = inference.requested_model if inference else self._task.model
        return [ThreadStarted(session_id="", model=model), TurnStarted()]

    def _on_plain_line(self, line: bytes) -> list[Event]:
        """What it says before it knows in which format: an error on a line, and what explains it below."""
        text = line.decode(errors="replace").strip()
        if not text:
            return []
        if text.startswith(_INTERRUPTED):
            return list(self.receive(text.removeprefix(_INTERRUPTED).encode()).events)
        if self._over:
            return [ErrorReported(message=text)]
        if not text.startswith("error: "):
            return [Unrecognized(raw=line.decode(errors="replace"), note="no JSON")]
        return self._on_error(Frame(error=text.removeprefix("error: ")))

    def _on_part(self, part: Part, message: Message) -> list[Event]:
        handler = self._part_handlers.get(part.type)
        if handler is None:
            raw = self._raw or msgspec.json.encode(part)
            return [*self.flush(), Unrecognized(raw=raw.decode(errors="replace"), note=f"part {part.type!r}")]
        return handler(part, message)

    def _on_text(self, part: Part, message: Message) -> list[Event]:
        if message.role != "assistant":
            return []
        if message.metadata.inference is None and is_failure_text(part.text):
            return self._give_up(part.text)
        return self._add_text("text", part.text, message)

    def _add_text(self, kind: str, text: str, message: Message) -> list[Event]:
        piece, events = (kind, message.id or ""), list[Event]()
        if piece != self._piece:
            events += self.flush()
            self._piece = piece
            self._blocks += 1
        self._pieces.append(text)
        if kind == "text" and self._task.partial:
            events.append(TextDelta(block=f"{message.id}/{self._blocks}", text=text))
        return events

    def _on_tool_request(self, part: Part, message: Message) -> list[Event]:
        call = _to_call(part.tool_call or ToolRequest())
        self._calls[part.id] = call
        return [*self.flush(), ToolStarted(id=part.id, name=call.name, input=call.arguments)]

    def _on_tool_response(self, part: Part, message: Message) -> list[Event]:
        call, answered = self._calls.pop(part.id, Call()), part.tool_result or ToolResponse()
        result = answered.value
        output = parts_to_text(result.content) if result else answered.error
        denied = self._is_denied(call, output, failed=result is None or result.is_error)
        events: list[Event] = self.flush()
        if result is None or result.is_error or denied:
            events.append(ToolFailed(id=part.id, name=call.name, output=output, denied=denied))
        else:
            events.append(ToolCompleted(id=part.id, name=call.name, output=output))
            events += self._file_change_events(part.id, call, output)
        return events + _command_events(part.id, call, result)

    def _is_denied(self, call: Call, output: str, *, failed: bool) -> bool:
        """A read-only sandbox denies to its editors what a mode forbids; a command may meet one for its own reasons."""
        if _NOT_OFFERED.match(output) or output.startswith(_SKIPPED):
            return True
        return failed and call.name in _EDITORS and output.endswith(_READ_ONLY)

    def _file_change_events(self, call_id: str, call: Call, output: str) -> list[Event]:
        path = get_text(as_object(call.arguments), "path")
        if call.name not in _EDITORS or not path:
            return []
        change = "added" if output.startswith("Created ") else "modified"
        return [FileChanged(path=os.path.join(self._task.cwd, path), change=change, id=call_id)]

    def _on_notification(self, part: Part, message: Message) -> list[Event]:
        if part.notification_type == "creditsExhausted":
            return self._give_up(part.msg)
        if part.notification_type in ("progressMessage", "thinkingMessage"):
            return []
        return [*self.flush(), ErrorReported(message=part.msg)]

    def _give_up(self, message: str) -> list[Event]:
        self._failure = message
        return self.flush()

    def _on_error(self, frame: Frame) -> list[Event]:
        self._over, message = True, frame.error or self._failure
        told = TurnFailed(failure=classify_failure(message), message=message, status=parse_status(message))
        return [*self.flush(), told]

    def _on_complete(self, frame: Frame) -> list[Event]:
        """What it counts is the whole session's, earlier runs included."""
        usage = session_usage(frame) - self._reported.usage
        cost_usd = None if frame.cost_usd is None else round(max(0.0, frame.cost_usd - self._reported.cost_usd), 9)
        if not self._failure:
            return [*self.flush(), TurnCompleted(usage=usage, cost_usd=cost_usd)]
        kind, status = classify_failure(self._failure), parse_status(self._failure)
        # A call that broke off is not counted: nothing in all means that it knows of nothing.
        known = usage if usage.total else None
        failed = TurnFailed(failure=kind, message=self._failure, status=status, usage=known, cost_usd=cost_usd)
        return [*self.flush(), failed]


def _to_call(requested: ToolRequest) -> Call:
    """The call; of a tool that is not on offer only its name is told."""
    unknown = _NOT_OFFERED.match(requested.error)
    return requested.value or Call(name=unknown[1] if unknown else "")


def _command_events(call_id: str, call: Call, result: Result | None) -> list[Event]:
    if call.name != "shell" or result is None or result.structured is None:
        return []
    code = result.structured.get("exit_code")
    command = get_text(as_object(call.arguments), "command")
    return [CommandExecuted(id=call_id, command=command, exit_code=code if isinstance(code, int) else None)]
