"""The stream of `pi --mode json`, read as it is spoken since 0.87: one JSON object a line."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    ErrorReported,
    Event,
    McpServerFailed,
    TextDelta,
    ThreadStarted,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from .frames import (
    Call,
    Message,
    Result,
    Tokens,
    TurnUsage,
    content_text,
    extract_message,
    message_events,
    tool_end_events,
    turn_end_event,
)

# What our own extension says of an MCP server.
_SERVER_FAILED = re.compile(r"^inspan: server ([\w-]+): (.*)$")
# They tell what other frames tell, or what nobody has to know.
_IGNORED_TYPES = (
    "turn_start",
    "turn_end",
    "agent_end",
    "queue_update",
    "entry_appended",
    "session_info_changed",
    "thinking_level_changed",
    "compaction_start",
    "auto_retry_end",
    "summarization_retry_attempt_start",
    "summarization_retry_finished",
)


class _Update(msgspec.Struct, rename="camel"):
    type: str = ""
    content_index: int = 0
    delta: str = ""


class Frame(msgspec.Struct, rename="camel"):
    """One line of the stream, with the fields that any kind of line is read for."""

    type: str
    id: str = ""
    cwd: str = ""
    message: Message | None = None
    assistant_message_event: _Update | None = None
    tool_call_id: str = ""
    parent_tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    result: Result | None = None
    partial_result: Result | None = None
    is_error: bool = False
    error_message: str | None = None


_decode = msgspec.json.Decoder(know_type(Frame)).decode


class PiDialect:
    """Reads the lines of one run; remembers the calls that are open and what the turn has cost so far."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._model = task.model
        self._partial = task.partial
        self._cwd = task.cwd
        self._calls: dict[str, Call] = {}
        self._messages = 0
        self._last: Message | None = None
        self._spent: TurnUsage | None = None
        self._handlers: dict[str, Callable[[Frame], list[Event]]] = {
            **dict.fromkeys(_IGNORED_TYPES, _ignore),
            "session": self._on_session,
            "agent_start": self._on_agent_start,
            "agent_settled": self._on_agent_settled,
            "message_start": self._on_message_start,
            "message_update": self._on_message_update,
            "message_end": self._on_message_end,
            "tool_execution_start": self._on_tool_start,
            "tool_execution_update": self._on_tool_update,
            "tool_execution_end": self._on_tool_end,
            "auto_retry_start": _on_retry,
            "summarization_retry_scheduled": _on_retry,
            "compaction_end": self._on_compaction_end,
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
        """An MCP server that failed: Pi goes on without it and without a word, only our extension tells."""
        failed = _SERVER_FAILED.match(line.decode(errors="replace").strip())
        return DialectOutput([McpServerFailed(name=failed[1], message=failed[2])]) if failed else NO_OUTPUT

    def _on_session(self, frame: Frame) -> list[Event]:
        self._cwd = frame.cwd or self._cwd
        return [ThreadStarted(session_id=frame.id, model=self._model)]

    def _on_agent_start(self, frame: Frame) -> list[Event]:
        """A second start before the turn is settled goes on with it: after a retry or a compaction."""
        if self._spent is not None:
            return []
        self._spent, self._last = TurnUsage(), None
        return [TurnStarted()]

    def _on_agent_settled(self, frame: Frame) -> list[Event]:
        return [self._close_turn()]

    def _close_turn(self) -> TurnCompleted | TurnFailed:
        spent, self._spent = self._spent or TurnUsage(), None
        return turn_end_event(self._last, spent)

    def _on_message_start(self, frame: Frame) -> list[Event]:
        self._messages += 1
        return []

    def _on_message_update(self, frame: Frame) -> list[Event]:
        update = frame.assistant_message_event
        if not self._partial or update is None or update.type != "text_delta":
            return []
        return [TextDelta(block=f"{self._messages}/{update.content_index}", text=update.delta)]

    def _on_message_end(self, frame: Frame) -> list[Event]:
        message = frame.message
        if message is None or message.role != "assistant":
            return []
        self._last = message
        self._add_usage(message.usage)
        return message_events(message)

    def _on_tool_start(self, frame: Frame) -> list[Event]:
        call = Call(id=frame.tool_call_id, name=frame.tool_name, input=frame.args)
        self._calls[call.id] = call
        return [ToolStarted(id=call.id, name=call.name, input=call.input, parent=frame.parent_tool_call_id)]

    def _on_tool_update(self, frame: Frame) -> list[Event]:
        """It tells all that there is so far, or its end, each time."""
        text = content_text(frame.partial_result.content) if self._partial and frame.partial_result else ""
        return [ToolOutput(id=frame.tool_call_id, text=text)] if text else []

    def _on_tool_end(self, frame: Frame) -> list[Event]:
        call = self._calls.pop(frame.tool_call_id, Call(id=frame.tool_call_id, name=frame.tool_name))
        result = frame.result or Result()
        if not frame.parent_tool_call_id:  # What a tool has spent by other tools is counted with it.
            self._add_usage(result.usage)
        return tool_end_events(call, result, is_error=frame.is_error, cwd=self._cwd)

    def _on_compaction_end(self, frame: Frame) -> list[Event]:
        self._add_usage(frame.result.usage if frame.result else None)
        return [ErrorReported(message=frame.error_message)] if frame.error_message else []

    def _add_usage(self, tokens: Tokens | None) -> None:
        if self._spent is not None:
            self._spent.add(tokens)


def _ignore(_: Frame) -> list[Event]:
    return []


def _on_retry(frame: Frame) -> list[Event]:
    return [
        ErrorReported(
            message=f"model call failed ({extract_message(frame.error_message or '')}); the agent tries again"
        )
    ]
