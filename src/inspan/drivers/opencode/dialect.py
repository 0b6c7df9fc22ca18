"""Reads the frames of `opencode run --format json`, and those that inspan's plugin puts between them."""

from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import Failure, match_failure
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    ErrorReported,
    Event,
    McpServerFailed,
    TextDelta,
    ThreadStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from .parts import Part, TurnUsage, part_events, tool_start_event

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"session not found"),
    Failure("environment", r"check server logs|config file at .* is not valid"),
    Failure("context_too_long", r"prompt is too long|context (window|length)|exceeds the (maximum|context)"),
    Failure("model_not_found", r"model not found|model .*(does not exist|not supported)|ProviderModelNotFound"),
    Failure("authentication", r"invalid api key|incorrect api key|api key is missing|unauthorized|authentication"),
    Failure("rate_limit", r"rate.?limit|too many requests|quota|usage limit"),
    Failure("invalid_response", r"empty or unreadable|invalid json|json parsing failed|type validation failed"),
    Failure("overloaded", r"overloaded|internal server error|service unavailable|at capacity|server.error"),
    Failure("network", r"cannot connect|socket|connection|timed? ?out|fetch failed|econn|terminated|network"),
    Failure(
        "environment", r"failed to change directory|enoent|eacces|erofs|no such file|ConfigInvalid|config.* invalid"
    ),
)
_ERRORS: dict[str, FailureKind] = {
    "ContextOverflowError": "context_too_long",
    "ProviderAuthError": "authentication",
    "ProviderModelNotFoundError": "model_not_found",
    "MessageOutputLengthError": "invalid_response",
    "ContentFilterError": "refused",
}
# Its loop goes on after these; after any other reason of a step's end the turn is over.
_CONTINUE_REASONS = ("tool-calls", "unknown")
_REFUSAL_REASONS = ("content-filter",)


class _Data(msgspec.Struct, frozen=True):
    message: str = ""
    statusCode: int | None = None
    modelID: str = ""


class _Error(msgspec.Struct, frozen=True):
    name: str = ""
    data: _Data = _Data()


class _Frame(msgspec.Struct):
    type: str
    sessionID: str = ""
    part: Part | None = None
    error: _Error | None = None
    message: str = ""
    model: str = ""
    name: str = ""
    id: str = ""
    text: str = ""
    parent: str = ""


_decode = msgspec.json.Decoder(know_type(_Frame)).decode


class OpenCodeDialect:
    """Remembers the session, which tool calls are told already, and what the turn has used so far."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._model = task.model
        self._main = ""
        self._seen: set[str] = set()
        self._running = False
        self._failed = False
        self._started: set[str] = set()
        self._spent = TurnUsage()
        self._handlers: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "step_start": self._on_part,
            "text": self._on_part,
            "reasoning": self._on_part,
            "tool_use": self._on_part,
            "step_finish": self._on_part,
            "error": self._on_error,
            "inspan_started": lambda frame: [],
            "inspan_tool": self._on_tool_start,
            "inspan_part": self._on_part,
            "inspan_delta": lambda frame: [TextDelta(block=frame.id, text=frame.text)],
            "inspan_server": lambda frame: [McpServerFailed(name=frame.name, message=frame.message)],
            "inspan_failed": lambda frame: self._fail(match_failure(FAILURES, frame.message), frame.message, None),
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            decoded = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        begun = self._start_events(decoded)
        handler = self._handlers.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            note = f"frame {decoded.type!r} {decoded.part.type if decoded.part else ''}".rstrip()
            events = [build_unrecognized(frame, note)]
        return DialectOutput([*begun, *events])

    def _start_events(self, frame: _Frame) -> list[Event]:
        """No frame of its own says that a thread or a turn begins: the first one does, and later a step of its own."""
        if not frame.sessionID or self._running:
            return []
        if not self._main:
            self._main, self._running = frame.sessionID, True
            return [ThreadStarted(session_id=frame.sessionID, model=frame.model or self._model), TurnStarted()]
        part = frame.part
        if part is None or part.type != "step-start" or part.id in self._seen or part.sessionID != self._main:
            return []
        self._running, self._failed = True, False
        return [TurnStarted()]

    def _on_tool_start(self, frame: _Frame) -> list[Event]:
        part = frame.part
        if part is None or part.callID in self._started:
            return []
        self._started.add(part.callID)
        return [tool_start_event(part, parent=frame.parent)]

    def _on_part(self, frame: _Frame) -> list[Event] | None:
        """A part that has ended, the first time that it is told: by the plugin, else by the program a moment later."""
        part = frame.part
        if part is None:
            return None
        if part.id in self._seen:
            return []
        self._seen.add(part.id)
        if part.type == "step-finish":
            return self._on_step_finish(part)
        started = self._on_tool_start(frame) if part.type == "tool" else []
        told = part_events(part, parent=frame.parent)
        return None if told is None else [*started, *told]

    def _on_step_finish(self, part: Part) -> list[Event]:
        self._spent.add(part)
        if part.reason in _CONTINUE_REASONS or self._failed or part.sessionID != self._main:
            return []
        if part.reason in _REFUSAL_REASONS:
            return self._fail("refused", "the provider held the answer back", None)
        usage, cost_usd = self._spent.take()
        self._running = False
        return [TurnCompleted(usage=usage, cost_usd=cost_usd)]

    def _on_error(self, frame: _Frame) -> list[Event]:
        error = frame.error or _Error()
        message = error.data.message or error.data.modelID or error.name
        status = error.data.statusCode
        named = _ERRORS.get(error.name) or failure_of_status(status)
        kind = named or match_failure(FAILURES, f"{error.name} {message}")
        return self._fail(kind, message, status)

    def _fail(self, kind: FailureKind | None, message: str, status: int | None) -> list[Event]:
        """A turn fails once: what is said after that tells the same again."""
        if self._failed:
            return [ErrorReported(message=message)]
        self._failed, self._running = True, False
        usage, cost_usd = self._spent.take()
        return [TurnFailed(failure=kind or "unknown", message=message, status=status, usage=usage, cost_usd=cost_usd)]
