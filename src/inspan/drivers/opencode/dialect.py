"""Reads the frames of `opencode run --format json`, and those that inspan's plugin puts between them."""

from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.contracts.driver import failure, kind_of_status, kind_told
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
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.protocol.wire import UNREADABLE

from .parts import Part, Spent, said, tool_started

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    failure("session_not_found", r"session not found"),
    failure("environment", r"check server logs|config file at .* is not valid"),
    failure("context_too_long", r"prompt is too long|context (window|length)|exceeds the (maximum|context)"),
    failure("model_not_found", r"model not found|model .*(does not exist|not supported)|ProviderModelNotFound"),
    failure("authentication", r"invalid api key|incorrect api key|api key is missing|unauthorized|authentication"),
    failure("rate_limit", r"rate.?limit|too many requests|quota|usage limit"),
    failure("invalid_response", r"empty or unreadable|invalid json|json parsing failed|type validation failed"),
    failure("overloaded", r"overloaded|internal server error|service unavailable|at capacity|server.error"),
    failure("network", r"cannot connect|socket|connection|timed? ?out|fetch failed|econn|terminated|network"),
    failure(
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
_GOES_ON = ("tool-calls", "unknown")
_REFUSED = ("content-filter",)


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


_decode = msgspec.json.Decoder(_Frame).decode


class OpenCodeDialect:
    """Remembers the session, which tool calls are told already, and what the turn has used so far."""

    def __init__(self, task: Task, told: Told) -> None:
        self._model = task.model
        self._main = ""
        self._seen: set[str] = set()
        self._running = False
        self._failed = False
        self._started: set[str] = set()
        self._spent = Spent()
        self._frames: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "step_start": self._part,
            "text": self._part,
            "reasoning": self._part,
            "tool_use": self._part,
            "step_finish": self._part,
            "error": self._error,
            "inspan_started": lambda frame: [],
            "inspan_tool": self._tool_started,
            "inspan_part": self._part,
            "inspan_delta": lambda frame: [TextDelta(block=frame.id, text=frame.text)],
            "inspan_server": lambda frame: [McpServerFailed(name=frame.name, message=frame.message)],
            "inspan_failed": lambda frame: self._fail(kind_told(FAILURES, frame.message), frame.message, None),
        }

    def open(self) -> Said:
        return NOTHING

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        begun = self._begun(decoded)
        handler = self._frames.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            note = f"frame {decoded.type!r} {decoded.part.type if decoded.part else ''}".rstrip()
            events = [unrecognized(frame, note)]
        return Said([*begun, *events])

    def _begun(self, frame: _Frame) -> list[Event]:
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

    def _tool_started(self, frame: _Frame) -> list[Event]:
        part = frame.part
        if part is None or part.callID in self._started:
            return []
        self._started.add(part.callID)
        return [tool_started(part, parent=frame.parent)]

    def _part(self, frame: _Frame) -> list[Event] | None:
        """A part that has ended, the first time that it is told: by the plugin, else by the program a moment later."""
        part = frame.part
        if part is None:
            return None
        if part.id in self._seen:
            return []
        self._seen.add(part.id)
        if part.type == "step-finish":
            return self._step_ended(part)
        started = self._tool_started(frame) if part.type == "tool" else []
        told = said(part, parent=frame.parent)
        return None if told is None else [*started, *told]

    def _step_ended(self, part: Part) -> list[Event]:
        self._spent.add(part)
        if part.reason in _GOES_ON or self._failed or part.sessionID != self._main:
            return []
        if part.reason in _REFUSED:
            return self._fail("refused", "the provider held the answer back", None)
        usage, cost_usd = self._spent.take()
        self._running = False
        return [TurnCompleted(usage=usage, cost_usd=cost_usd)]

    def _error(self, frame: _Frame) -> list[Event]:
        error = frame.error or _Error()
        message = error.data.message or error.data.modelID or error.name
        status = error.data.statusCode
        named = _ERRORS.get(error.name) or kind_of_status(status)
        kind = named or kind_told(FAILURES, f"{error.name} {message}")
        return self._fail(kind, message, status)

    def _fail(self, kind: FailureKind | None, message: str, status: int | None) -> list[Event]:
        """A turn fails once: what is said after that tells the same again."""
        if self._failed:
            return [ErrorReported(message=message)]
        self._failed, self._running = True, False
        usage, cost_usd = self._spent.take()
        return [TurnFailed(failure=kind or "unknown", message=message, status=status, usage=usage, cost_usd=cost_usd)]
