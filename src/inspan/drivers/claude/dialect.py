"""The language of `claude -p --output-format stream-json --verbose`, as it is spoken since 2.1.212."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import (
    Failure,
    match_failure,
)
from inspan.dialects.json_values import as_object, get_text, parts_to_text
from inspan.dialects.plans import plan_events
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    AnswerGiven,
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
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    Failure("session_not_found", r"no conversation found"),
    Failure("context_too_long", r"prompt is too long|context (window|length)"),
    Failure("authentication", r"not logged in|invalid api key|failed to authenticate|oauth token|please run /login"),
    Failure("model_not_found", r"issue with the selected model|model_not_found"),
    Failure("rate_limit", r"\(429\)|api error: 429\b|rate limit|usage limit|limit reached"),
    Failure("overloaded", r"api error: 5\d\d\b|overloaded|server_error"),
    Failure("invalid_response", r"empty or malformed|unexpected token|invalid json|failed to parse"),
    Failure("network", r"connection|timed out|network|socket hang|fetch failed|econn|stream ended|terminated"),
    Failure("environment", r"root/sudo|cannot be used|already in use|enoent|eacces|no such file"),
)
# The program's own word for an API failure → our kind.
_ERRORS: dict[str, FailureKind] = {
    "authentication_failed": "authentication",
    "oauth_org_not_allowed": "authentication",
    "billing_error": "authentication",
    "rate_limit": "rate_limit",
    "server_error": "overloaded",
    "overloaded": "overloaded",
    "model_not_found": "model_not_found",
}
_TERMINAL: dict[str, FailureKind] = {
    "prompt_too_long": "context_too_long",
    "max_turns": "max_turns",
    "budget_exhausted": "unknown",
    "structured_output_retry_exhausted": "unfit_answer",
}


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[dict[str, Any]] = ""
    is_error: bool = False


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Block] = ""
    model: str = ""


class Tokens(msgspec.Struct, gc=False):
    """Tokens in its own spelling."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens_details: dict[str, Any] | None = None


class _ModelUsage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost: float = msgspec.field(name="costUSD", default=0.0)


class _Server(msgspec.Struct, gc=False):
    name: str = ""
    status: str = ""


class Frame(msgspec.Struct, gc=False):
    """One line of its output, as far as it is looked at."""

    type: str
    subtype: str = ""
    session_id: str = ""
    model: str = ""
    tools: list[str] = []
    claude_code_version: str = ""
    message: _Message | str = ""
    parent_tool_use_id: str | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw()
    error: str | None = None
    error_status: int | None = None
    api_error_status: int | None = None
    is_error: bool = False
    result: str | None = None
    errors: list[str] = []
    terminal_reason: str | None = None
    stop_reason: str | None = None
    usage: Tokens | None = None
    total_cost_usd: float | None = None
    model_usage_since_last_result: dict[str, _ModelUsage] | None = None
    mcp_servers: list[_Server] = []
    structured_output: msgspec.Raw = msgspec.Raw()
    tool_name: str = ""
    tool_use_id: str = ""
    attempt: int = 0
    event: msgspec.Raw = msgspec.Raw()
    api_message_id: str = ""
    is_replay: bool = msgspec.field(name="isReplay", default=False)


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""


