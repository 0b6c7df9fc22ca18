"""The language of `claude -p --output-format stream-json --verbose`, as it is spoken since 2.1.212."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.contracts.driver import (
    failure,
    kind_told,
)
from inspan.dialects.plans import planned
from inspan.dialects.values import shown, table, word
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
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    failure("session_not_found", r"no conversation found"),
    failure("context_too_long", r"prompt is too long|context (window|length)"),
    failure("authentication", r"not logged in|invalid api key|failed to authenticate|oauth token|please run /login"),
    failure("model_not_found", r"issue with the selected model|model_not_found"),
    failure("rate_limit", r"\(429\)|api error: 429\b|rate limit|usage limit|limit reached"),
    failure("overloaded", r"api error: 5\d\d\b|overloaded|server_error"),
    failure("invalid_response", r"empty or malformed|unexpected token|invalid json|failed to parse"),
    failure("network", r"connection|timed out|network|socket hang|fetch failed|econn|stream ended|terminated"),
    failure("environment", r"root/sudo|cannot be used|already in use|enoent|eacces|no such file"),
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


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[dict[str, Any]] = ""
    is_error: bool = False


class _Message(msgspec.Struct):
    content: str | list[_Block] = ""
    model: str = ""


class Tokens(msgspec.Struct):
    """Tokens in its own spelling."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens_details: dict[str, Any] | None = None


