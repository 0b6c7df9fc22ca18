"""An answer's bytes as the pieces that a cassette holds, and back: the same bytes."""

import re
from collections.abc import Iterator

import msgspec

from inspan.gateway.cassettes.cassette import Chunk

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_USUAL_START = re.compile(rb"(?:event: (?P<name>[^\r\n]*)\n)?data: ")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def split_chunks(answer: bytes, *, is_stream: bool) -> list[Chunk]:
    """One piece for each server-sent event of a stream; a body is one piece."""
    if is_stream:
        return [_event_chunk(data) for data in _split_events(answer)]
    if _is_json_line(answer):
        return [Chunk(body=msgspec.Raw(answer))]
    return [_raw_chunk(answer)] if answer else []


def encode_chunk(piece: Chunk) -> bytes:
    """The bytes that a piece stands for."""
    if isinstance(piece.data, msgspec.Raw):
        before, after = _event_framing(piece)
        return before.encode() + bytes(piece.data) + after.encode()
    if isinstance(piece.body, msgspec.Raw):
        return bytes(piece.body)
    if isinstance(piece.base64, bytes):
        return piece.base64
    return piece.text.encode() if isinstance(piece.text, str) else b""


def _event_framing(piece: Chunk) -> tuple[str, str]:
    if isinstance(piece.around, tuple):
        return piece.around
    heading = f"event: {piece.event}\n" if isinstance(piece.event, str) else ""
    return f"{heading}data: ", "\n\n"


def _split_events(answer: bytes) -> Iterator[bytes]:
    start = 0
    for end in _EVENT_END.finditer(answer):
        yield answer[start : end.end()]
        start = end.end()
    if start < len(answer):
        yield answer[start:]


def _event_chunk(raw: bytes) -> Chunk:
    """An event whose data is one line of JSON; what stands around it is kept only if it is not the usual."""
    before, data, after = _split_event(raw)
    if not _is_json_line(data):
        return _raw_chunk(raw)
    usual = _USUAL_START.fullmatch(before) if after == b"\n\n" else None
    try:
        if usual is None:
            return Chunk(around=(before.decode(), after.decode()), data=msgspec.Raw(data))
        name = usual["name"]
        return Chunk(event=msgspec.UNSET if name is None else name.decode(), data=msgspec.Raw(data))
    except UnicodeDecodeError:
        return _raw_chunk(raw)


def _split_event(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the data of an event, the data, and what stands behind; nothing if there is not one line."""
    lines = raw.splitlines(keepends=True)
    of_data = [number for number, line in enumerate(lines) if line.startswith(b"data:")]
    if len(of_data) != 1:
        return raw, b"", b""
    line = lines[of_data[0]]
    data = line[5:].strip()
    start = sum(map(len, lines[: of_data[0]])) + (line.index(data, 5) if data else 5)
    return raw[:start], data, raw[start + len(data) :]


def _raw_chunk(raw: bytes) -> Chunk:
    try:
        return Chunk(text=raw.decode())
    except UnicodeDecodeError:
        return Chunk(base64=raw)


def _is_json_line(raw: bytes) -> bool:
    """Whether the bytes can stand in a line of a cassette as they are."""
    if not raw or b"\n" in raw or b"\r" in raw or raw != raw.strip():
        return False
    try:
        msgspec.json.decode(raw)
        raw.decode()
    except _UNREADABLE:
        return False
    return True
