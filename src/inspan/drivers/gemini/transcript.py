"""Gemini CLI's file of a session (`session-….jsonl`), read back to the events that its runs have told.

A record with an id that was there before takes its place. What stands below `$set` is the history as it is sent to
the model when a session is resumed: the records themselves tell more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from inspan.dialects.saved import readable
from inspan.dialects.values import Json, word
from inspan.protocol.events import Event, TextSaid, ToolCompleted, ToolFailed, TurnCompleted
from inspan.protocol.usage import Usage

from .records import SHELL, WRITERS, Thought, Tokens, changed, executed, reasoned, started


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
    def shown(self) -> str:
        return self.result_display if isinstance(self.result_display, str) else ""

    def told(self, key: str) -> str:
        """What the model was told of it."""
        responses = [part.function_response.response for part in self.result or () if part.function_response]
        return next((text for response in responses if (text := word(response, key))), "")


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


_decode = msgspec.json.Decoder(_Message).decode


def read(transcript: bytes) -> Sequence[Event]:
    """The events of every turn, each closed by its tokens."""
    events: list[Event] = []
    usage: Usage | None = None
    for message in _messages(transcript).values():
        if message.type == "gemini":
            events += _told(message)
            usage = (usage or Usage()) + (message.tokens or Tokens()).usage
        elif message.type == "user" and message.text and usage is not None:
            events.append(TurnCompleted(usage=usage))
            usage = None
    return events if usage is None else [*events, TurnCompleted(usage=usage)]


def _messages(transcript: bytes) -> dict[str, _Message]:
    """By their ids; the head of the file, and each change of it, are no messages."""
    return {message.id: message for message in readable(transcript, _decode)}


def _told(message: _Message) -> Iterator[Event]:
    """As the live frames tell it: thoughts, text, calls, and how each went."""
    yield from reasoned(message.thoughts or [])
    if message.text:
        yield TextSaid(text=message.text)
    for call in message.tool_calls or ():
        yield from started(call.id, call.name, call.args)
    for call in message.tool_calls or ():
        yield from _ended(call)


def _ended(call: _Call) -> list[Event]:
    if call.status == "error":
        return [ToolFailed(id=call.id, name=call.name, output=call.shown or call.told("error"))]
    if call.name == SHELL:
        return executed(call.id, word(call.args, "command"), told=call.told("output"), shown=call.shown)
    done = ToolCompleted(id=call.id, name=call.name, output=call.shown or call.told("output"))
    display = call.result_display
    if call.name not in WRITERS or not isinstance(display, dict):
        return [done]
    return [done, *changed(call.id, word(display, "filePath"), created=bool(display.get("isNewFile")))]
