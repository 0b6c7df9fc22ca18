"""Where the body of an HTTP/1.1 answer ends: by its length, by its chunks, or with the connection. Pure."""

import re
from typing import Protocol

from inspan.gateway.answer_head import Head, NotHttp, content_length, words

_LINE_LIMIT_BYTES = 16 * 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r?")


class Body(Protocol):
    """Fed with bytes as they arrive, gives those that belong to the body.

    `surplus`: there came more than belongs to it. `problem`: its framing broke, in words that follow "its answer";
    what came before that is still given.
    """

    is_done: bool
    surplus: bool
    problem: str
    ends_with_connection: bool

    def take(self, data: bytes) -> bytes: ...


def body_of(head: Head, *, method: str) -> Body:
    """How the body after this head is framed; raises `NotHttp` when the head leaves that open."""
    if method == "HEAD" or head.status in (204, 304):
        return Counted(0)
    codings = words(head.headers.get("transfer-encoding", ""))
    if codings == {"chunked"}:
        return Chunked()
    if codings:
        raise NotHttp(f"has the transfer-encoding {', '.join(sorted(codings))}, which was not asked for")
    length = content_length(head)
    return UntilClose() if length is None else Counted(length)


class Counted:
    """A body whose length is known."""

    ends_with_connection = False
    problem = ""

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0
        self.surplus = False

    def take(self, data: bytes) -> bytes:
        self.surplus = len(data) > self._left
        taken = data[: self._left] if self.surplus else data
        self._left -= len(taken)
        self.is_done = self._left == 0
        return taken


class UntilClose:
    """A body that goes on as long as the connection does."""

    ends_with_connection = True
    problem = ""

    def __init__(self) -> None:
        self.is_done = False
        self.surplus = False

    def take(self, data: bytes) -> bytes:
        return data


class Chunked:
    """A body in chunks; extensions and trailers are read over."""

    ends_with_connection = False

    def __init__(self) -> None:
        self.is_done = False
        self.surplus = False
        self.problem = ""
        self._rest = b""  # The beginning of a line whose end has not come.
        self._left = 0  # What the chunk still has, with the line end behind it.
        self._in_trailers = False
        self._trailer_bytes = 0

    def take(self, data: bytes) -> bytes:
        if self._rest:
            data, self._rest = self._rest + data, b""
        found: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_done and not self.problem:
            at = self._take_chunk(data, at, found) if self._left else self._take_line(data, at)
        self.surplus = at < len(data)
        return found[0] if len(found) == 1 else b"".join(found)

    def _take_chunk(self, data: bytes, at: int, found: list[bytes]) -> int:
        """The last two bytes of what is left are the line end and no part of the body."""
        inner = min(self._left - 2, len(data) - at)
        if inner > 0:
            found.append(data[at : at + inner])
            self._left -= inner
            at += inner
        if self._left > 2:
            return at
        end = data[at : at + self._left]
        if not b"\r\n"[2 - self._left :].startswith(end):
            self.problem = "has a chunk that is longer than it says"
            return at
        self._left -= len(end)
        return at + len(end)

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at)
        if (end if end >= 0 else len(data)) - at > _LINE_LIMIT_BYTES:
            self.problem = "has a chunk whose size takes no end"
            return at
        if end < 0:
            self._rest = data[at:]
            return len(data)
        self._read_line(data[at:end])
        return end + 1

    def _read_line(self, line: bytes) -> None:
        if self._in_trailers:
            self.is_done = line in (b"", b"\r")
            self._trailer_bytes += len(line) + 1
            if self._trailer_bytes > _LINE_LIMIT_BYTES:
                self.problem = "has trailers that take no end"
            return
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            self.problem = "has a chunk without a size"
            return
        length = int(size[1], 16)
        self._in_trailers = length == 0
        self._left = length + 2 if length else 0
