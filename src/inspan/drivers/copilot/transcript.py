"""Reads the events that it keeps of a session: the same as those of its stream, and the tokens of each call."""

from collections.abc import Iterator, Sequence

from inspan.dialects.saved import readable
from inspan.protocol.events import Event, ToolStarted, TurnCompleted
from inspan.protocol.usage import Usage

from .dialect import said, tool_ended
from .frames import Data, Frame, decode_frame


def read(transcript: bytes) -> Sequence[Event]:
    """The events of all turns of a session, each turn closed with its tokens."""
    return list(_Reader().events(transcript))


class _Reader:
    def __init__(self) -> None:
        self._calls: dict[str, Data] = {}
        self._usage = Usage()
        self._in_turn = False

    def events(self, transcript: bytes) -> Iterator[Event]:
        for frame in readable(transcript, decode_frame):
            yield from self._read(frame)
        yield from self._close()

    def _read(self, frame: Frame) -> Iterator[Event]:
        data = frame.data
        match frame.type:
            case "user.message" if not data.parent_tool_call_id:
                yield from self._close()
                self._in_turn = True
            case "session.usage_record" if data.usage:
                self._usage += data.usage.usage
            case "assistant.message":
                yield from said(data)
            case "tool.execution_start":
                self._calls[data.tool_call_id] = data
                yield ToolStarted(
                    id=data.tool_call_id, name=data.tool_name, input=data.arguments, parent=data.parent_tool_call_id
                )
            case "tool.execution_complete":
                yield from tool_ended(data, self._calls.pop(data.tool_call_id, data))
            case _:
                pass

    def _close(self) -> Iterator[Event]:
        if self._in_turn:
            yield TurnCompleted(usage=self._usage)
        self._usage, self._in_turn = Usage(), False
