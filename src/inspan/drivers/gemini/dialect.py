"""The frames of `gemini --output-format stream-json` (0.61), and those that the preloaded module adds to them."""

import os.path
import re
from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import Failure, match_failure
from inspan.contracts.tool_grants import acts_unasked
from inspan.dialects.json_values import Json, get_text
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    ErrorReported,
    Event,
    McpServerFailed,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

from .records import (
    SHELL,
    WRITERS,
    Thought,
    Tokens,
    command_events,
    events_from_thoughts,
    file_change_events,
    tool_start_events,
)

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"error resuming session|error importing session|no previous sessions found"),
    Failure("context_too_long", r"exceeds the maximum number of tokens|token count .* exceeds"),
    Failure("rate_limit", r"\"code\":429\b|rate limit|quota|resource_exhausted|retry after"),
    Failure(
        "authentication",
        r"\"code\":40[13]\b|api key not valid|unauthenticated|permission_denied|invalid auth method|authenticat"
        r"|please set an auth method|you must specify",
    ),
    Failure("model_not_found", r"\"code\":404\b|model .*(not found|does not exist|is not supported)"),
    Failure("overloaded", r"\"code\":5\d\d\b|overloaded|unavailable|internal server error"),
    Failure(
        "invalid_response", r"incomplete json|invalid stream|empty response|no final response text|unexpected token"
    ),
    Failure("refused", r"safety|recitation|blocked the response|response was blocked"),
    Failure("network", r"api error: terminated|fetch failed|econn|socket hang|other side closed"),
    Failure(
        "environment", r"past the gateway|trusted directory|error in .*settings\.json|enoent|eacces|enospc|sandbox"
    ),
)
_KINDS: dict[str, FailureKind] = {
    "FatalAuthenticationError": "authentication",
    "FatalTurnLimitedError": "max_turns",
    "FatalConfigError": "environment",
    "FatalInputError": "environment",
    "FatalSandboxError": "environment",
}
_STATUS = re.compile(r"\"code\":\s*(\d{3})\b")
# Said as a warning or an error, after which it calls the turn a success all the same.
_STOPPED: dict[str, FailureKind] = {
    "Maximum session turns exceeded": "max_turns",
    "Loop detected, stopping execution": "unknown",
}
_SERVERS_FAILED = b"MCP issues detected"
_RULES_LEFT_OUT = b"Ignoring --admin-policy"


