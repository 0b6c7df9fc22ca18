"""Reads the events that it keeps of a session: the same as those of its stream, and the tokens of each call."""

from collections.abc import Iterator, Sequence

from inspan.dialects.transcript_lines import decode_lines
from inspan.protocol.events import Event, ToolStarted, TurnCompleted
from inspan.protocol.usage import Usage

from .dialect import message_events, tool_end_events
from .frames import Data, Frame, decode_frame


def read(transcript: bytes) -> Sequence[Event]:
    """The events of all turns of a session, each turn closed with its tokens."""
    return list(_Reader().iter_events(transcript))


class _Reader:
    def __init__(self) -> None:
        self._calls: dict[str, Data] = {}
        self._usage = Usage()
        self._in_turn = False

    def iter_events(self, transcript: bytes) -> Iterator[Event]:
        for frame in decode_lines(transcript, decode_frame):
            yield from self._on_frame(frame)
        yield from self._close_turn()

    def _on_frame(self, frame: Frame) -> Iterator[Event]:
        data = frame.data
        match frame.type:
            case "user.message" if not data.parent_tool_call_id:
                yield from self._close_turn()
                self._in_turn = True
            case "session.usage_record" if data.usage:
                self._usage += data.usage.usage
            case "assistant.message":
                yield from message_events(data)
            case "tool.execution_start":
                self._calls[data.tool_call_id] = data
                yield ToolStarted(
                    id=data.tool_call_id, name=data.tool_name, input=data.arguments, parent=data.parent_tool_call_id
                )
            case "tool.execution_complete":
                yield from tool_end_events(data, self._calls.pop(data.tool_call_id, data))
            case _:
                pass

    def _close_turn(self) -> Iterator[Event]:
        if self._in_turn:
            yield TurnCompleted(usage=self._usage)
        self._usage, self._in_turn = Usage(), False
