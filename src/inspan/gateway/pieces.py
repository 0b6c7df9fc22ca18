"""An answer's bytes as the pieces that a cassette holds, and back: the same bytes."""

import re
from collections.abc import Iterator

import msgspec

from inspan.gateway.cassette import Piece

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_EVENT = re.compile(rb"(?:event: (?P<name>[^\r\n]*)\n)?data: (?P<data>\S(?:[^\r\n]*[^\s])?)\n\n")
_DATA_LINE = re.compile(rb"(?m)^data: ?(?P<data>[^\s](?:[^\r\n]*[^\s])?)[ \t]*$|^data: ?(?P<other>[^\r\n]*)$")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def pieces_of(answer: bytes, *, is_stream: bool) -> list[Piece]:
    """One piece for each server-sent event of a stream; a body is one piece."""
    if is_stream:
        return [_event(data) for data in _events(answer)]
    if _is_one_line_of_json(answer):
        return [Piece(body=msgspec.Raw(answer))]
    return [_plain(answer)] if answer else []


def bytes_of(piece: Piece) -> bytes:
    """The bytes that a piece stands for."""
    if isinstance(piece.data, msgspec.Raw):
        before, after = _around(piece)
        return before.encode() + bytes(piece.data) + after.encode()
    if isinstance(piece.body, msgspec.Raw):
        return bytes(piece.body)
    if isinstance(piece.base64, bytes):
        return piece.base64
    return piece.text.encode() if isinstance(piece.text, str) else b""


def _around(piece: Piece) -> tuple[str, str]:
    if isinstance(piece.around, tuple):
        return piece.around
    heading = f"event: {piece.event}\n" if isinstance(piece.event, str) else ""
    return f"{heading}data: ", "\n\n"


def _events(answer: bytes) -> Iterator[bytes]:
    start = 0
    for end in _EVENT_END.finditer(answer):
        yield answer[start : end.end()]
        start = end.end()
    if start < len(answer):
        yield answer[start:]


def _event(raw: bytes) -> Piece:
    if (usual := _EVENT.fullmatch(raw)) and _is_one_line_of_json(usual["data"]):
        name = usual["name"]
        event = msgspec.UNSET if name is None else name.decode("utf-8", "replace")
        piece = Piece(event=event, data=msgspec.Raw(usual["data"]))
        return piece if bytes_of(piece) == raw else _plain(raw)
    return _odd_event(raw) or _plain(raw)


def _odd_event(raw: bytes) -> Piece | None:
    """An event that is spelled in another way, or has more to it, around one line of JSON."""
    lines = list(_DATA_LINE.finditer(raw.replace(b"\r", b" ")))
    if len(lines) != 1 or lines[0]["data"] is None or not _is_one_line_of_json(lines[0]["data"]):
        return None
    start, end = lines[0].span("data")
    try:
        return Piece(around=(raw[:start].decode(), raw[end:].decode()), data=msgspec.Raw(raw[start:end]))
    except UnicodeDecodeError:
        return None


def _plain(raw: bytes) -> Piece:
    try:
        return Piece(text=raw.decode())
    except UnicodeDecodeError:
        return Piece(base64=raw)


def _is_one_line_of_json(raw: bytes) -> bool:
    """Whether the bytes can stand in a line of a cassette as they are."""
    if not raw or b"\n" in raw or b"\r" in raw or raw != raw.strip():
        return False
    try:
        msgspec.json.decode(raw)
        raw.decode()
    except _UNREADABLE:
        return False
    return True
