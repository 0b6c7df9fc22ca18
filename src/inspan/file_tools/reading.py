"""Reading a file: its text, whole or some of its lines."""

import os

from inspan.errors import BadInput, FileRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .root import Root

# What one answer holds: an agent reads it whole.
MAX_TEXT_BYTES = 200_000
_PROBE_BYTES = 8192


def read_file(
    root: "Root", *, path: str, offset: int = 1, limit: int = 0, numbers: bool = False
) -> "dict[str, object]":
    """`limit` lines from line `offset` on, all of them for 0; at most `MAX_TEXT_BYTES`, cut at the end of a line."""
    if offset < 1 or limit < 0:
        field, value = ("--offset", offset) if offset < 1 else ("--limit", limit)
        raise BadInput(field, value, "lines are counted from 1.", next_step="Give 1 or more.")
    data = read_bytes(root, path)
    if is_binary(data):
        raise FileRefused(f"path {path!r}: it is not text.", next_step="`stat` tells its size.")
    lines = split_lines(data)
    chosen = lines[offset - 1 : offset - 1 + limit] if limit else lines[offset - 1 :]
    shown, notes = _cut(chosen), list[str]()
    if offset > max(1, len(lines)):
        notes.append(f"There is no line {offset}: the file has {len(lines)}.")
    if len(shown) < len(chosen):
        notes.append(f"Cut after {MAX_TEXT_BYTES} bytes: go on with offset {offset + len(shown)}.")
    elif shown and len(shown[0]) < len(chosen[0]):
        notes.append(f"Cut after {MAX_TEXT_BYTES} bytes, in the middle of line {offset}.")
    if not _is_utf8(b"".join(shown)):
        notes.append(
            "Some bytes are not UTF-8, and shown as \N{REPLACEMENT CHARACTER}; `edit` leaves them as they are."
        )
    if numbers:
        shown = [b"%d\t%s" % (offset + place, line) for place, line in enumerate(shown)]
    text = b"".join(shown).decode(errors="replace")
    last = offset + len(shown) - 1
    return {"path": path, "text": text, "first": offset, "last": last, "lines": len(lines), "notes": notes}


def read_bytes(root: "Root", path: str) -> bytes:
    """All that a file holds; raises `FileRefused`."""
    fd = root.open_file(path)
    with open(fd, "rb", buffering=0) as file:
        return read_open_file(root, file.fileno(), path)


def read_open_file(root: "Root", fd: int, path: str) -> bytes:
    """The same for an open one, which stays open. The size that was told may have grown since."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
        size += len(piece)
        root.check_size(size, path)
    return b"".join(pieces)


def is_binary(data: bytes) -> bool:
    """Whether a person would not call it text, by its beginning."""
    return b"\0" in data[:_PROBE_BYTES]


def split_lines(data: bytes) -> "list[bytes]":
    """The lines with their ends; only a line feed ends one."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _cut(lines: "list[bytes]") -> "list[bytes]":
    size = 0
    for place, line in enumerate(lines):
        size += len(line)
        if size > MAX_TEXT_BYTES:
            return lines[:place] or [_cut_line(line)]
    return lines


def _cut_line(line: bytes) -> bytes:
    """The beginning of a line that is too long, in whole characters."""
    beginning = line[:MAX_TEXT_BYTES]
    return beginning.decode(errors="ignore").encode() if _is_utf8(line) else beginning


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
