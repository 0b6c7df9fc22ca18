"""Reads what `qwen --output-format stream-json` prints."""

from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.dialects.json_values import parts_to_text
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
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

from .failures import classify_failure, parse_status, split_error
from .frames import Block, Frame, Tokens
from .tools import tool_end_events, tool_start_events

_decode = msgspec.json.Decoder(know_type(Frame)).decode
_MAX_TURNS_MESSAGE = "Reached max session turns"


class QwenDialect:
    """Remembers which tool calls are open, what each call of this run has used, and words that may be an error."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._reported = reported.usage
        self._resumes = bool(task.resume)
        self._partial = task.partial
        self._servers = frozenset(task.mcp_servers)
        self._calls: dict[str, tuple[str, object]] = {}
        self._spent = Usage()
        self._held = ""
        self._blocks = 0
        self._handlers: dict[str, Callable[[Frame], list[Event] | None]] = {
            "system": self._on_system,
            "assistant": self._on_assistant,
            "user": self._on_user,
            "result": self._on_result,
            "stream_event": self._on_stream_event,
        }
        self._system_handlers: dict[str, Callable[[Frame], list[Event]]] = {
            "init": self._on_init,
            "retry": lambda frame: [ErrorReported(message="a model call failed; the agent tries again")],
            # A subagent works beside; the end of its tool call is told as any other.
            "task_started": lambda frame: [],
            "task_progress": lambda frame: [],
            "task_notification": lambda frame: [],
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """Turns that are used up: it leaves then without a result."""
        text = line.decode(errors="replace")
        if not text.startswith(_MAX_TURNS_MESSAGE):
            return NO_OUTPUT
        return DialectOutput([TurnFailed(failure="max_turns", message=text, usage=self._spent)])

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            decoded = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        handler = self._handlers.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            note = f"frame {decoded.type!r} {decoded.subtype}".strip()
            return DialectOutput([build_unrecognized(frame, note)])
        return DialectOutput(events)

    def _on_system(self, frame: Frame) -> list[Event] | None:
        handler = self._system_handlers.get(frame.subtype)
        return handler(frame) if handler else None

    def _on_init(self, frame: Frame) -> list[Event]:
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

    def _on_assistant(self, frame: Frame) -> list[Event]:
        self._spent += frame.message.usage.usage
        parent = frame.parent_tool_use_id or ""
        content = frame.message.content
        blocks = [Block(type="text", text=content)] if isinstance(content, str) else content
        return [event for block in blocks for event in (*self._release_held(), *self._on_block(block, parent))]

    def _on_block(self, block: Block, parent: str) -> list[Event]:
        if block.type == "text":
            said, self._held = split_error(block.text)
            return [TextSaid(text=said, parent=parent)] if said else []
        if block.type == "thinking":
            return [ReasoningSaid(text=block.thinking, parent=parent)]
        if block.type == "tool_use":
            self._calls[block.id] = (block.name, block.input)
            return tool_start_events(block.id, block.name, block.input, parent=parent)
        return [Unrecognized(raw=msgspec.json.encode(block).decode(), note=f"block {block.type!r}")]

    def _release_held(self) -> list[Event]:
        """Words that were no error of the program's after all, since it goes on."""
        held, self._held = self._held, ""
        return [TextSaid(text=held)] if held else []

    def _on_user(self, frame: Frame) -> list[Event]:
        content = frame.message.content
        blocks = [] if isinstance(content, str) else content
        results = [block for block in blocks if block.type == "tool_result"]
        return [*self._release_held(), *(event for block in results for event in self._on_tool_result(block))]

    def _on_tool_result(self, block: Block) -> list[Event]:
        name, given = self._calls.pop(block.tool_use_id, ("", None))
        output = block.content if isinstance(block.content, str) else parts_to_text(block.content)
        return tool_end_events(block.tool_use_id, name, given, output=output, is_error=block.is_error)

    def _on_stream_event(self, frame: Frame) -> list[Event]:
        """Each block of text is numbered by itself: its own index is 0 for all of them."""
        event = frame.event
        if event.type == "content_block_start":
            self._blocks += 1
        if not self._partial or event.delta is None or event.delta.type != "text_delta":
            return []
        return [TextDelta(block=str(self._blocks), text=event.delta.text)]

    def _on_result(self, frame: Frame) -> list[Event]:
        usage = self._run_usage(frame.usage)
        if not frame.is_error:
            return [*self._release_held(), TurnCompleted(usage=usage)]
        message = frame.error.message if frame.error else frame.result or frame.subtype
        said = [] if self._held and self._held in message else self._release_held()
        self._held = ""
        return [
            *said,
            TurnFailed(failure=classify_failure(message), message=message, status=parse_status(message), usage=usage),
        ]

    def _run_usage(self, total: Tokens) -> Usage:
        """What this run has used. Its own count has subagents in it, and goes on where a resumed session left off."""
        if self._resumes and self._reported == Usage():
            return self._spent
        return total.usage - self._reported
