"""The stream of `pi --mode json`, read as it is spoken since 0.87: one JSON object a line."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    ErrorReported,
    Event,
    McpServerFailed,
    TextDelta,
    ThreadStarted,
    ToolStarted,
    TurnStarted,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.protocol.wire import UNREADABLE

from .frames import Call, Message, Result, Spent, Tokens, plain, said, tool_ended, turn_ended

# What our own extension says of a server of tools.
_SERVER_FAILED = re.compile(r"^inspan: server ([\w-]+): (.*)$")
# They tell what other frames tell, or what nobody has to know.
_SILENT = (
    "turn_start",
    "turn_end",
    "agent_end",
    "tool_execution_update",
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


class _Frame(msgspec.Struct, rename="camel"):
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
    is_error: bool = False
    error_message: str | None = None


_decode = msgspec.json.Decoder(_Frame).decode


class PiDialect:
    """Reads the lines of one run; remembers the calls that are open and what the turn has cost so far."""

    def __init__(self, task: Task, told: Told) -> None:
        self._model = task.model
        self._partial = task.partial
        self._cwd = task.cwd
        self._calls: dict[str, Call] = {}
        self._messages = 0
        self._last: Message | None = None
        self._spent: Spent | None = None
        self._handlers: dict[str, Callable[[_Frame], list[Event]]] = {
            **dict.fromkeys(_SILENT, _nothing),
            "session": self._opened,
            "agent_start": self._began,
            "agent_settled": self._settled,
            "message_start": self._message_began,
            "message_update": self._updated,
            "message_end": self._message_ended,
            "tool_execution_start": self._tool_began,
            "tool_execution_end": self._tool_ended,
            "auto_retry_start": _retried,
            "summarization_retry_scheduled": _retried,
            "compaction_end": self._compacted,
        }

    def open(self) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        handler = self._handlers.get(decoded.type)
        if handler is None:
            return Said([unrecognized(frame, f"frame {decoded.type!r}")])
        return Said(handler(decoded))

    def overhear(self, line: bytes) -> Said:
        """A server of tools that failed: Pi goes on without it and without a word, only our extension tells."""
        failed = _SERVER_FAILED.match(line.decode(errors="replace").strip())
        return Said([McpServerFailed(name=failed[1], message=failed[2])]) if failed else NOTHING

    def _opened(self, frame: _Frame) -> list[Event]:
        self._cwd = frame.cwd or self._cwd
        return [ThreadStarted(session_id=frame.id, model=self._model)]

    def _began(self, frame: _Frame) -> list[Event]:
        """A second start before the turn is settled goes on with it: after a retry or a compaction."""
        if self._spent is not None:
            return []
        self._spent, self._last = Spent(), None
        return [TurnStarted()]

    def _settled(self, frame: _Frame) -> list[Event]:
        spent, self._spent = self._spent or Spent(), None
        return [turn_ended(self._last, spent)]

    def _message_began(self, frame: _Frame) -> list[Event]:
        self._messages += 1
        return []

    def _updated(self, frame: _Frame) -> list[Event]:
        update = frame.assistant_message_event
        if not self._partial or update is None or update.type != "text_delta":
            return []
        return [TextDelta(block=f"{self._messages}/{update.content_index}", text=update.delta)]

    def _message_ended(self, frame: _Frame) -> list[Event]:
        message = frame.message
        if message is None or message.role != "assistant":
            return []
        self._last = message
        self._add(message.usage)
        return said(message)

    def _tool_began(self, frame: _Frame) -> list[Event]:
        call = Call(id=frame.tool_call_id, name=frame.tool_name, input=frame.args)
        self._calls[call.id] = call
        return [ToolStarted(id=call.id, name=call.name, input=call.input, parent=frame.parent_tool_call_id)]

    def _tool_ended(self, frame: _Frame) -> list[Event]:
        call = self._calls.pop(frame.tool_call_id, Call(id=frame.tool_call_id, name=frame.tool_name))
        result = frame.result or Result()
        if not frame.parent_tool_call_id:  # What a tool has spent by other tools is counted with it.
            self._add(result.usage)
        return tool_ended(call, result, is_error=frame.is_error, cwd=self._cwd)

    def _compacted(self, frame: _Frame) -> list[Event]:
        self._add(frame.result.usage if frame.result else None)
        return [ErrorReported(message=frame.error_message)] if frame.error_message else []

    def _add(self, tokens: Tokens | None) -> None:
        if self._spent is not None:
            self._spent.add(tokens)


def _nothing(_: _Frame) -> list[Event]:
    return []


def _retried(frame: _Frame) -> list[Event]:
    return [ErrorReported(message=f"model call failed ({plain(frame.error_message or '')}); the agent tries again")]
