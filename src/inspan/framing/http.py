"""HTTP/1.1 messages out of bytes, for servers and clients. Strict: what could be understood in two ways is refused.

llhttp reads heads and chunks. What it lets pass is checked here: request and status lines, Host, sizes, transfer
encodings. Imports little, because a process that makes one call lives no longer than its imports take.
"""

import re
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

HEAD_LIMIT_BYTES = 64 * 1024
_LINE_END = b"\r\n"
_END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])\r\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n")
_VERSION_PREFIX = b"HTTP/1."
_HOST = re.compile(r"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]*")
_LENGTH = re.compile(r"\d{1,15}")
_NO_ANSWER_BODY = (204, 304)
_NOT_IN_TRAILERS = (b"transfer-encoding", b"content-length", b"host")
# Chunks of one byte have five bytes around each; what has more is a way to keep a reader busy.
_MAX_CHUNK_OVERHEAD = 16


class NotHttp(Exception):
    """What came is no HTTP that could be passed on; the text says why, in words that follow "its answer"."""


class RequestHead(NamedTuple):
    """Header names are lower case; what stood there several times is joined with commas."""

    method: str
    target: str
    headers: dict[str, str]
    is_http11: bool = True

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again after this exchange, as far as the head knows."""
        return _keeps_alive(self.headers, is_http11=self.is_http11)


class AnswerHead(NamedTuple):
    """As for a request; `cookies` are apart, for they alone cannot be joined."""

    status: int
    headers: dict[str, str]
    is_http11: bool = True
    cookies: tuple[str, ...] = ()

    @property
    def keeps_alive(self) -> bool:
        return _keeps_alive(self.headers, is_http11=self.is_http11)


def parse_list_header(value: str) -> set[str]:
    """The members of a list in a header, in lower case."""
    return {word.strip(" \t").lower() for word in value.split(",")} - {""}


def parse_content_length(headers: dict[str, str]) -> int | None:
    """The length that the headers state, if any; raises `NotHttp` for one that is not a plain number."""
    stated = headers.get("content-length")
    if stated is None:
        return None
    if not _LENGTH.fullmatch(stated):
        raise NotHttp("has a content-length that is not a number")
    return int(stated)


class RequestReader:
    """Reads one request: fed with bytes as they arrive, it gives those of the body.

    `head` is there as soon as it is whole. `rest` is what came after the end. `problem` says what is wrong with it.
    """

    def __init__(self) -> None:
        self.head: RequestHead | None = None
        self.is_done = False
        self.rest = b""
        self.problem = ""
        self.size = 0
        self._buffer = b""
        self._body: _SizedBody | _ChunkedBody | None = None

    @property
    def has_begun(self) -> bool:
        return self.head is not None or bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        try:
            if self.head is None:
                data = self._feed_head(data)
            return self._feed_body(data) if data else b""
        except NotHttp as error:
            self.problem = str(error)
            return b""

    def _feed_head(self, data: bytes) -> bytes:
        """What follows the head, once that is there. Empty lines before it are read over."""
        self._buffer += data
        while self._buffer.startswith(_LINE_END):
            self._buffer = self._buffer[len(_LINE_END) :]
        head, rest = _split_head(self._buffer)
        if head:
            self._buffer = b""
            self._read_head(head)
        return rest

    def _read_head(self, data: bytes) -> None:
        line = _REQUEST_LINE.match(data)
        if line is None:
            raise NotHttp("is not HTTP/1.1")
        fields = _Fields()
        parser = HttpRequestParser(fields)
        upgrades = _feed_parser(parser, data)
        is_modern = line[3] == b"1"
        headers = fields.headers
        if (is_modern and fields.hosts != 1) or fields.hosts > 1 or not _HOST.fullmatch(headers.get("host", "")):
            raise NotHttp("has not one host")
        length = parse_content_length(headers)
        is_chunked = _is_chunked(headers)
        if is_chunked and (upgrades or not is_modern):
            raise NotHttp("has chunks beside an upgrade, or in HTTP/1.0")
        if is_chunked:
            self._body = _ChunkedBody(parser, fields)
        elif length:
            self._body = _SizedBody(length)
        self.is_done = self._body is None
        self.head = RequestHead(line[1].decode("ascii"), line[2].decode("ascii"), headers, is_modern)

    def _feed_body(self, data: bytes) -> bytes:
        if self._body is None or self.is_done:
            self.rest += data
            return b""
        piece, self.rest = self._body.take_some(data)
        self.is_done, self.problem = self._body.is_done, self._body.problem
        self.size += len(piece)
        return piece


class AnswerReader:
    """The same for the answer to a request of this method; what only announces an answer is read over.

    `has_surplus`: more came than belongs to the answer. What came before a `problem` is still given.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self.head: AnswerHead | None = None
        self.is_done = False
        self.ends_with_connection = False
        self.has_surplus = False
        self.has_begun = False
        self.problem = ""
        self._buffer = b""
        self._body: _SizedBody | _ChunkedBody | None = None

    def feed(self, data: bytes) -> bytes:
        self.has_begun = True
        try:
            while data and self.head is None:
                data = self._feed_head(data)
            return self._feed_body(data) if data else b""
        except NotHttp as error:
            self.problem = str(error)
            return b""

    def feed_eof(self) -> None:
        """The connection has ended, and with it a body that has no other end."""
        self.is_done = self.is_done or self.ends_with_connection

    def _feed_head(self, data: bytes) -> bytes:
        self._buffer += data
        if not _VERSION_PREFIX.startswith(self._buffer[: len(_VERSION_PREFIX)]):
            raise NotHttp("is not HTTP/1.1")
        head, rest = _split_head(self._buffer)
        if head:
            self._buffer = b""
            self._read_head(head)
        return rest

    def _read_head(self, data: bytes) -> None:
        line = _STATUS_LINE.match(data)
        if line is None:
            raise NotHttp("is not HTTP/1.1")
        status = int(line[2])
        if status == 101:
            raise NotHttp("wants to speak another protocol")
        fields = _Fields()
        parser = HttpResponseParser(fields)
        _feed_parser(parser, data)
        if status < 200:
            return
        headers = fields.headers
        length, is_chunked = parse_content_length(headers), _is_chunked(headers)
        has_none = self._method == "HEAD" or status in _NO_ANSWER_BODY
        if self._method == "CONNECT" and status // 100 == 2:
            has_none = True
        elif is_chunked:
            self._body = None if has_none else _ChunkedBody(parser, fields)
        elif length is not None:
            self._body = _SizedBody(length) if length and not has_none else None
        else:
            self.ends_with_connection = not has_none
        self.is_done = self._body is None and not self.ends_with_connection
        self.head = AnswerHead(status, headers, line[1] == b"1", tuple(fields.cookies))

    def _feed_body(self, data: bytes) -> bytes:
        if self.ends_with_connection:
            return data
        if self._body is None or self.is_done:
            self.has_surplus = True
            return b""
        piece, self.has_surplus = self._body.take_all(data)
        self.is_done, self.problem = self._body.is_done, self._body.problem
        return piece


