"""Where the body of an HTTP/1.1 message ends: by its length, by its chunks, or with the connection. Pure."""

import re
from typing import Protocol

from inspan.gateway.http.heads import AnswerHead, NotHttp, RequestHead, content_length, words

_LINE_LIMIT_BYTES = 16 * 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r?")


class Body(Protocol):
    """Fed with bytes as they arrive, gives those that belong to the body.

    `rest` is what came after its end. `problem`: its framing broke, in words that follow "its answer";
    what came before that is still given.
    """

    is_done: bool
    rest: bytes
    problem: str
    ends_with_connection: bool

    def take(self, data: bytes) -> bytes: ...


def body_of_answer(head: AnswerHead, *, method: str) -> Body:
    """How the body after this head is framed; raises `NotHttp` when the head leaves that open."""
    if method == "HEAD" or head.status in (204, 304):
        return Counted(0)
    if "transfer-encoding" in head.headers:
        return _coded(head.headers["transfer-encoding"])
    length = content_length(head.headers)
    return UntilClose() if length is None else Counted(length)


def body_of_request(head: RequestHead) -> Body:
    """The same for a request, which has no body unless it says so, and may not say so in two ways."""
    length = content_length(head.headers)
    if "transfer-encoding" not in head.headers:
        return Counted(length or 0)
    if length is not None:
        raise NotHttp("has two lengths")
    return _coded(head.headers["transfer-encoding"])


class Counted:
    """A body whose length is known."""

    ends_with_connection = False
    problem = ""

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0
        self.rest = b""

    def take(self, data: bytes) -> bytes:
        taken = data
        if len(data) > self._left:
            taken, self.rest = data[: self._left], data[self._left :]
        self._left -= len(taken)
        self.is_done = self._left == 0
        return taken


class UntilClose:
    """A body that goes on as long as the connection does."""

    ends_with_connection = True
    problem = ""

    def __init__(self) -> None:
        self.is_done = False
        self.rest = b""

    def take(self, data: bytes) -> bytes:
        return data


class Chunked:
    """A body in chunks; extensions and trailers are read over."""

    ends_with_connection = False

    def __init__(self) -> None:
        self.is_done = False
        self.rest = b""
        self.problem = ""
        self._begun = b""  # The beginning of a line whose end has not come.
        self._left = 0  # What the chunk still has, with the line end behind it.
        self._in_trailers = False
        self._trailer_bytes = 0

    def take(self, data: bytes) -> bytes:
        if self._begun:
            data, self._begun = self._begun + data, b""
        found: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_done and not self.problem:
            at = self._take_chunk(data, at, found) if self._left else self._take_line(data, at)
        self.rest = data[at:]
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
            self._begun = data[at:]
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


def _coded(codings: str) -> Chunked:
    if words(codings) == {"chunked"}:
        return Chunked()
    raise NotHttp(f"has the transfer-encoding {', '.join(sorted(words(codings)))}, which was not asked for")
