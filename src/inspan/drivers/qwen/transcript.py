"""Reads a saved session back: one line for everything said, done and counted."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.dialects.transcript_lines import decode_lines
from inspan.protocol.events import Event, ReasoningSaid, TextSaid, TurnCompleted, TurnStarted
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

from .frames import Tokens
from .tools import tool_end_events, tool_start_events


class _Call(msgspec.Struct, frozen=True):
    id: str = ""
    name: str = ""
    args: Any = None
    response: dict[str, Any] = {}


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    text: str = ""
    thought: bool = False
    function_call: _Call | None = None
    function_response: _Call | None = None


class _Message(msgspec.Struct, frozen=True):
    parts: list[_Part] = []


class _Display(msgspec.Struct, frozen=True):
    text: str = ""


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    result_display: msgspec.Raw = msgspec.Raw()


class _TokenCount(msgspec.Struct, frozen=True):
    name: str = msgspec.field(name="event.name", default="")
    input_token_count: int = 0
    output_token_count: int = 0
    cached_content_token_count: int = 0
    total_token_count: int = 0


class _Payload(msgspec.Struct, frozen=True, rename="camel"):
    ui_event: _TokenCount | None = None


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    provenance: str = ""
    parent_uuid: str | None = None
    message: _Message = _Message()
    tool_call_result: _Result = _Result()
    system_payload: _Payload = _Payload()


_decode = msgspec.json.Decoder(know_type(_Line)).decode
_decode_display = msgspec.json.Decoder(know_type(str | _Display)).decode


def read(saved: bytes) -> Sequence[Event]:
    """The events of every turn, each with what was used in it."""
    events: list[Event] = []
    calls: dict[str, Any] = {}
    used: Usage | None = None
    for line in decode_lines(saved, _decode):
        if line.type == "user" and line.provenance == "real_user":
            events += [*([TurnCompleted(usage=used)] if used else []), TurnStarted()]
            used = Usage()
        used = (used or Usage()) + _line_usage(line)
        events += [event for part in line.message.parts for event in _part_events(part, line, calls)]
    return [*events, TurnCompleted(usage=used)] if used else events


def read_totals(saved: bytes) -> SessionTotals | None:
    """What a session has used so far, if all of it is there: a resumed one counts on from the sum of its calls."""
    lines = list(decode_lines(saved, _decode))
    if not lines or lines[0].parent_uuid is not None:
        return None
    return SessionTotals(usage=sum(map(_line_usage, lines), Usage()))


def _line_usage(line: _Line) -> Usage:
    counted = line.system_payload.ui_event
    if counted is None or not counted.name.endswith(".api_response"):
        return Usage()
    return Tokens(
        input_tokens=counted.input_token_count,
        output_tokens=counted.output_token_count,
        cache_read_input_tokens=counted.cached_content_token_count,
        total_tokens=counted.total_token_count,
    ).usage


def _part_events(part: _Part, line: _Line, calls: dict[str, Any]) -> list[Event]:
    if part.function_response is not None:
        answer = part.function_response
        output, is_error = _output_text(line, answer), line.tool_call_result.status == "error"
        return tool_end_events(answer.id, answer.name, calls.pop(answer.id, None), output=output, is_error=is_error)
    if line.type != "assistant":
        return []
    if part.function_call is not None:
        calls[part.function_call.id] = part.function_call.args
        return tool_start_events(part.function_call.id, part.function_call.name, part.function_call.args)
    if not part.text:
        return []
    return [ReasoningSaid(text=part.text) if part.thought else TextSaid(text=part.text)]


def _output_text(line: _Line, answer: _Call) -> str:
    """A tool's output as its stream had it: what is shown to a person, where there is something, else the model's."""
    try:
        shown = _decode_display(line.tool_call_result.result_display)
    except DECODE_ERRORS:
        shown = ""
    text = shown if isinstance(shown, str) else shown.text
    return text or str(answer.response.get("output") or answer.response.get("error") or "")
