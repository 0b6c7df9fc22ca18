"""Reads a saved session of OpenCode, as `opencode export` prints it, into the events that its runs told."""

from collections.abc import Sequence

import msgspec

from inspan.protocol.events import Event, TurnCompleted
from inspan.protocol.known_types import know_type

from .parts import Part, TurnUsage, part_events, tool_start_event


class _Info(msgspec.Struct):
    role: str = ""


class _Message(msgspec.Struct):
    info: _Info
    parts: list[Part] = []


class _Session(msgspec.Struct):
    messages: list[_Message] = []


_decode = msgspec.json.Decoder(know_type(_Session)).decode


def read(printed: bytes) -> Sequence[Event]:
    """Every event of a session; a turn ends where the user speaks again."""
    events: list[Event] = []
    spent = TurnUsage()
    for message in _decode(printed[printed.index(b"{") :]).messages:
        if message.info.role == "user":
            events += _turn_end_events(spent)
            continue
        for part in message.parts:
            events += _part_events(part)
            if part.type == "step-finish":
                spent.add(part)
    return [*events, *_turn_end_events(spent)]


def _part_events(part: Part) -> list[Event]:
    """Parts that are no events, such as snapshots of the files, are kept in a session and never told."""
    return [*([tool_start_event(part)] if part.type == "tool" else []), *(part_events(part) or [])]


def _turn_end_events(spent: TurnUsage) -> list[Event]:
    usage, cost_usd = spent.take()
    return [TurnCompleted(usage=usage, cost_usd=cost_usd)] if usage else []
