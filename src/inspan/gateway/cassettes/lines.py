"""The lines of a cassette, read strictly: what is wrong is named with its line, its field and the next step."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from inspan.errors import BadInput
from inspan.gateway.cassettes.cassette import VERSION, Asked, Cassette, Ended, Exchange, Last, Piece, Started
from inspan.gateway.wires import BY_NAME

FIELD = "model_from"
RECORD = "Record one with --model-from record:FILE."
_CORRECT = "Correct the line, or record it again."
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_Line = Asked | Started | Piece | Ended | Last
# The key that tells what a line is; the first that it has counts.
_KINDS: tuple[tuple[str, type[_Line]], ...] = (
    ("end", Ended),
    ("call", Asked),
    ("status", Started),
    ("calls", Last),
    ("data", Piece),
    ("body", Piece),
    ("text", Piece),
    ("base64", Piece),
)
_decode_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODERS = {kind: msgspec.json.Decoder(kind) for _, kind in _KINDS}


class _Cursor(NamedTuple):
    """A line that was read, and where it stands."""

    number: int
    value: _Line


def read_lines(name: str, data: bytes) -> Cassette:
    """The cassette that a file's bytes are; `name` is the file's, for the `BadInput` that is raised."""
    first, *rest = data.split(b"\n")
    about = _about(name, first)
    calls: list[Exchange] = []
    read = _decoded(name, rest)
    for line in read:
        if isinstance(line.value, Last):
            _check_end(name, line, calls, read)
            return Cassette(about=about, calls=tuple(sorted(calls, key=lambda call: call.asked.call)))
        calls.append(_call(name, line, read, whole=len(calls)))
    raise _unfinished(name, len(calls), "it has no last line that says how many calls there are")


def _about(path: str, line: bytes) -> dict[str, str]:
    try:
        found: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        version = found.pop("inspan_cassette")
    except (*_UNREADABLE, KeyError):
        raise BadInput(FIELD, path, "it is no cassette: line 1 is no header.", next_step=RECORD) from None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _bad_line(path, 1, f"the version of a cassette is a number, such as {VERSION}, and not {version!r}")
    if version > VERSION:
        problem = f"line 1 says version {version}; this inspan reads version {VERSION}."
        raise BadInput(FIELD, path, problem, next_step="Upgrade inspan to read it, or record it again.")
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in found.items()
    }


def _decoded(path: str, lines: list[bytes]) -> Iterator[_Cursor]:
    """Every line but empty ones; what breaks off before a newline was never written to its end, and is left out."""
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            yield _Cursor(number, _decode(line))
        except _UNREADABLE as error:
            if number == len(lines) + 1 and not _is_json(line):
                return
            raise _bad_line(path, number, _explained(error)) from None


def _decode(line: bytes) -> _Line:
    keys = _decode_keys(line)
    for key, kind in _KINDS:
        if key in keys:
            return _DECODERS[kind].decode(line)
    known = ", ".join(f"`{key}`" for key, _ in _KINDS)
    raise msgspec.ValidationError(f"it has to hold one of {known}")


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except _UNREADABLE:
        return False
    return True


def _explained(error: Exception) -> str:
    """msgspec's own words, with the field in front."""
    problem, _, place = str(error).partition(" - at `$")
    names = re.findall(r"[A-Za-z_][\w-]*", place)
    return f"field `{'.'.join(names)}`: {problem}" if names else problem


def _call(path: str, line: _Cursor, lines: Iterator[_Cursor], *, whole: int) -> Exchange:
    """The call that begins with a line, up to its end."""
    asked = line.value
    if not isinstance(asked, Asked):
        raise _bad_line(path, line.number, "a call has to begin here: a line with `call`, or the last one with `calls`")
    if asked.wire not in BY_NAME:
        raise _bad_line(path, line.number, f"field `wire`: {asked.wire!r} is none of {', '.join(BY_NAME)}")
    started: Started | None = None
    pieces: list[Piece] = []
    for number, value in lines:
        if started is None and isinstance(value, Started):
            started = value
        elif started is not None and isinstance(value, Piece):
            pieces.append(_checked_piece(path, number, value))
        elif started is not None and isinstance(value, Ended):
            if value.call != asked.call:
                raise _bad_line(path, number, f"it ends call {value.call}, but call {asked.call} has not ended")
            return Exchange(asked=asked, started=started, pieces=tuple(pieces), ended=value)
        else:
            expected = "`status`" if started is None else "a piece of the answer, or `end`"
            raise _bad_line(path, number, f"call {asked.call} has not ended: expected {expected}")
    raise _unfinished(path, whole, f"call {asked.call} has no end")


def _checked_piece(path: str, number: int, piece: Piece) -> Piece:
    forms = [name for name in ("data", "body", "text", "base64") if getattr(piece, name) is not msgspec.UNSET]
    if len(forms) != 1:
        raise _bad_line(path, number, f"a piece has one of `data`, `body`, `text`, `base64`, and not {len(forms)}")
    named = [name for name in ("event", "around") if getattr(piece, name) is not msgspec.UNSET]
    if len(named) > 1 or (named and forms != ["data"]):
        raise _bad_line(path, number, f"`{named[-1]}` cannot stand there: only `data` has one of `event` and `around`")
    return piece


def _check_end(path: str, line: _Cursor, calls: list[Exchange], rest: Iterator[_Cursor]) -> None:
    assert isinstance(line.value, Last)
    for number, _ in rest:
        raise _bad_line(path, number, "nothing may stand after the line that says how many calls there are")
    numbers = [call.asked.call for call in calls]
    if len(set(numbers)) != len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise BadInput(FIELD, path, f"two calls have the number {twice}.", next_step="Give each call its own number.")
    if line.value.calls != len(calls):
        problem = f"it says that there are {line.value.calls} calls, and there are {len(calls)}"
        raise _bad_line(path, line.number, problem)


def _unfinished(path: str, whole: int, problem: str) -> BadInput:
    calls = "1 whole call" if whole == 1 else f"{whole} whole calls"
    sentence = f"the recording was not finished: {problem}. It has {calls}."
    step = f'Record it again, or, to play the {calls}, end it with {{"calls":{whole}}}.'
    return BadInput(FIELD, path, sentence, next_step=step if whole else "Record it again.")


def _bad_line(path: str, number: int, problem: str) -> BadInput:
    return BadInput(FIELD, path, f"line {number}: {problem}.", next_step=_CORRECT)
