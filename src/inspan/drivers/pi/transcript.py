"""A saved session of Pi, a JSONL file: the same messages as its stream told, read back as the same events."""

from collections.abc import Iterator

import msgspec

from inspan.protocol.events import Event, ThreadStarted, ToolStarted, TurnStarted, Unrecognized
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS

from .frames import Call, Message, Tokens, TurnUsage, message_events, tool_end_events, turn_end_event

_USAGE_TYPES = ("compaction", "branch_summary", "usage")


class _Entry(msgspec.Struct):
    type: str
    id: str = ""
    cwd: str = ""
    message: Message | None = None
    usage: Tokens | None = None


_decode = msgspec.json.Decoder(know_type(_Entry)).decode


def read(transcript: bytes) -> list[Event]:
    """The events of all its turns. A turn begins with what the user says; a line that is broken off is told as such."""
    reader = _Reader()
    return [
        *(event for line in transcript.split(b"\n") if line.strip() for event in reader.read_line(line)),
        *reader.end_turn(),
    ]


class _Reader:
    def __init__(self) -> None:
        self._cwd = ""
        self._calls: dict[str, Call] = {}
        self._last: Message | None = None
        self._spent: TurnUsage | None = None

    def read_line(self, line: bytes) -> list[Event]:
        try:
            entry = _decode(line)
        except DECODE_ERRORS as error:
            return [Unrecognized(raw=line.decode(errors="replace"), note=str(error))]
        if entry.type == "session":
            self._cwd = entry.cwd
            return [ThreadStarted(session_id=entry.id)]
        if entry.type == "message" and entry.message:
            return list(self._on_message(entry.message))
        if entry.type in _USAGE_TYPES and self._spent:
            self._spent.add(entry.usage)
        return []

    def end_turn(self) -> list[Event]:
        """The end of the turn that is open, if one is."""
        spent, self._spent = self._spent, None
        return [turn_end_event(self._last, spent)] if spent else []

    def _on_message(self, message: Message) -> Iterator[Event]:
        if message.role == "user":
            yield from self.end_turn()
            self._spent, self._last = TurnUsage(), None
            yield TurnStarted()
        elif message.role == "assistant":
            yield from self._on_assistant(message)
        elif message.role == "toolResult":
            if self._spent:
                self._spent.add(message.usage)
            call = self._calls.pop(message.tool_call_id, Call(id=message.tool_call_id, name=message.tool_name))
            yield from tool_end_events(call, message, is_error=message.is_error, cwd=self._cwd)

    def _on_assistant(self, message: Message) -> Iterator[Event]:
        self._last = message
        if self._spent:
            self._spent.add(message.usage)
        yield from message_events(message)
        if message.stop_reason in ("error", "aborted") or not isinstance(message.content, list):
            return
        for block in message.content:
            if block.type == "toolCall":
                call = Call(id=block.id, name=block.name, input=block.arguments)
                self._calls[call.id] = call
                yield ToolStarted(id=call.id, name=call.name, input=call.input)
