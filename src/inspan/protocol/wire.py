"""How events are spelled on disk and on a wire: the only place that knows JSON and the schema version.

A log is read by this rule: within one schema, fields and kinds are only ever added, so a reader ignores fields it
does not know and keeps kinds it does not know as `unrecognized`. A change that breaks this raises `SCHEMA` and adds
a function to `_UPGRADES` that lifts an event of the older schema by one.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from .commands import Command
from .events import Event, RunEnded, Unrecognized
from .known_types import know_type

SCHEMA = 1

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

# Everything a decoder may raise on bytes that a stranger wrote: no JSON, no UTF-8, nested without end.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
_decode_event: Callable[[bytes | msgspec.Raw], Event] = msgspec.json.Decoder(know_type(cast(Any, Event))).decode
_decode_command: Callable[[bytes], Command] = msgspec.json.Decoder(know_type(cast(Any, Command))).decode


class Record(NamedTuple):
    """One numbered event of a log; `at` is its time, in seconds since 1970."""

    number: int
    at: float
    event: Event

    @property
    def time(self) -> float:
        """The same as `at`."""
        return self.at

    def to_json(self) -> str:
        """The line of `inspan events`, without its end."""
        return encode_line(self).decode()

    @property
    def kind(self) -> str:
        """The event's kind, as it is written."""
        return str(self.event.__struct_config__.tag)


def encode_line(record: Record) -> bytes:
    """A record as every output of JSON lines spells it, without a line end."""
    return b'{"schema":%d,"n":%d,"t":%.3f,"event":%b}' % (SCHEMA, record.number, record.at, encode(record.event))


class BrokenRecord(ValueError):
    """A line that is no record, or whose checksum does not match."""


class _Line(msgspec.Struct, gc=False):
    n: int
    t: float
    crc: str
    event: msgspec.Raw


class _Declaration(msgspec.Struct, gc=False):
    schema: int = SCHEMA


_decode_line = msgspec.json.Decoder(know_type(_Line)).decode
_decode_declaration = msgspec.json.Decoder(know_type(_Declaration)).decode


def encode_record(number: int, at: float, body: bytes) -> bytes:
    """The line that stores an encoded event: its number, its time and a checksum over all three."""
    return encode_records(number, at, [body])[0]


def encode_records(number: int, at: float, bodies: Sequence[bytes]) -> list[bytes]:
    """The lines of several events that came at the same time, numbered from `number` on."""
    stamp, crc32 = b"%.3f" % at, zlib.crc32
    lines: list[bytes] = []
    for body in bodies:
        head = b'{"n":%d,"t":%b,' % (number, stamp)
        lines.append(b'%b"crc":"%08x","event":%b}\n' % (head, crc32(body, crc32(head)), body))
        number += 1
    return lines


def unpack_record(line: bytes) -> tuple[int, float, bytes]:
    """Number, time and encoded event of a stored line; raises `BrokenRecord` when the checksum does not match."""
    try:
        parsed = _decode_line(line)
    except DECODE_ERRORS as error:
        raise BrokenRecord(str(error)) from error
    body = bytes(parsed.event)
    # By its spelling, not its value: 5.0e0 is 5.000 to a parser, and still a byte that somebody changed.
    if line.rstrip(b"\n") != encode_record(parsed.n, parsed.t, body)[:-1]:
        raise BrokenRecord(f"record {parsed.n} does not match its checksum")
    return parsed.n, parsed.t, body


def decode_record(line: bytes, *, schema: int = SCHEMA) -> Record:
    """A stored line as a `Record`, lifted from an older schema where needed."""
    number, at, body = unpack_record(line)
    return Record(number, at, decode_event(body, schema=schema))


def decode_event(body: bytes, *, schema: int = SCHEMA) -> Event:
    """An encoded event of this or an older schema; what cannot be understood comes back as `Unrecognized`."""
    for version in range(schema, SCHEMA):
        body = encode(_UPGRADES[version](msgspec.json.decode(body)))
    try:
        return _decode_event(body)
    except DECODE_ERRORS as error:
        return Unrecognized(raw=body.decode(errors="replace"), note=str(error))


def decode_command(line: bytes) -> Command:
    """A command as it comes over the control socket; raises one of `DECODE_ERRORS`."""
    return _decode_command(line)


def schema_of(line: bytes) -> int:
    """The schema that the first line of a log declares, whatever else of that event this inspan understands."""
    return _decode_declaration(unpack_record(line)[2]).schema


def is_last(event: Event) -> bool:
    """Whether nothing may follow this event in a log."""
    return isinstance(event, RunEnded)


def json_schema() -> dict[str, Any]:
    """JSON Schema of one stored event, with the schema version in its `$id`."""
    (schema,), definitions = msgspec.json.schema_components([cast(Any, Event)], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"inspan:events:{SCHEMA}",
        "title": "inspan event",
        **schema,
        "$defs": definitions,
    }
