"""Reads the lines of `copilot --output-format json`, and the tokens that it tells on its stderr."""

import re
from collections.abc import Callable

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.dialects.values import table, word
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
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

from .failures import turn_failed
from .frames import Data, Frame, Problem, Result, decode_frame, decode_span

_CHANGES: dict[str, Change] = {"create": "added", "edit": "modified", "delete": "deleted"}
_TRAILER = re.compile(r"\n?<shellId: \S+ completed with exit code -?\d+>$")
_TOO_LARGE = "Output too large to read at once"
_NO_SUCH_TOOL = re.compile(r"Tool '.*' does not exist")
_SPAN = b'{"type":"span"'
# It counts tokens ahead of a call by a table of models, and says so of a model that is not in it.
_IDLE_WARNING = "unknown_token_count_multiplier"
# What it tells besides: its own affairs, and the parts of what comes whole later.
_SILENT = frozenset(
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

    def __init__(self, task: Task, told: Told) -> None:
        self._partial = task.partial
        self._restricted = task.mode != "exec" or task.allowed_tools is not None or bool(task.disallowed_tools)
        self._calls: dict[str, Data] = {}
        self._output: dict[str, list[str]] = {}
        self._usage = Usage()
        self._opened = False
        self._asked = False
        self._trouble: TurnFailed | None = None
        self._retried = ""
        self._failed = False
        self._ended = False
        self._measures = False
        self._measured = False
        self._handlers: dict[str, Callable[[Data], list[Event]]] = {
            "session.tools_updated": self._thread_started,
            "user.message": self._turn_started,
            "assistant.message": self._said,
            "assistant.message_delta": self._said_in_part,
            "tool.execution_start": self._tool_started,
            "tool.shell_output": self._heard_of_shell,
            "tool.execution_complete": self._tool_ended,
            "session.mcp_server_status_changed": _server_changed,
            "session.warning": _warned,
            "session.error": self._session_failed,
            "model.call_failure": self._call_failed,
            "model.call_start": self._call_started,
            "model.call_final_result": self._call_ended,
            "assistant.turn_retry": self._tries_again,
            "abort": self._aborted,
        }

    def open(self) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = decode_frame(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        if decoded.type == "result":
            return Said(self._left(decoded))
        handler = self._handlers.get(decoded.type)
        if handler:
            return Said(handler(decoded.data))
        if decoded.type in _SILENT:
            return NOTHING
        return Said([unrecognized(frame, f"frame {decoded.type!r}")])

    def overhear(self, line: bytes) -> Said:
        """The tokens of each call and of the whole turn: its stream has none (1.0.102)."""
        if not line.startswith(_SPAN):
            return NOTHING
        try:
            span = decode_span(line)
        except UNREADABLE:
            return NOTHING
        self._measures = True
        if span.is_call:
            self._usage += span.usage
        self._measured = self._measured or span.is_turn
        return Said(self._completed()) if span.is_turn else NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def _thread_started(self, data: Data) -> list[Event]:
        """It does not say which session it opened; whoever started it has given it the id."""
        if self._opened:
            return []
        self._opened = True
        return [ThreadStarted(session_id="", model=data.model or "")]

    def _turn_started(self, data: Data) -> list[Event]:
        if self._asked or data.parent_tool_call_id:
            return []
        self._asked = True
        return [TurnStarted()]

    def _said(self, data: Data) -> list[Event]:
        self._trouble = None
        return said(data)

    def _said_in_part(self, data: Data) -> list[Event]:
        if not self._partial or data.parent_tool_call_id:
            return []
        return [TextDelta(block=data.message_id, text=data.delta_content)]

    def _tool_started(self, data: Data) -> list[Event]:
        self._calls[data.tool_call_id] = data
        return [
            ToolStarted(
                id=data.tool_call_id, name=data.tool_name, input=data.arguments, parent=data.parent_tool_call_id
            )
        ]

    def _heard_of_shell(self, data: Data) -> list[Event]:
        """Of a call that is open: what goes on printing in the background after it would be held for nobody."""
        if data.tool_call_id in self._calls:
            self._output.setdefault(data.tool_call_id, []).append(data.text)
        return []

    def _tool_ended(self, data: Data) -> list[Event]:
        started = self._calls.pop(data.tool_call_id, None) or data
        heard = "".join(self._output.pop(data.tool_call_id, ()))
        return tool_ended(data, started, heard=heard, restricted=self._restricted)

    def _session_failed(self, data: Data) -> list[Event]:
        return self._fail(turn_failed(data))

    def _call_failed(self, data: Data) -> list[Event]:
        self._trouble = turn_failed(data)
        return []

    def _call_ended(self, data: Data) -> list[Event]:
        """With a provider of our own it measures what it does; GitHub's customers may forbid it."""
        self._measures = self._measures or data.is_byok
        return []

    def _tries_again(self, data: Data) -> list[Event]:
        """Told once it does: with a failure that its hook hears of, it is ended first."""
        self._retried = self._trouble.message if self._trouble else data.reason
        return []

    def _call_started(self, data: Data) -> list[Event]:
        words, self._retried = self._retried, ""
        return [ErrorReported(message=f"a model call failed and is made again: {words}")] if words else []

    def _aborted(self, data: Data) -> list[Event]:
        """Ended from outside, in which it sees no failure: its exit code is 0 (1.0.102)."""
        words = f"it was ended in the middle of its turn ({data.reason})"
        return self._fail(self._trouble or TurnFailed(failure="crashed", message=words))

    def _fail(self, failed: TurnFailed) -> list[Event]:
        if self._failed:
            return []
        self._failed = True
        return [failed]

    def _left(self, frame: Frame) -> list[Event]:
        if frame.exit_code:
            words = f"it gave up with exit code {frame.exit_code}"
            return self._fail(self._trouble or TurnFailed(failure="unknown", message=words))
        self._ended = True
        return self._completed()

    def _completed(self) -> list[Event]:
        if self._failed or not self._ended or (self._measures and not self._measured):
            return []
        return [TurnCompleted(usage=self._usage if self._measured else None)]


def said(data: Data) -> list[Event]:
    """A message, with the thoughts before it."""
    parent = data.parent_tool_call_id
    events: list[Event] = []
    if data.reasoning_text:
        events.append(ReasoningSaid(text=data.reasoning_text, parent=parent))
    if data.content:
        events.append(TextSaid(text=data.content, parent=parent))
    return events


def tool_ended(data: Data, started: Data, *, heard: str = "", restricted: bool = False) -> list[Event]:
    """The end of a tool call; `heard` is what its command printed, for what is too large is not in its result."""
    output, name = _output(data, heard), started.tool_name
    if not data.success:
        denied = _is_denied(data, restricted=restricted)
        return [ToolFailed(id=data.tool_call_id, name=name, output=output, denied=denied)]
    if data.shell_execution:
        return _command_ended(data, started, output)
    changed = [
        FileChanged(path=edit.path, change=_CHANGES.get(edit.kind, "modified"), id=data.tool_call_id)
        for edit in data.file_edits
    ]
    return [*changed, ToolCompleted(id=data.tool_call_id, name=name, output=output)]


def _command_ended(data: Data, started: Data, output: str) -> list[Event]:
    """It takes every command for a success that it could start."""
    exit_code = data.shell_execution.exit_code if data.shell_execution else None
    end = ToolFailed if exit_code else ToolCompleted
    return [
        end(id=data.tool_call_id, name=started.tool_name, output=output),
        CommandExecuted(id=data.tool_call_id, command=word(table(started.arguments), "command"), exit_code=exit_code),
    ]


def _output(data: Data, heard: str) -> str:
    if isinstance(data.error, Problem):
        return data.error.message
    content = data.result.content if isinstance(data.result, Result) else ""
    if heard and content.startswith(_TOO_LARGE):
        return heard
    return _TRAILER.sub("", content) if data.shell_execution else content


def _is_denied(data: Data, *, restricted: bool) -> bool:
    """A tool that was taken away does not exist, it says; one that never did is no denial."""
    if not isinstance(data.error, Problem):
        return False
    return data.error.code == "denied" or (restricted and bool(_NO_SUCH_TOOL.match(data.error.message)))


def _server_changed(data: Data) -> list[Event]:
    if data.status != "failed":
        return []
    return [McpServerFailed(name=data.server_name, message=data.error if isinstance(data.error, str) else "")]


def _warned(data: Data) -> list[Event]:
    return [] if data.warning_type == _IDLE_WARNING else [ErrorReported(message=data.message)]