class _StreamEvent(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _Delta | None = None


class _ToolResult(msgspec.Struct, gc=False):
    type: str = ""
    filePath: str = ""
    originalFile: str | None = None


_decode = msgspec.json.Decoder(know_type(Frame)).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_stream_event = msgspec.json.Decoder(know_type(_StreamEvent)).decode
_decode_tool_result = msgspec.json.Decoder(know_type(_ToolResult)).decode
# The program speaks itself, in the model's place, when a call has failed.
_SYNTHETIC_MODEL = "<synthetic>"
_EDITS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_EXIT_CODE = re.compile(r"Exit code (\d+)")
# How a refusal begins; what a command or a server says of permissions comes later in its output, or in other words.
_DENIED = re.compile(
    r"(<tool_use_error>)?(Error: )?(no such tool available|permission to use |claude requested permissions"
    r"|[^\n]{0,300} (needs|requires) approval)",
    re.IGNORECASE,
)


def to_usage(tokens: Tokens) -> Usage:
    """The same in ours."""
    details = tokens.output_tokens_details or {}
    return Usage(
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        cache_read=tokens.cache_read_input_tokens,
        cache_write=tokens.cache_creation_input_tokens,
        reasoning=int(details.get("thinking_tokens") or 0),
    )


def _sum_usage(models: Iterable[_ModelUsage], *, reasoning: int) -> Usage:
    total = Usage(reasoning=reasoning)
    for spent in models:
        total += Usage(
            input=spent.input_tokens,
            output=spent.output_tokens,
            cache_read=spent.cache_read_input_tokens,
            cache_write=spent.cache_creation_input_tokens,
        )
    return total


class ClaudeDialect:
    """Reads stream-json lines; remembers which tool calls are open and what the session has cost so far."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._calls: dict[str, tuple[str, Any]] = {}
        self._cost_usd = reported.cost_usd
        self._servers = frozenset(task.mcp_servers)
        self._error = ""
        self._denied: set[str] = set()
        self._opened = False
        self._handlers: dict[str, Callable[[Frame], list[Event] | None]] = {
            "system": self._on_system,
            "assistant": self._on_assistant,
            "user": self._on_user,
            "result": self._on_result,
            "stream_event": self._on_stream_event,
            "rate_limit_event": lambda frame: [],
        }
        self._system_handlers: dict[str, Callable[[Frame], list[Event]]] = {
            "init": self._on_init,
            "api_retry": _on_api_retry,
            "permission_denied": self._on_permission_denied,
            "status": lambda frame: [],
            "thinking_tokens": lambda frame: [],
            "ui_invalidate": lambda frame: [],
            "background_tasks_changed": lambda frame: [],
            # What the user's own hooks print is theirs; these two come before `init`.
            "hook_started": lambda frame: [],
            "hook_response": lambda frame: [],
            # A command that takes more than 3 s becomes a task; its tool call tells the rest.
            "task_started": lambda frame: [],
            "task_notification": lambda frame: [],
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        return self._read_array(frame) if frame.startswith(b"[") else self._read_object(frame)

    def _read_object(self, frame: bytes) -> DialectOutput:
        try:
            decoded = _decode(frame)
            handler = self._handlers.get(decoded.type)
            events = handler(decoded) if handler else None
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        if events is None:
            note = f"frame {decoded.type!r} {decoded.subtype}".strip()
            return DialectOutput([build_unrecognized(frame, note)])
        return DialectOutput(events)

    def _read_array(self, frame: bytes) -> DialectOutput:
        """All frames of a run at once: its single JSON output with `--verbose`."""
        try:
            frames = _decode_array(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        return DialectOutput([event for each in frames for event in self._read_object(bytes(each)).events])

    def _on_system(self, frame: Frame) -> list[Event] | None:
        handler = self._system_handlers.get(frame.subtype)
        return handler(frame) if handler else None

    def _on_init(self, frame: Frame) -> list[Event]:
        # A second init comes when background subagents report back: a new turn of the same thread.
        if self._opened:
            return [TurnStarted()]
        self._opened = True
        thread = ThreadStarted(
            session_id=frame.session_id,
            model=frame.model,
            tools=frame.tools,
            agent_version=frame.claude_code_version,
        )
        return [thread, *self._find_failed_servers(frame), TurnStarted()]

    def _find_failed_servers(self, frame: Frame) -> list[Event]:
        """A server that was asked for must be connected by now; of the user's own, those that say so have failed."""
        states = {server.name: server.status for server in frame.mcp_servers}
        asked = {name: states.get(name, "dropped: its settings were not understood") for name in self._servers}
        failed = {name: state for name, state in asked.items() if state != "connected"}
        failed |= {name: state for name, state in states.items() if state == "failed"}
        return [McpServerFailed(name=name, message=state) for name, state in failed.items()]

    def _on_assistant(self, frame: Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return [TextSaid(text=message if isinstance(message, str) else str(message.content))]
        if frame.error:
            self._error = frame.error
        if message.model == _SYNTHETIC_MODEL:
            return [ErrorReported(message=block.text) for block in message.content]
        parent = frame.parent_tool_use_id or ""
        return [event for block in message.content for event in self._on_block(block, parent)]

    def _on_block(self, block: _Block, parent: str) -> list[Event]:
        if block.type == "text":
            return [TextSaid(text=block.text, parent=parent)]
        if block.type in ("thinking", "redacted_thinking"):
            return [ReasoningSaid(text=block.thinking, parent=parent)]
        if block.type == "tool_use":
            self._calls[block.id] = (block.name, block.input)
            started = ToolStarted(id=block.id, name=block.name, input=block.input, parent=parent)
            return [started, *(plan_events(as_object(block.input).get("todos")) if block.name == "TodoWrite" else [])]
        raw = msgspec.json.encode(block).decode()
        return [Unrecognized(raw=raw, note=f"block {block.type!r}")]

    def _on_user(self, frame: Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return []
        events: list[Event] = []
        for block in message.content:
            if block.type == "tool_result":
                events += self._on_tool_result(block, frame)
        return events

    def _on_tool_result(self, block: _Block, frame: Frame) -> list[Event]:
        name, given = self._calls.pop(block.tool_use_id, ("", None))
        output = block.content if isinstance(block.content, str) else parts_to_text(block.content)
        events: list[Event] = []
        if block.is_error:
            denied = block.tool_use_id in self._denied or bool(_DENIED.match(output))
            events.append(ToolFailed(id=block.tool_use_id, name=name, output=output, denied=denied))
        else:
            events.append(ToolCompleted(id=block.tool_use_id, name=name, output=output))
        if name == "Bash":
            events += _command_events(block, given, output)
        elif name in _EDITS and not block.is_error:
            events += _file_change_events(frame.tool_use_result, block.tool_use_id)
        return events

    def _on_permission_denied(self, frame: Frame) -> list[Event]:
        self._denied.add(frame.tool_use_id)
        return []

    def _on_stream_event(self, frame: Frame) -> list[Event]:
        event = _decode_stream_event(frame.event)
        if event.delta is None or event.delta.type != "text_delta":
            return []
        return [TextDelta(block=f"{frame.api_message_id}/{event.index}", text=event.delta.text)]

    def _on_result(self, frame: Frame) -> list[Event]:
        usage, cost_usd = self._read_usage(frame)
        if frame.is_error or frame.subtype != "success" or frame.stop_reason == "refusal":
            return [self._turn_failed_event(frame, usage, cost_usd)]
        given = bytes(frame.structured_output).decode()
        answer = [AnswerGiven(text=given)] if given and given != "null" else []
        return [*self._single_result_events(frame), *answer, TurnCompleted(usage=usage, cost_usd=cost_usd)]

    def _single_result_events(self, frame: Frame) -> list[Event]:
        """What a result tells that nothing came before: the whole of its single JSON output."""
        if self._opened:
            return []
        self._opened = True
        thread = ThreadStarted(session_id=frame.session_id)
        return [thread, TurnStarted(), *([TextSaid(text=frame.result)] if frame.result else [])]

    def _read_usage(self, frame: Frame) -> tuple[Usage, float | None]:
        """Tokens and cost since the last result: `usage` leaves out subagents, the total is the whole session's."""
        usage, models = to_usage(frame.usage or Tokens()), frame.model_usage_since_last_result
        if models is not None:
            return _sum_usage(models.values(), reasoning=usage.reasoning if models else 0), round(
                sum(spent.cost for spent in models.values()), 9
            )
        if frame.total_cost_usd is None:
            return usage, None
        cost_usd, self._cost_usd = frame.total_cost_usd - self._cost_usd, frame.total_cost_usd
        return usage, round(max(0.0, cost_usd), 9)

    def _turn_failed_event(self, frame: Frame, usage: Usage, cost_usd: float | None) -> TurnFailed:
        message = "; ".join(frame.errors) or frame.result or frame.subtype
        kind = _TERMINAL.get(frame.terminal_reason or "") or _ERRORS.get(self._error)
        if frame.stop_reason == "refusal":
            kind = "refused"
        if not kind or (kind == "overloaded" and frame.api_error_status is None):
            kind = match_failure(FAILURES, message) or kind or "unknown"
        return TurnFailed(failure=kind, message=message, status=frame.api_error_status, usage=usage, cost_usd=cost_usd)


def _on_api_retry(frame: Frame) -> list[Event]:
    return [ErrorReported(message=f"model call failed ({frame.error or frame.error_status}); the agent tries again")]


def _command_events(block: _Block, given: Any, output: str) -> list[Event]:
    match = _EXIT_CODE.match(output) if block.is_error else None
    if block.is_error and not match:
        return []
    exit_code = int(match[1]) if match else 0
    return [CommandExecuted(id=block.tool_use_id, command=get_text(as_object(given), "command"), exit_code=exit_code)]


def _file_change_events(raw: msgspec.Raw, call: str) -> list[Event]:
    try:
        result = _decode_tool_result(raw)
    except DECODE_ERRORS:
        return []
    if not result.filePath:
        return []
    return [FileChanged(path=result.filePath, change="added" if result.type == "create" else "modified", id=call)]
