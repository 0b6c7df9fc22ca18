"""The heads of HTTP/1.1 messages, read out of bytes. Strict about what could be understood in two ways, and pure."""

import re
from collections.abc import Mapping

import msgspec

LIMIT_BYTES = 64 * 1024
_END = re.compile(rb"\r?\n\r?\n")
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_LINES = rb"((?:\r?\n" + _TOKEN + rb":" + _TEXT + rb")*)"
# One pattern checks a whole head. A parser that looks at each header takes eight times as long, for every call.
_ANSWER = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: " + _TEXT + rb")?" + _LINES)
_REQUEST = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])" + _LINES)
_LENGTH = re.compile(r"\d{1,15}")


class NotHttp(Exception):
    """What came is no HTTP that could be passed on; the text says why, in words that follow "its answer"."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Header names are lower case; what stood there several times is joined with commas."""

    headers: dict[str, str]
    is_modern: bool = True

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again after this exchange, as far as the head knows."""
        if "connection" not in self.headers:
            return self.is_modern
        wishes = words(self.headers["connection"])
        return "close" not in wishes if self.is_modern else "keep-alive" in wishes


class AnswerHead(Head, frozen=True, kw_only=True):
    """`cookies` are apart, for they alone cannot be joined."""

    status: int
    cookies: tuple[str, ...] = ()


class RequestHead(Head, frozen=True, kw_only=True):
    method: str
    target: str


def split_answer(data: bytes) -> tuple[AnswerHead, bytes] | None:
    """The head of an answer and what follows it, or None as long as it is not whole; raises `NotHttp`."""
    end = _END.search(data)
    if end is None:
        if not b"HTTP/1.".startswith(data[:7]):
            raise NotHttp("is not HTTP/1.1")
        return _not_yet(data)
    found = _ANSWER.fullmatch(data, 0, end.start())
    if found is None:
        raise NotHttp("is not HTTP/1.1")
    cookies: list[str] = []
    headers = _headers(found[3], cookies)
    head = AnswerHead(status=int(found[2]), headers=headers, cookies=tuple(cookies), is_modern=found[1] == b"1")
    return head, data[end.end() :]


def split_request(data: bytes) -> tuple[RequestHead, bytes] | None:
    """The same for a request; empty lines before it are read over."""
    data = data.lstrip(b"\r\n")
    end = _END.search(data)
    if end is None:
        return _not_yet(data)
    found = _REQUEST.fullmatch(data, 0, end.start())
    if found is None:
        raise NotHttp("is not HTTP/1.1")
    head = RequestHead(
        method=found[1].decode("ascii"),
        target=found[2].decode("ascii"),
        headers=_headers(found[4], []),
        is_modern=found[3] == b"1",
    )
    return head, data[end.end() :]


def words(value: str) -> set[str]:
    """The members of a list in a header, in lower case."""
    return {word.strip().lower() for word in value.split(",")} - {""}


def content_length(headers: Mapping[str, str]) -> int | None:
    """The length that the headers state, if any; raises `NotHttp` when they contradict themselves."""
    stated = headers.get("content-length")
    if stated is None:
        return None
    length, *others = words(stated) or ("",)
    if others or not _LENGTH.fullmatch(length):
        raise NotHttp("has a content-length that is no number")
    return int(length)


def _not_yet(data: bytes) -> None:
    if len(data) > LIMIT_BYTES:
        raise NotHttp("has a head without an end")


def _headers(lines: bytes, cookies: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines.decode("latin-1").split("\n")[1:]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t\r")
        if name == "set-cookie":
            cookies.append(value)
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
