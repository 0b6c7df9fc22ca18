"""Reads what `qwen --output-format stream-json` prints."""

from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.dialects.values import shown
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    ErrorReported,
    Event,
    McpServerFailed,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ThreadStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

from .failures import kind_of, parted, status_of
from .frames import Block, Frame, Tokens
from .tools import ended, started

_decode = msgspec.json.Decoder(Frame).decode
_TURNS_USED_UP = "Reached max session turns"


class QwenDialect:
    """Remembers which tool calls are open, what each call of this run has used, and words that may be an error."""

    def __init__(self, task: Task, told: Told) -> None:
        self._told = told.usage
        self._resumes = bool(task.resume)
        self._partial = task.partial
        self._servers = frozenset(task.mcp_servers)
        self._calls: dict[str, tuple[str, object]] = {}
        self._spent = Usage()
        self._held = ""
        self._blocks = 0
        self._frames: dict[str, Callable[[Frame], list[Event] | None]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._stream_event,
        }
        self._systems: dict[str, Callable[[Frame], list[Event]]] = {
            "init": self._init,
            "retry": lambda frame: [ErrorReported(message="a model call failed; the agent tries again")],
            # A subagent works beside; the end of its tool call is told as any other.
            "task_started": lambda frame: [],
            "task_progress": lambda frame: [],
            "task_notification": lambda frame: [],
        }

    def open(self) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def overhear(self, line: bytes) -> Said:
        """Turns that are used up: it leaves then without a result."""
        text = line.decode(errors="replace")
        if not text.startswith(_TURNS_USED_UP):
            return NOTHING
        return Said([TurnFailed(failure="max_turns", message=text, usage=self._spent)])

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        handler = self._frames.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            note = f"frame {decoded.type!r} {decoded.subtype}".strip()
            return Said([unrecognized(frame, note)])
        return Said(events)

    def _system(self, frame: Frame) -> list[Event] | None:
        handler = self._systems.get(frame.subtype)
        return handler(frame) if handler else None

    def _init(self, frame: Frame) -> list[Event]:
        thread = ThreadStarted(
            session_id=frame.session_id,
            model=frame.model,
            tools=frame.tools,
            agent_version=frame.qwen_code_version,
        )
        states = {server.name: server.status for server in frame.mcp_servers}
        asked = {name: states.get(name, "dropped: its settings were not understood") for name in self._servers}
        failed = {name: state for name, state in {**states, **asked}.items() if state != "connected"}
        return [thread, *(McpServerFailed(name=name, message=state) for name, state in failed.items()), TurnStarted()]

    def _assistant(self, frame: Frame) -> list[Event]:
        self._spent += frame.message.usage.usage
        parent = frame.parent_tool_use_id or ""
        content = frame.message.content
        blocks = [Block(type="text", text=content)] if isinstance(content, str) else content
        return [event for block in blocks for event in (*self._released(), *self._block(block, parent))]

    def _block(self, block: Block, parent: str) -> list[Event]:
        if block.type == "text":
            said, self._held = parted(block.text)
            return [TextSaid(text=said, parent=parent)] if said else []
        if block.type == "thinking":
            return [ReasoningSaid(text=block.thinking, parent=parent)]
        if block.type == "tool_use":
            self._calls[block.id] = (block.name, block.input)
            return started(block.id, block.name, block.input, parent=parent)
        return [Unrecognized(raw=msgspec.json.encode(block).decode(), note=f"block {block.type!r}")]

    def _released(self) -> list[Event]:
        """Words that were no error of the program's after all, since it goes on."""
        held, self._held = self._held, ""
        return [TextSaid(text=held)] if held else []

    def _user(self, frame: Frame) -> list[Event]:
        content = frame.message.content
        blocks = [] if isinstance(content, str) else content
        results = [block for block in blocks if block.type == "tool_result"]
        return [*self._released(), *(event for block in results for event in self._tool_ended(block))]

    def _tool_ended(self, block: Block) -> list[Event]:
        name, given = self._calls.pop(block.tool_use_id, ("", None))
        output = block.content if isinstance(block.content, str) else shown(block.content)
        return ended(block.tool_use_id, name, given, output=output, is_error=block.is_error)

    def _stream_event(self, frame: Frame) -> list[Event]:
        """Each block of text is numbered by itself: its own index is 0 for all of them."""
        event = frame.event
        if event.type == "content_block_start":
            self._blocks += 1
        if not self._partial or event.delta is None or event.delta.type != "text_delta":
            return []
        return [TextDelta(block=str(self._blocks), text=event.delta.text)]

    def _result(self, frame: Frame) -> list[Event]:
        usage = self._used(frame.usage)
        if not frame.is_error:
            return [*self._released(), TurnCompleted(usage=usage)]
        message = frame.error.message if frame.error else frame.result or frame.subtype
        said = [] if self._held and self._held in message else self._released()
        self._held = ""
        return [*said, TurnFailed(failure=kind_of(message), message=message, status=status_of(message), usage=usage)]

    def _used(self, total: Tokens) -> Usage:
        """What this run has used. Its own count has subagents in it, and goes on where a resumed session left off."""
        if self._resumes and self._told == Usage():
            return self._spent
        return total.usage - self._told
