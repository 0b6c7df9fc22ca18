"""Server-sent events: how a record of a log is spelled on a stream, and what else stands there."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from inspan.protocol.wire import Record, encode

HEARTBEAT = b": \n\n"
# A browser that lost its stream asks again after this.
OPENING = b"retry: 1000\n\n"


class Frame(NamedTuple):
    """One record of a log as an event of a stream, without its id."""

    number: int
    kind: str
    body: bytes


class End(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the stream of a run is over: it has `ended`, was `removed`, or its files are `unreadable`; `code` is that of
    the error, if there is one. A stream of many runs leaves each of them so, and ends with one that names none.
    """

    run_id: str
    why: str
    detail: str = ""
    code: str = ""


def build_frame(run_id: str, record: Record) -> Frame:
    """The event as `inspan events` prints it, with the run it belongs to."""
    body = b'event: %b\ndata: {"run_id":"%b","n":%d,"t":%.3f,"event":%b}\n\n' % (
        record.kind.encode(),
        run_id.encode(),
        record.number,
        record.at,
        encode(record.event),
    )
    return Frame(record.number, record.kind, body)


def join_frames(frames: Iterable[Frame], *, ids: bool) -> bytes:
    """Several of them as they are sent; with the number of each as its id, where one run alone is followed."""
    if ids:
        return b"".join([b"id: %d\n%b" % (frame.number, frame.body) for frame in frames])
    return b"".join([frame.body for frame in frames])


def format_event(kind: str, value: Any) -> bytes:
    """An event that stands in no log."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(value))


def format_cursor(cursor: str) -> bytes:
    """Where a follower of many runs goes on: an event without data only sets the id."""
    return b"id: %b\n\n" % cursor.encode()
