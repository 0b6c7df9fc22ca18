"""Texts over 1 MB leave the log: they are kept, redacted, in a file beside it and referenced.

They are taken out of the frame before it is decoded, so that a line of 50 MB costs its own size and little more.
"""

import os
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from inspan.protocol.wire import DECODE_ERRORS
from inspan.redaction import Redactor, SecretSet

LARGE_BYTES = 1_000_000
_SLICE_BYTES = 256 * 1024
# An escape, a pair of surrogates or a character may lie across the end of a slice.
_MAX_OVERLAP = 12
_REFERENCE = re.compile(r"\[large: \d+ bytes in (large/\d+-\d+\.txt)\]")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def spill_large_texts(frame: bytes, *, folder: str, secrets: SecretSet, number: int) -> bytes:
    """The frame with every large text of its JSON moved to `large/<number>-<k>.txt`; itself where none is large."""
    pieces: list[bytes] = []
    done = 0
    for match in _STRING.finditer(frame):
        start, end = match.span()
        if end - start > LARGE_BYTES:
            name = f"large/{number}-{len(pieces) // 2 + 1}.txt"
            size = _write_text(frame, start + 1, end - 1, path=os.path.join(folder, name), secrets=secrets)
            pieces += [frame[done:start], b'"[large: %d bytes in %b]"' % (size, name.encode())]
            done = end
    return b"".join([*pieces, frame[done:]]) if pieces else frame


def restore_large_texts(value: Any, *, folder: str) -> Any:
    """A text, or a value with texts in it, with what had been moved beside the log put back, redacted as it lies.

    A text may itself be JSON in which large texts are referenced; it is then written anew.
    """
    restored = _restore(value, folder)
    if not isinstance(restored, str) or not _REFERENCE.search(restored):
        return restored
    try:
        return msgspec.json.encode(_restore(msgspec.json.decode(restored), folder)).decode()
    except DECODE_ERRORS:
        return restored


def _restore(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        match = _REFERENCE.fullmatch(value)
        return _read_text(value, os.path.join(folder, match[1])) if match else value
    if isinstance(value, list):
        return [_restore(each, folder) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _restore(each, folder) for key, each in cast(dict[str, Any], value).items()}
    return value


def _read_text(reference: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return reference


def _write_text(frame: bytes, start: int, end: int, *, path: str, secrets: SecretSet) -> int:
    """Writes the text that stands between two quotes, as it was meant and redacted; gives its size in bytes."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    redactor, size = Redactor(secrets), 0
    with open(path, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        for text in _decode_slices(frame, start, end):
            size += len(text)
            file.write(redactor.feed(text))
        file.write(redactor.flush())
    return size


def _decode_slices(frame: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        stop = min(start + _SLICE_BYTES, end)
        text, start = _decode_slice(frame, start, stop, end)
        yield text


def _decode_slice(frame: bytes, start: int, stop: int, end: int) -> tuple[bytes, int]:
    """The text of a slice and where the next one begins; a slice that is no text at all comes as it is."""
    for later in range(stop, min(stop + _MAX_OVERLAP, end) + 1):
        if _cuts_an_escape(frame, start, later):
            continue
        try:
            text = msgspec.json.decode(b'"%b"' % frame[start:later], type=str)
        except DECODE_ERRORS:
            continue
        return text.encode(errors="surrogatepass"), later
    return frame[start:stop], stop


def _cuts_an_escape(frame: bytes, start: int, stop: int) -> bool:
    """Whether an odd number of backslashes stands right before the cut."""
    tail = frame[max(start, stop - 64) : stop]
    return bool((len(tail) - len(tail.rstrip(b"\\"))) % 2)