class _Problem(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Stats(msgspec.Struct):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0


class _Frame(msgspec.Struct):
    type: str
    session_id: str = ""
    model: str = ""
    role: str = ""
    content: str = ""
    tool_name: str = ""
    tool_id: str = ""
    parameters: Json = {}
    status: str = ""
    output: str | None = None
    error: _Problem | None = None
    message: str = ""
    stats: _Stats | None = None
    thoughts: list[Thought] = []
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    told: str = ""
    created: bool | None = None


class _EndedCall(msgspec.Struct):
    """A tool call that is over, of which more may be told yet."""

    id: str
    name: str
    given: Json
    output: str


_decode = msgspec.json.Decoder(know_type(_Frame)).decode


class GeminiDialect:
    """Reads frames; remembers which calls are open, and what must wait for the frame that tells more of it.

    The thoughts of a response are told once it is complete, so that its text and its calls wait for them; how a call
    went is told behind its output.
    """

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._task = task
        self._restricted = bool(not acts_unasked(task) or task.disallowed_tools)
        self._tells_more = False
        self._text: list[str] = []
        self._blocks = 0
        self._started: list[Event] = []
        self._open: dict[str, tuple[str, Json]] = {}
        self._ended: dict[str, _EndedCall] = {}
        self._known_files: set[str] = set()
        self._tool_tokens = 0
        self._last_error = ""
        self._handlers: dict[str, Callable[[_Frame], list[Event]]] = {
            "inspan_ready": self._on_ready,
            "init": self._on_init,
            "message": self._on_message,
            "inspan_response": self._on_response,
            "tool_use": self._on_tool_use,
            "tool_result": self._on_tool_result,
            "inspan_tool": self._on_tool_details,
            "error": self._on_error,
            "result": self._on_result,
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            decoded = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        handler = self._handlers.get(decoded.type)
        if handler is None:
            return DialectOutput([build_unrecognized(frame, f"frame {decoded.type!r}")])
        return DialectOutput(handler(decoded))

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """Servers that do not start, of which it does not say which, and rules that do not count."""
        text = line.decode(errors="replace")
        if line.startswith(_SERVERS_FAILED):
            names = list(self._task.mcp_servers)
            one = McpServerFailed(name=names[0], message=text) if len(names) == 1 else ErrorReported(message=text)
            return DialectOutput([one])
        return DialectOutput([ErrorReported(message=text)]) if _RULES_LEFT_OUT in line else NO_OUTPUT

    def _on_ready(self, frame: _Frame) -> list[Event]:
        self._tells_more = True
        return []

    def _on_init(self, frame: _Frame) -> list[Event]:
        return [ThreadStarted(session_id=frame.session_id, model=frame.model), TurnStarted()]

    def _on_message(self, frame: _Frame) -> list[Event]:
        if frame.role != "assistant" or not frame.content:
            return []
        behind = self._flush_ended()
        self._text.append(frame.content)
        return [*behind, TextDelta(block=str(self._blocks), text=frame.content)] if self._task.partial else behind

    def _on_response(self, frame: _Frame) -> list[Event]:
        self._tool_tokens += frame.tokens.tool
        return [*self._flush_ended(), *events_from_thoughts(frame.thoughts), *self._flush_response()]

    def _on_tool_use(self, frame: _Frame) -> list[Event]:
        behind = self._flush_ended()
        self._open[frame.tool_id] = (frame.tool_name, frame.parameters)
        self._close_text()
        self._started += tool_start_events(frame.tool_id, frame.tool_name, frame.parameters)
        return behind if self._tells_more else [*behind, *self._flush_response()]

    def _on_tool_result(self, frame: _Frame) -> list[Event]:
        name, given = self._open.pop(frame.tool_id, ("", {}))
        output = frame.output or ""
        waited = self._flush_response()
        if frame.status == "error":
            problem = frame.error or _Problem()
            denied = problem.type == "policy_violation" or (self._restricted and problem.type == "tool_not_registered")
            words = output or problem.message
            return [*waited, ToolFailed(id=frame.tool_id, name=name, output=words, denied=denied)]
        self._ended[frame.tool_id] = _EndedCall(id=frame.tool_id, name=name, given=given, output=output)
        return waited if self._tells_more else [*waited, *self._flush_ended()]

    def _on_tool_details(self, frame: _Frame) -> list[Event]:
        ended = self._ended.pop(frame.tool_id, None)
        return self._end_events(ended, model_text=frame.told, created=frame.created) if ended else []

    def _on_error(self, frame: _Frame) -> list[Event]:
        self._last_error = frame.message
        return [*self._flush_ended(), *self._flush_response(), ErrorReported(message=frame.message)]

    def _on_result(self, frame: _Frame) -> list[Event]:
        before = [*self._flush_ended(), *self._flush_response()]
        usage = self._to_usage(frame.stats or _Stats())
        stopped = _STOPPED.get(self._last_error)
        if frame.status == "success" and not stopped:
            return [*before, TurnCompleted(usage=usage)]
        problem = frame.error or _Problem(message=self._last_error)
        status = _STATUS.search(problem.message)
        return [
            *before,
            TurnFailed(
                failure=stopped or _KINDS.get(problem.type) or match_failure(FAILURES, problem.message) or "unknown",
                message=problem.message or frame.status,
                status=int(status[1]) if status else None,
                usage=usage,
            ),
        ]

    def _to_usage(self, stats: _Stats) -> Usage | None:
        """The tokens of this process alone; of its thoughts only the total tells. A call that broke is not counted."""
        if not stats.total_tokens:
            return None
        thoughts = stats.total_tokens - stats.input_tokens - stats.output_tokens - self._tool_tokens
        return Tokens(
            input=stats.input_tokens,
            output=stats.output_tokens,
            cached=stats.cached,
            thoughts=max(0, thoughts),
            tool=self._tool_tokens,
        ).usage

    def _close_text(self) -> None:
        if self._text:
            self._started.append(TextSaid(text="".join(self._text)))
            self._text = []
            self._blocks += 1

    def _flush_response(self) -> list[Event]:
        """Text and calls of a response that is complete."""
        self._close_text()
        told, self._started = self._started, []
        return told

    def _flush_ended(self) -> list[Event]:
        """Ended calls of which nothing more will be told."""
        ended, self._ended = self._ended, {}
        return [event for call in ended.values() for event in self._end_events(call)]

    def _end_events(self, call: _EndedCall, *, model_text: str = "", created: bool | None = None) -> list[Event]:
        named = get_text(call.given, "file_path")
        path = os.path.join(self._task.cwd, named) if named else ""
        known = path in self._known_files
        self._known_files.add(path)
        if call.name == SHELL:
            return command_events(
                call.id, get_text(call.given, "command"), model_text=model_text, display_text=call.output
            )
        done = ToolCompleted(id=call.id, name=call.name, output=call.output or model_text)
        if call.name not in WRITERS:
            return [done]
        if created is None:  # Without a word on it, a file that it writes as a whole and never looked at is a new one.
            created = not known and not get_text(call.given, "old_string")
        return [done, *file_change_events(call.id, path, created=created)]
