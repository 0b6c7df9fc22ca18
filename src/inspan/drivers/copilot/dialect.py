"""Reads the lines of `copilot --output-format json`, and the tokens that it tells on its stderr."""

import re
from collections.abc import Callable

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.dialects.json_values import as_object, get_text
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    Change,
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
)
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

from .failures import turn_failed_event
from .frames import Data, Frame, Problem, Result, decode_frame, decode_span

_CHANGES: dict[str, Change] = {"create": "added", "edit": "modified", "delete": "deleted"}
_TRAILER = re.compile(r"\n?<shellId: \S+ completed with exit code -?\d+>$")
_TOO_LARGE = "Output too large to read at once"
_NO_SUCH_TOOL = re.compile(r"Tool '.*' does not exist")
_SPAN = b'{"type":"span"'
# It counts tokens ahead of a call by a table of models, and says so of a model that is not in it.
_IDLE_WARNING = "unknown_token_count_multiplier"
# What it tells besides: its own affairs, and the parts of what comes whole later.
_IGNORED_TYPES = frozenset(
    {
        "agent.interrupted",
        "assistant.idle",
        "assistant.intent",
        "assistant.message_start",
        "assistant.reasoning",
        "assistant.reasoning_delta",
        "assistant.streaming_delta",
        "assistant.tool_call_delta",
        "assistant.turn_end",
        "assistant.turn_start",
        "assistant.usage",
        "capabilities.changed",
        "commands.changed",
        "hook.end",
        "hook.progress",
        "hook.start",
        "model.call_finished",
        "pending_messages.modified",
        "permission.completed",
        "permission.requested",
        "prompt_cache_break",
        "sandbox.decision",
        "session.background_tasks_changed",
        "session.compaction_complete",
        "session.compaction_start",
        "session.context_changed",
        "session.custom_agents_updated",
        "session.extensions_loaded",
        "session.idle",
        "session.indexed_search",
        "session.info",
        "session.mcp_server_tools_loaded",
        "session.mcp_servers_loaded",
        "session.mode_changed",
        "session.model_change",
        "session.permissions_changed",
        "session.plan_changed",
        "session.resume",
        "session.shutdown",
        "session.skills_loaded",
        "session.start",
        "session.task_complete",
        "session.title_changed",
        "session.todos_changed",
        "session.truncation",
        "session.usage_checkpoint",
        "session.usage_info",
        "session.usage_record",
        "session.workspace_file_changed",
        "skill.context_delivered",
        "skill.invoked",
        "subagent.completed",
        "subagent.configured",
        "subagent.deselected",
        "subagent.failed",
        "subagent.selected",
        "subagent.started",
        "system.message",
        "system.notification",
        "tool.execution_partial_result",
        "tool.execution_progress",
        "tool.user_requested",
        "tool_search.activated",
    }
)


