"""The lines of a cassette, read strictly: what is wrong is named with its line, its field and the next step."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from inspan.errors import BadInput
from inspan.gateway.cassettes.cassette import (
    VERSION,
    Cassette,
    Chunk,
    Exchange,
    Footer,
    RecordedRequest,
    ResponseEnd,
    ResponseStart,
)
from inspan.gateway.wires import BY_NAME
from inspan.protocol.known_types import know_type

FIELD = "model_from"
RECORD_HINT = "Record one with --model-from record:FILE."
_CORRECT_HINT = "Correct the line, or record it again."
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_Line = RecordedRequest | ResponseStart | Chunk | ResponseEnd | Footer
# The key that tells what a line is; the first that it has counts.
_LINE_TYPES: tuple[tuple[str, type[_Line]], ...] = (
    ("end", ResponseEnd),
    ("call", RecordedRequest),
    ("status", ResponseStart),
    ("calls", Footer),
    ("data", Chunk),
    ("body", Chunk),
    ("text", Chunk),
    ("base64", Chunk),
)
_decode_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODERS = {kind: msgspec.json.Decoder(know_type(kind)) for _, kind in _LINE_TYPES}


class _NumberedLine(NamedTuple):
    """A line that was read, and where it stands."""

    number: int
    value: _Line


def parse_cassette(name: str, data: bytes) -> Cassette:
    """The cassette that a file's bytes are; `name` is the file's, for the `BadInput` that is raised."""
    first, *rest = data.split(b"\n")
    about = _parse_header(name, first)
    calls: list[Exchange] = []
    read = _decode_lines(name, rest)
    for line in read:
        if isinstance(line.value, Footer):
            _check_end(name, line, calls, read)
            return Cassette(about=about, calls=tuple(sorted(calls, key=lambda call: call.request.call)))
        calls.append(_parse_exchange(name, line, read, complete_calls=len(calls)))
    raise _unfinished_error(name, len(calls), "it has no last line that says how many calls there are")


def _parse_header(path: str, line: bytes) -> dict[str, str]:
    try:
        found: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        version = found.pop("inspan_cassette")
    except (*_UNREADABLE, KeyError):
        raise BadInput(FIELD, path, "it is not a cassette: line 1 is not a header.", next_step=RECORD_HINT) from None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _line_error(path, 1, f"the version of a cassette is a number, such as {VERSION}, and not {version!r}")
    if version > VERSION:
        problem = f"line 1 says version {version}; this inspan reads version {VERSION}."
        raise BadInput(FIELD, path, problem, next_step="Upgrade inspan to read it, or record it again.")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in found.items()
    }


def _decode_lines(path: str, lines: list[bytes]) -> Iterator[_NumberedLine]:
    """Every line but empty ones; what breaks off before a newline was never written to its end, and is left out."""
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            yield _NumberedLine(number, _decode_line(line))
        except _UNREADABLE as error:
            if number == len(lines) + 1 and not _is_json(line):
                return
            raise _line_error(path, number, _explain(error)) from None


def _decode_line(line: bytes) -> _Line:
    keys = _decode_keys(line)
    for key, kind in _LINE_TYPES:
        if key in keys:
            return _DECODERS[kind].decode(line)
    known = ", ".join(f"`{key}`" for key, _ in _LINE_TYPES)
    raise msgspec.ValidationError(f"it has to hold one of {known}")


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except _UNREADABLE:
        return False
    return True


def _explain(error: Exception) -> str:
    """msgspec's own words, with the field in front."""
    problem, _, place = str(error).partition(" - at `$")
    names = re.findall(r"[A-Za-z_][\w-]*", place)
    return f"field `{'.'.join(names)}`: {problem}" if names else problem


def _parse_exchange(path: str, line: _NumberedLine, lines: Iterator[_NumberedLine], *, complete_calls: int) -> Exchange:
    """The call that begins with a line, up to its end."""
    asked = line.value
    if not isinstance(asked, RecordedRequest):
        raise _line_error(
            path, line.number, "a call has to begin here: a line with `call`, or the last one with `calls`"
        )
    if asked.wire not in BY_NAME:
        raise _line_error(path, line.number, f"field `wire`: {asked.wire!r} is none of {', '.join(BY_NAME)}")
    started: ResponseStart | None = None
    pieces: list[Chunk] = []
    for number, value in lines:
        if started is None and isinstance(value, ResponseStart):
            started = value
        elif started is not None and isinstance(value, Chunk):
            pieces.append(_check_chunk(path, number, value))
        elif started is not None and isinstance(value, ResponseEnd):
            if value.call != asked.call:
                raise _line_error(path, number, f"it ends call {value.call}, but call {asked.call} has not ended")
            return Exchange(request=asked, start=started, chunks=tuple(pieces), ending=value)
        else:
            expected = "`status`" if started is None else "a piece of the answer, or `end`"
            raise _line_error(path, number, f"call {asked.call} has not ended: expected {expected}")
    raise _unfinished_error(path, complete_calls, f"call {asked.call} has no end")


def _check_chunk(path: str, number: int, piece: Chunk) -> Chunk:
    forms = [name for name in ("data", "body", "text", "base64") if getattr(piece, name) is not msgspec.UNSET]
    if len(forms) != 1:
        raise _line_error(path, number, f"a piece has one of `data`, `body`, `text`, `base64`, and not {len(forms)}")
    named = [name for name in ("event", "around") if getattr(piece, name) is not msgspec.UNSET]
    if len(named) > 1 or (named and forms != ["data"]):
        raise _line_error(
            path, number, f"`{named[-1]}` cannot stand there: only `data` has one of `event` and `around`"
        )
    return piece


def _check_end(path: str, line: _NumberedLine, calls: list[Exchange], rest: Iterator[_NumberedLine]) -> None:
    assert isinstance(line.value, Footer)
    for number, _ in rest:
        raise _line_error(path, number, "nothing may stand after the line that says how many calls there are")
    numbers = [call.request.call for call in calls]
    if len(set(numbers)) != len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise BadInput(FIELD, path, f"two calls have the number {twice}.", next_step="Give each call its own number.")
    if line.value.calls != len(calls):
        problem = f"it says that there are {line.value.calls} calls, and there are {len(calls)}"
        raise _line_error(path, line.number, problem)


def _unfinished_error(path: str, whole: int, problem: str) -> BadInput:
    calls = "1 whole call" if whole == 1 else f"{whole} whole calls"
    sentence = f"the recording was not finished: {problem}. It has {calls}."
    step = f'Record it again, or, to play the {calls}, end it with {{"calls":{whole}}}.'
    return BadInput(FIELD, path, sentence, next_step=step if whole else "Record it again.")


def _line_error(path: str, number: int, problem: str) -> BadInput:
    return BadInput(FIELD, path, f"line {number}: {problem}.", next_step=_CORRECT_HINT)
