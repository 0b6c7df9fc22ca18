"""The session file of Claude Code, read back: its lines hold what the stream held (2.1.325)."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from inspan.dialects.transcript_lines import decode_lines
from inspan.protocol.events import Event, TurnCompleted, TurnStarted
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage

from .dialect import ClaudeDialect, Tokens, to_usage

_Line = dict[str, Any]
_decode = msgspec.json.Decoder(know_type(_Line)).decode


def read(transcript: bytes) -> Sequence[Event]:
    """The events of all its turns; lines of its own bookkeeping tell nothing."""
    return list(_iter_events(transcript))


def _iter_events(transcript: bytes) -> Iterator[Event]:
    dialect = ClaudeDialect(Task(prompt="", cwd="/"), SessionTotals())
    calls: dict[str, Usage] = {}
    for line in _iter_lines(transcript):
        if line.get("type") == "user" and not _has_results(line):
            yield from _end_turn(calls)
            yield TurnStarted()
        elif line.get("type") in ("user", "assistant"):
            calls |= _usage_by_call(line)
            yield from dialect.receive(_to_frame(line)).events
    yield from _end_turn(calls)


def _iter_lines(transcript: bytes) -> Iterator[_Line]:
    """The lines of the main conversation."""
    for line in decode_lines(transcript, _decode):
        if not line.get("isSidechain") and not line.get("isMeta") and isinstance(line.get("message"), dict):
            yield line


def _has_results(line: _Line) -> bool:
    content = line["message"].get("content")
    return isinstance(content, list) and any(_kind_of(part) == "tool_result" for part in cast(list[object], content))


def _kind_of(part: object) -> object:
    return cast(_Line, part).get("type") if isinstance(part, dict) else None


def _to_frame(line: _Line) -> bytes:
    frame = {"type": line["type"], "message": line["message"], "session_id": line.get("sessionId", "")}
    if "toolUseResult" in line:
        frame["tool_use_result"] = line["toolUseResult"]
    return msgspec.json.encode(frame)


def _usage_by_call(line: _Line) -> dict[str, Usage]:
    """The tokens of one call, by its message: each block of the answer has a line, with the tokens of all of them."""
    message = line["message"]
    if not message.get("usage"):
        return {}
    return {str(message.get("id", "")): to_usage(msgspec.convert(message["usage"], know_type(Tokens)))}


def _end_turn(calls: dict[str, Usage]) -> Iterator[Event]:
    if calls:
        yield TurnCompleted(usage=sum(calls.values(), Usage()))
        calls.clear()
