"""Gemini CLI's file of a session (`session-….jsonl`), read back to the events that its runs have told.

A record with an id that was there before takes its place. What stands below `$set` is the history as it is sent to
the model when a session is resumed: the records themselves tell more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from inspan.dialects.json_values import Json, get_text
from inspan.dialects.transcript_lines import decode_lines
from inspan.protocol.events import Event, TextSaid, ToolCompleted, ToolFailed, TurnCompleted
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage

from .records import (
    SHELL,
    WRITERS,
    Thought,
    Tokens,
    command_events,
    events_from_thoughts,
    file_change_events,
    tool_start_events,
)


class _Piece(msgspec.Struct):
    text: str = ""
    thought: bool = False


class _Response(msgspec.Struct):
    response: Json = {}


class _Result(msgspec.Struct, rename="camel"):
    function_response: _Response | None = None


class _Call(msgspec.Struct, rename="camel"):
    id: str
    name: str = ""
    args: Json = {}
    status: str = ""
    result: list[_Result] | None = None
    result_display: str | Json | list[Any] | None = None

    @property
    def display_text(self) -> str:
        return self.result_display if isinstance(self.result_display, str) else ""

    def response_text(self, key: str) -> str:
        """What the model was told of it."""
        responses = [part.function_response.response for part in self.result or () if part.function_response]
        return next((text for response in responses if (text := get_text(response, key))), "")


class _Message(msgspec.Struct, rename="camel"):
    id: str
    type: str
    content: str | list[_Piece] | _Piece | None = None
    thoughts: list[Thought] | None = None
    tokens: Tokens | None = None
    tool_calls: list[_Call] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        pieces = [self.content] if isinstance(self.content, _Piece) else self.content or []
        return "".join(piece.text for piece in pieces if not piece.thought)


_decode = msgspec.json.Decoder(know_type(_Message)).decode


def read(transcript: bytes) -> Sequence[Event]:
    """The events of every turn, each closed by its tokens."""
    events: list[Event] = []
    usage: Usage | None = None
    for message in _messages_by_id(transcript).values():
        if message.type == "gemini":
            events += _message_events(message)
            usage = (usage or Usage()) + (message.tokens or Tokens()).usage
        elif message.type == "user" and message.text and usage is not None:
            events.append(TurnCompleted(usage=usage))
            usage = None
    return events if usage is None else [*events, TurnCompleted(usage=usage)]


def _messages_by_id(transcript: bytes) -> dict[str, _Message]:
    """By their ids; the head of the file, and each change of it, are no messages."""
    return {message.id: message for message in decode_lines(transcript, _decode)}


def _message_events(message: _Message) -> Iterator[Event]:
    """As the live frames tell it: thoughts, text, calls, and how each went."""
    yield from events_from_thoughts(message.thoughts or [])
    if message.text:
        yield TextSaid(text=message.text)
    for call in message.tool_calls or ():
        yield from tool_start_events(call.id, call.name, call.args)
    for call in message.tool_calls or ():
        yield from _end_events(call)


def _end_events(call: _Call) -> list[Event]:
    if call.status == "error":
        return [ToolFailed(id=call.id, name=call.name, output=call.display_text or call.response_text("error"))]
    if call.name == SHELL:
        return command_events(
            call.id,
            get_text(call.args, "command"),
            model_text=call.response_text("output"),
            display_text=call.display_text,
        )
    done = ToolCompleted(id=call.id, name=call.name, output=call.display_text or call.response_text("output"))
    display = call.result_display
    if call.name not in WRITERS or not isinstance(display, dict):
        return [done]
    return [done, *file_change_events(call.id, get_text(display, "filePath"), created=bool(display.get("isNewFile")))]
