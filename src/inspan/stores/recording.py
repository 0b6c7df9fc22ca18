"""A run's wire traffic as text: lines of JSON that can be read, compared and played back without the program.

First a header, then what the agent said (`out`, and on stderr `err`) line by line, last how it left (`exit`). A line
of the agent that is no UTF-8 stands there in base64 (`out64`, `err64`).
"""

from collections.abc import Iterable, Iterator
from typing import IO, Annotated, Any

import msgspec

from inspan.errors import BadInput
from inspan.protocol.events import ModelCallEnded
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import Reason
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS, encode

VERSION = 1
_HEADER_BYTES = 1_000_000
_RECORD_HINT = "Make one with `inspan export`."
_RECORD_AGAIN_HINT = "It was cut short: export the run again."


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a dialect must know to read the rest; `told` is what the agent had told of its session before."""

    recording: int
    agent: Annotated[str, msgspec.Meta(min_length=1)]
    agent_version: str
    channel: str
    inspan: str
    task: dict[str, Any]
    told: SessionTotals | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why inspan itself ended the run, which the agent's words do not tell."""

    reason: Reason
    message: str


class Exit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the program left, and what inspan knew besides: its own ending, the last call that the gateway saw."""

    exit: int | None
    signal: int | None
    duration_s: float = 0.0
    ending: Ending | None = None
    call: ModelCallEnded | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a recording holds; lines are without their newline."""

    header: Header
    out: list[bytes]
    err: list[bytes]
    exit: Exit


class _Version(msgspec.Struct):
    recording: int


_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_exit = msgspec.json.Decoder(know_type(Exit)).decode


def write(file: IO[bytes], header: Header, *, out: Iterable[bytes], err: Iterable[bytes], exit: Exit) -> int:
    """Writes a recording; gives how many lines of the agent it has. Raises `OSError` as the file does."""
    count = 0
    file.write(encode(header) + b"\n")
    for name, lines in (("out", out), ("err", err)):
        for line in lines:
            file.write(_encode_line(name, line) + b"\n")
            count += 1
    file.write(encode(exit) + b"\n")
    return count


def read(path: str) -> Recording:
    """A recording, whole and checked; raises `BadInput` that names the file and the line."""
    try:
        with open(path, "rb") as file:
            header = _parse_header(path, file.readline(_HEADER_BYTES))
            return _parse_body(path, header, enumerate(file, start=2))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}."
        raise BadInput("recording", path, problem, next_step="Check the path.") from error


def task_from_header(header: Header) -> Task:
    """The task that a dialect is given: what was kept of it, and nothing where it was not."""
    return msgspec.convert({"prompt": "", "cwd": "/", **header.task, "agent": header.agent}, know_type(Task))


def _encode_line(name: str, line: bytes) -> bytes:
    try:
        return encode({name: line.decode()})
    except UnicodeDecodeError:
        return encode({f"{name}64": line})


def _parse_header(path: str, line: bytes) -> Header:
    try:
        version = msgspec.json.decode(line, type=know_type(_Version)).recording
    except DECODE_ERRORS:
        raise BadInput(
            "recording", path, "it is not a recording: line 1 is not a header.", next_step=_RECORD_HINT
        ) from None
    if version > VERSION:
        problem = f"line 1 says version {version}; this inspan reads version {VERSION}."
        raise BadInput("recording", path, problem, next_step="Upgrade inspan to read it.")
    try:
        header = msgspec.json.decode(line, type=know_type(Header))
        task_from_header(header)
    except DECODE_ERRORS as error:
        raise _bad_line_error(path, 1, str(error)) from error
    return header


def _parse_body(path: str, header: Header, lines: Iterator[tuple[int, bytes]]) -> Recording:
    said: dict[str, list[bytes]] = {"out": [], "err": []}
    number = 1
    for number, line in lines:
        try:
            fields = _decode_line(line)
            if "exit" in fields:
                ended = _decode_exit(line)
                _check_last(path, lines)
                return Recording(header=header, out=said["out"], err=said["err"], exit=ended)
            stream, data = _parse_stream_line(fields)
        except DECODE_ERRORS as error:
            if not line.endswith(b"\n"):
                break
            raise _bad_line_error(path, number, str(error)) from error
        said[stream].append(data)
    problem = f"it ends at line {number}, before the line that says how the agent left."
    raise BadInput("recording", path, problem, next_step=_RECORD_AGAIN_HINT)


def _parse_stream_line(fields: dict[str, msgspec.Raw]) -> tuple[str, bytes]:
    """The stream and the bytes of a line of the agent; raises `ValidationError` for a line that is none."""
    if len(fields) != 1 or not fields.keys() <= {"out", "out64", "err", "err64"}:
        raise msgspec.ValidationError("it has to hold one of `out`, `out64`, `err`, `err64`, or `exit`")
    ((name, raw),) = fields.items()
    if name.endswith("64"):
        return name[:3], msgspec.json.decode(raw, type=bytes)
    return name, msgspec.json.decode(raw, type=str).encode()


def _check_last(path: str, rest: Iterator[tuple[int, bytes]]) -> None:
    for number, _ in rest:
        raise _bad_line_error(path, number, "nothing may stand after the line that says how the agent left")


def _bad_line_error(path: str, number: int, problem: str) -> BadInput:
    return BadInput("recording", path, f"line {number}: {problem}.", next_step=_RECORD_HINT)
