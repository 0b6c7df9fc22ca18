"""Reads a saved session of OpenCode, as `opencode export` prints it, into the events that its runs told."""

from collections.abc import Sequence

import msgspec

from inspan.protocol.events import Event, TurnCompleted

from .parts import Part, Spent, said, tool_started


class _Info(msgspec.Struct):
    role: str = ""


class _Message(msgspec.Struct):
    info: _Info
    parts: list[Part] = []


class _Session(msgspec.Struct):
    messages: list[_Message] = []


_decode = msgspec.json.Decoder(_Session).decode


def read(printed: bytes) -> Sequence[Event]:
    """Every event of a session; a turn ends where the user speaks again."""
    events: list[Event] = []
    spent = Spent()
    for message in _decode(printed[printed.index(b"{") :]).messages:
        if message.info.role == "user":
            events += _turn(spent)
            continue
        for part in message.parts:
            events += _told(part)
            if part.type == "step-finish":
                spent.add(part)
    return [*events, *_turn(spent)]


def _told(part: Part) -> list[Event]:
    """Parts that are no events, such as snapshots of the files, are kept in a session and never told."""
    return [*([tool_started(part)] if part.type == "tool" else []), *(said(part) or [])]


def _turn(spent: Spent) -> list[Event]:
    usage, cost_usd = spent.take()
    return [TurnCompleted(usage=usage, cost_usd=cost_usd)] if usage else []