class CopilotDialect:
    """A turn is over once both are there: its last line, and on stderr the measure of the whole with its tokens."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._partial = task.partial
        self._restricted = task.mode != "exec" or task.allowed_tools is not None or bool(task.disallowed_tools)
        self._calls: dict[str, Data] = {}
        self._output: dict[str, list[str]] = {}
        self._usage = Usage()
        self._opened = False
        self._in_turn = False
        self._last_failure: TurnFailed | None = None
        self._retried = ""
        self._failed = False
        self._ended = False
        self._measures = False
        self._measured = False
        self._handlers: dict[str, Callable[[Data], list[Event]]] = {
            "session.tools_updated": self._on_tools_updated,
            "user.message": self._on_user_message,
            "assistant.message": self._on_message,
            "assistant.message_delta": self._on_message_delta,
            "tool.execution_start": self._on_tool_start,
            "tool.shell_output": self._on_shell_output,
            "tool.execution_complete": self._on_tool_end,
            "session.mcp_server_status_changed": _on_server_status,
            "session.warning": _on_warning,
            "session.error": self._on_session_error,
            "model.call_failure": self._on_call_failure,
            "model.call_start": self._on_call_start,
            "model.call_final_result": self._on_call_result,
            "assistant.turn_retry": self._on_turn_retry,
            "abort": self._on_abort,
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            decoded = decode_frame(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        if decoded.type == "result":
            return DialectOutput(self._on_result(decoded))
        handler = self._handlers.get(decoded.type)
        if handler:
            return DialectOutput(handler(decoded.data))
        if decoded.type in _IGNORED_TYPES:
            return NO_OUTPUT
        return DialectOutput([build_unrecognized(frame, f"frame {decoded.type!r}")])

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """The tokens of each call and of the whole turn: its stream has none (1.0.102)."""
        if not line.startswith(_SPAN):
            return NO_OUTPUT
        try:
            span = decode_span(line)
        except DECODE_ERRORS:
            return NO_OUTPUT
        self._measures = True
        if span.is_call:
            self._usage += span.usage
        self._measured = self._measured or span.is_turn
        return DialectOutput(self._complete_turn()) if span.is_turn else NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def _on_tools_updated(self, data: Data) -> list[Event]:
        """It does not say which session it opened; whoever started it has given it the id."""
        if self._opened:
            return []
        self._opened = True
        return [ThreadStarted(session_id="", model=data.model or "")]

    def _on_user_message(self, data: Data) -> list[Event]:
        if self._in_turn or data.parent_tool_call_id:
            return []
        self._in_turn = True
        return [TurnStarted()]

    def _on_message(self, data: Data) -> list[Event]:
        self._last_failure = None
        return message_events(data)

    def _on_message_delta(self, data: Data) -> list[Event]:
        if not self._partial or data.parent_tool_call_id:
            return []
        return [TextDelta(block=data.message_id, text=data.delta_content)]

    def _on_tool_start(self, data: Data) -> list[Event]:
        self._calls[data.tool_call_id] = data
        return [
            ToolStarted(
                id=data.tool_call_id, name=data.tool_name, input=data.arguments, parent=data.parent_tool_call_id
            )
        ]

    def _on_shell_output(self, data: Data) -> list[Event]:
        """Of a call that is open: what goes on printing in the background after it would be held for nobody."""
        if data.tool_call_id in self._calls:
            self._output.setdefault(data.tool_call_id, []).append(data.text)
        return []

    def _on_tool_end(self, data: Data) -> list[Event]:
        started = self._calls.pop(data.tool_call_id, None) or data
        shell_output = "".join(self._output.pop(data.tool_call_id, ()))
        return tool_end_events(data, started, shell_output=shell_output, restricted=self._restricted)

    def _on_session_error(self, data: Data) -> list[Event]:
        return self._fail(turn_failed_event(data))

    def _on_call_failure(self, data: Data) -> list[Event]:
        self._last_failure = turn_failed_event(data)
        return []

    def _on_call_result(self, data: Data) -> list[Event]:
        """With a provider of our own it measures what it does; GitHub's customers may forbid it."""
        self._measures = self._measures or data.is_byok
        return []

    def _on_turn_retry(self, data: Data) -> list[Event]:
        """Told once it does: with a failure that its hook hears of, it is ended first."""
        self._retried = self._last_failure.message if self._last_failure else data.reason
        return []

    def _on_call_start(self, data: Data) -> list[Event]:
        words, self._retried = self._retried, ""
        return [ErrorReported(message=f"a model call failed and is made again: {words}")] if words else []

    def _on_abort(self, data: Data) -> list[Event]:
        """Ended from outside, in which it sees no failure: its exit code is 0 (1.0.102)."""
        words = f"it was ended in the middle of its turn ({data.reason})"
        return self._fail(self._last_failure or TurnFailed(failure="crashed", message=words))

    def _fail(self, failed: TurnFailed) -> list[Event]:
        if self._failed:
            return []
        self._failed = True
        return [failed]

    def _on_result(self, frame: Frame) -> list[Event]:
        if frame.exit_code:
            words = f"it gave up with exit code {frame.exit_code}"
            return self._fail(self._last_failure or TurnFailed(failure="unknown", message=words))
        self._ended = True
        return self._complete_turn()

    def _complete_turn(self) -> list[Event]:
        if self._failed or not self._ended or (self._measures and not self._measured):
            return []
        return [TurnCompleted(usage=self._usage if self._measured else None)]


def message_events(data: Data) -> list[Event]:
    """A message, with the thoughts before it."""
    parent = data.parent_tool_call_id
    events: list[Event] = []
    if data.reasoning_text:
        events.append(ReasoningSaid(text=data.reasoning_text, parent=parent))
    if data.content:
        events.append(TextSaid(text=data.content, parent=parent))
    return events


def tool_end_events(data: Data, started: Data, *, shell_output: str = "", restricted: bool = False) -> list[Event]:
    """The end of a tool call; `heard` is what its command printed, for what is too large is not in its result."""
    output, name = _output_text(data, shell_output), started.tool_name
    if not data.success:
        denied = _is_denied(data, restricted=restricted)
        return [ToolFailed(id=data.tool_call_id, name=name, output=output, denied=denied)]
    if data.shell_execution:
        return _command_events(data, started, output)
    changed = [
        FileChanged(path=edit.path, change=_CHANGES.get(edit.kind, "modified"), id=data.tool_call_id)
        for edit in data.file_edits
    ]
    return [*changed, ToolCompleted(id=data.tool_call_id, name=name, output=output)]


def _command_events(data: Data, started: Data, output: str) -> list[Event]:
    """It takes every command for a success that it could start."""
    exit_code = data.shell_execution.exit_code if data.shell_execution else None
    end = ToolFailed if exit_code else ToolCompleted
    return [
        end(id=data.tool_call_id, name=started.tool_name, output=output),
        CommandExecuted(
            id=data.tool_call_id, command=get_text(as_object(started.arguments), "command"), exit_code=exit_code
        ),
    ]


def _output_text(data: Data, shell_output: str) -> str:
    if isinstance(data.error, Problem):
        return data.error.message
    content = data.result.content if isinstance(data.result, Result) else ""
    if shell_output and content.startswith(_TOO_LARGE):
        return shell_output
    return _TRAILER.sub("", content) if data.shell_execution else content


def _is_denied(data: Data, *, restricted: bool) -> bool:
    """A tool that was taken away does not exist, it says; one that never did is no denial."""
    if not isinstance(data.error, Problem):
        return False
    return data.error.code == "denied" or (restricted and bool(_NO_SUCH_TOOL.match(data.error.message)))


def _on_server_status(data: Data) -> list[Event]:
    if data.status != "failed":
        return []
    return [McpServerFailed(name=data.server_name, message=data.error if isinstance(data.error, str) else "")]


def _on_warning(data: Data) -> list[Event]:
    return [] if data.warning_type == _IDLE_WARNING else [ErrorReported(message=data.message)]