class _Spent(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost: float = msgspec.field(name="costUSD", default=0.0)


class _Server(msgspec.Struct):
    name: str = ""
    status: str = ""


class _Frame(msgspec.Struct):
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
    model_usage_since_last_result: dict[str, _Spent] | None = None
    mcp_servers: list[_Server] = []
    structured_output: msgspec.Raw = msgspec.Raw()
    tool_name: str = ""
    tool_use_id: str = ""
    attempt: int = 0
    event: msgspec.Raw = msgspec.Raw()
    api_message_id: str = ""


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""


class _StreamEvent(msgspec.Struct):
    type: str
    index: int = 0
    delta: _Delta | None = None


class _ToolResult(msgspec.Struct):
    type: str = ""
    filePath: str = ""
    originalFile: str | None = None


_decode = msgspec.json.Decoder(_Frame).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_stream_event = msgspec.json.Decoder(_StreamEvent).decode
_decode_tool_result = msgspec.json.Decoder(_ToolResult).decode
# The program speaks itself, in the model's place, when a call has failed.
_NO_MODEL = "<synthetic>"
_EDITS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_EXIT_CODE = re.compile(r"Exit code (\d+)")
# How a refusal begins; what a command or a server says of permissions comes later in its output, or in other words.
_DENIED = re.compile(
    r"(<tool_use_error>)?(Error: )?(no such tool available|permission to use |claude requested permissions"
    r"|[^\n]{0,300} (needs|requires) approval)",
    re.IGNORECASE,
)


def usage_of(tokens: Tokens) -> Usage:
    """The same in ours."""
    details = tokens.output_tokens_details or {}
    return Usage(
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        cache_read=tokens.cache_read_input_tokens,
        cache_write=tokens.cache_creation_input_tokens,
        reasoning=int(details.get("thinking_tokens") or 0),
    )


def _sum(models: Iterable[_Spent], *, reasoning: int) -> Usage:
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

    def __init__(self, task: Task, told: Told) -> None:
        self._calls: dict[str, tuple[str, Any]] = {}
        self._cost_usd = told.cost_usd
        self._servers = frozenset(task.mcp_servers)
        self._error = ""
        self._denied: set[str] = set()
        self._opened = False
        self._frames: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._stream_event,
            "rate_limit_event": lambda frame: [],
        }
        self._systems: dict[str, Callable[[_Frame], list[Event]]] = {
            "init": self._init,
            "api_retry": _retried,
            "permission_denied": self._permission_denied,
            "status": lambda frame: [],
            "thinking_tokens": lambda frame: [],
            "ui_invalidate": lambda frame: [],
            # What the user's own hooks print is theirs; these two come before `init`.
            "hook_started": lambda frame: [],
            "hook_response": lambda frame: [],
            # A command that takes more than 3 s becomes a task; its tool call tells the rest.
            "task_started": lambda frame: [],
            "task_notification": lambda frame: [],
        }

    def open(self) -> Said:
        return NOTHING

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        return self._array(frame) if frame.startswith(b"[") else self._object(frame)

    def _object(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
            handler = self._frames.get(decoded.type)
            events = handler(decoded) if handler else None
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        if events is None:
            note = f"frame {decoded.type!r} {decoded.subtype}".strip()
            return Said([unrecognized(frame, note)])
        return Said(events)

    def _array(self, frame: bytes) -> Said:
        """All frames of a run at once: its single JSON output with `--verbose`."""
        try:
            frames = _decode_array(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        return Said([event for each in frames for event in self._object(bytes(each)).events])

    def _system(self, frame: _Frame) -> list[Event] | None:
        handler = self._systems.get(frame.subtype)
        return handler(frame) if handler else None

    def _init(self, frame: _Frame) -> list[Event]:
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
        return [thread, *self._failed_servers(frame), TurnStarted()]

    def _failed_servers(self, frame: _Frame) -> list[Event]:
        """A server that was asked for must be connected by now; of the user's own, those that say so have failed."""
        states = {server.name: server.status for server in frame.mcp_servers}
        asked = {name: states.get(name, "dropped: its settings were not understood") for name in self._servers}
        failed = {name: state for name, state in asked.items() if state != "connected"}
        failed |= {name: state for name, state in states.items() if state == "failed"}
        return [McpServerFailed(name=name, message=state) for name, state in failed.items()]

    def _assistant(self, frame: _Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return [TextSaid(text=message if isinstance(message, str) else str(message.content))]
        if frame.error:
            self._error = frame.error
        if message.model == _NO_MODEL:
            return [ErrorReported(message=block.text) for block in message.content]
        parent = frame.parent_tool_use_id or ""
        return [event for block in message.content for event in self._block(block, parent)]

    def _block(self, block: _Block, parent: str) -> list[Event]:
        if block.type == "text":
            return [TextSaid(text=block.text, parent=parent)]
        if block.type in ("thinking", "redacted_thinking"):
            return [ReasoningSaid(text=block.thinking, parent=parent)]
        if block.type == "tool_use":
            self._calls[block.id] = (block.name, block.input)
            started = ToolStarted(id=block.id, name=block.name, input=block.input, parent=parent)
            return [started, *(planned(table(block.input).get("todos")) if block.name == "TodoWrite" else [])]
        raw = msgspec.json.encode(block).decode()
        return [Unrecognized(raw=raw, note=f"block {block.type!r}")]

    def _user(self, frame: _Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return []
        events: list[Event] = []
        for block in message.content:
            if block.type == "tool_result":
                events += self._tool_ended(block, frame)
        return events

    def _tool_ended(self, block: _Block, frame: _Frame) -> list[Event]:
        name, given = self._calls.pop(block.tool_use_id, ("", None))
        output = block.content if isinstance(block.content, str) else shown(block.content)
        events: list[Event] = []
        if block.is_error:
            denied = block.tool_use_id in self._denied or bool(_DENIED.match(output))
            events.append(ToolFailed(id=block.tool_use_id, name=name, output=output, denied=denied))
        else:
            events.append(ToolCompleted(id=block.tool_use_id, name=name, output=output))
        if name == "Bash":
            events += _executed(block, given, output)
        elif name in _EDITS and not block.is_error:
            events += _changed(frame.tool_use_result, block.tool_use_id)
        return events

    def _permission_denied(self, frame: _Frame) -> list[Event]:
        self._denied.add(frame.tool_use_id)
        return []

    def _stream_event(self, frame: _Frame) -> list[Event]:
        event = _decode_stream_event(frame.event)
        if event.delta is None or event.delta.type != "text_delta":
            return []
        return [TextDelta(block=f"{frame.api_message_id}/{event.index}", text=event.delta.text)]

    def _result(self, frame: _Frame) -> list[Event]:
        usage, cost_usd = self._spent(frame)
        if frame.is_error or frame.subtype != "success" or frame.stop_reason == "refusal":
            return [self._failed(frame, usage, cost_usd)]
        given = bytes(frame.structured_output).decode()
        answer = [AnswerGiven(text=given)] if given and given != "null" else []
        return [*self._alone(frame), *answer, TurnCompleted(usage=usage, cost_usd=cost_usd)]

    def _alone(self, frame: _Frame) -> list[Event]:
        """What a result tells that nothing came before: the whole of its single JSON output."""
        if self._opened:
            return []
        self._opened = True
        thread = ThreadStarted(session_id=frame.session_id)
        return [thread, TurnStarted(), *([TextSaid(text=frame.result)] if frame.result else [])]

    def _spent(self, frame: _Frame) -> tuple[Usage, float | None]:
        """Tokens and cost since the last result: `usage` leaves out subagents, the total is the whole session's."""
        usage, models = usage_of(frame.usage or Tokens()), frame.model_usage_since_last_result
        if models is not None:
            return _sum(models.values(), reasoning=usage.reasoning if models else 0), round(
                sum(spent.cost for spent in models.values()), 9
            )
        if frame.total_cost_usd is None:
            return usage, None
        cost_usd, self._cost_usd = frame.total_cost_usd - self._cost_usd, frame.total_cost_usd
        return usage, round(max(0.0, cost_usd), 9)

    def _failed(self, frame: _Frame, usage: Usage, cost_usd: float | None) -> TurnFailed:
        message = "; ".join(frame.errors) or frame.result or frame.subtype
        kind = _TERMINAL.get(frame.terminal_reason or "") or _ERRORS.get(self._error)
        if frame.stop_reason == "refusal":
            kind = "refused"
        if not kind or (kind == "overloaded" and frame.api_error_status is None):
            kind = kind_told(FAILURES, message) or kind or "unknown"
        return TurnFailed(failure=kind, message=message, status=frame.api_error_status, usage=usage, cost_usd=cost_usd)


def _retried(frame: _Frame) -> list[Event]:
    return [ErrorReported(message=f"model call failed ({frame.error or frame.error_status}); the agent tries again")]


def _executed(block: _Block, given: Any, output: str) -> list[Event]:
    match = _EXIT_CODE.match(output) if block.is_error else None
    if block.is_error and not match:
        return []
    exit_code = int(match[1]) if match else 0
    return [CommandExecuted(id=block.tool_use_id, command=word(table(given), "command"), exit_code=exit_code)]


def _changed(raw: msgspec.Raw, call: str) -> list[Event]:
    try:
        result = _decode_tool_result(raw)
    except UNREADABLE:
        return []
    if not result.filePath:
        return []
    return [FileChanged(path=result.filePath, change="added" if result.type == "create" else "modified", id=call)]