class _Fields:
    """What llhttp tells of one message."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.cookies: list[str] = []
        self.hosts = 0
        self.is_trailer = False
        self.pieces: list[bytes] = []
        self.is_complete = False
        self.has_surplus = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_trailer:
            if name.lower() in _NOT_IN_TRAILERS:
                raise NotHttp("has a trailer that belongs into its head")
            return
        key, text = name.decode("ascii").lower(), value.decode("latin-1").strip(" \t")
        if key == "set-cookie":
            self.cookies.append(text)
            return
        self.hosts += key == "host"
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.is_trailer = True

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_begin(self) -> None:
        self.has_surplus = self.is_complete

    def on_message_complete(self) -> None:
        self.is_complete = True


class _SizedBody:
    """A body whose length is known."""

    problem = ""

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = False

    def take_some(self, data: bytes) -> tuple[bytes, bytes]:
        """What belongs to the body, and what does not."""
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.is_done = self._left == 0
        return piece, data[len(piece) :]

    def take_all(self, data: bytes) -> tuple[bytes, bool]:
        piece, rest = self.take_some(data)
        return piece, bool(rest)


class _ChunkedBody:
    """A body in chunks, read by the parser that has read its head; extensions and trailers are read over."""

    def __init__(self, parser: HttpRequestParser | HttpResponseParser, fields: _Fields) -> None:
        self._parser = parser
        self._fields = fields
        self._tail = b""
        self._size = 0
        self._overhead = 0
        self.problem = ""

    @property
    def is_done(self) -> bool:
        return self._fields.is_complete

    def take_some(self, data: bytes) -> tuple[bytes, bytes]:
        """The parser cannot say where it stopped, but a message in chunks ends nowhere but behind an empty line."""
        found: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_done and not self.problem:
            end = (self._tail + data[at : at + len(_END)]).find(_END)
            ends_at = at + end + len(_END) - len(self._tail) if end >= 0 else _find_end(data, at)
            piece = data[at:ends_at]
            found.append(self.take_all(piece)[0])
            self._tail = (self._tail + piece[-3:])[-3:]
            at = ends_at
        return found[0] if len(found) == 1 else b"".join(found), data[at:]

    def take_all(self, data: bytes) -> tuple[bytes, bool]:
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self.problem = "" if self.is_done else f"has broken chunks: {_format_parser_error(error)}"
            self._fields.has_surplus = True
        pieces = self._fields.pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size += len(piece)
        self._overhead += len(data) - len(piece)
        if self._overhead > HEAD_LIMIT_BYTES + _MAX_CHUNK_OVERHEAD * self._size:
            self.problem = "has more around its chunks than in them"
        return piece, self._fields.has_surplus


def _find_end(data: bytes, at: int) -> int:
    end = data.find(_END, at)
    return len(data) if end < 0 else end + len(_END)


def _split_head(data: bytes) -> tuple[bytes, bytes]:
    """A head and what follows it; nothing as long as it is not whole."""
    end = data.find(_END) + len(_END)
    whole = end >= len(_END)
    if (end if whole else len(data)) > HEAD_LIMIT_BYTES:
        raise NotHttp("has a head without an end")
    return (data[:end], data[end:]) if whole else (b"", b"")


def _feed_parser(parser: HttpRequestParser | HttpResponseParser, head: bytes) -> bool:
    """Whether the message wants another protocol; llhttp reads no chunks after its head then."""
    try:
        parser.feed_data(head)
    except HttpParserUpgrade:
        return True
    except HttpParserError as error:
        raise NotHttp(f"is not HTTP/1.1: {_format_parser_error(error)}") from None
    return False


def _format_parser_error(error: HttpParserError) -> str:
    words = str(error).replace("`", "")
    return words[:1].lower() + words[1:]


def _is_chunked(headers: dict[str, str]) -> bool:
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    if coding.lower() != "chunked":
        raise NotHttp(f"has the transfer-encoding {coding!a}, which was not asked for")
    return True


def _keeps_alive(headers: dict[str, str], *, is_http11: bool) -> bool:
    if "connection" not in headers:
        return is_http11
    wishes = parse_list_header(headers["connection"])
    return "close" not in wishes if is_http11 else "keep-alive" in wishes
