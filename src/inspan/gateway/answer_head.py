"""The head of an HTTP/1.1 answer, read out of bytes. Strict about what it passes on, and pure."""

import re

import msgspec

LIMIT_BYTES = 64 * 1024
_END = re.compile(rb"\r?\n\r?\n")
# One pattern checks the whole head; parsing it with h11 takes eight times as long, which 200 streams at once feel.
_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [^\x00-\x08\x0a-\x1f\x7f]*)?"
    rb"((?:\r?\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*)*)"
)
_LENGTH = re.compile(r"\d{1,15}")


class NotHttp(Exception):
    """What came is no HTTP that could be passed on; the text says why, in words that follow "its answer"."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Header names are lower case; what stood there several times is joined with commas.

    `cookies` is apart, for it alone cannot be joined.
    """

    status: int
    headers: dict[str, str]
    cookies: tuple[str, ...] = ()
    is_modern: bool = True

    @property
    def is_final(self) -> bool:
        return self.status >= 200

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again after this answer, as far as the head knows."""
        wishes = words(self.headers.get("connection", ""))
        return "close" not in wishes if self.is_modern else "keep-alive" in wishes


def split_head(data: bytes) -> tuple[Head, bytes] | None:
    """The head and what follows it, or None as long as it is not whole; raises `NotHttp`."""
    end = _END.search(data)
    if end is None:
        if len(data) > LIMIT_BYTES or not b"HTTP/1.".startswith(data[:7]):
            raise NotHttp("is not HTTP/1.1" if len(data) <= LIMIT_BYTES else "has a head without an end")
        return None
    return _read(data[: end.start()]), data[end.end() :]


def words(value: str) -> set[str]:
    """The members of a list in a header, in lower case."""
    return {word.strip().lower() for word in value.split(",")} - {""}


def content_length(head: Head) -> int | None:
    """The length that the head states, if any; raises `NotHttp` when it contradicts itself."""
    stated = words(head.headers.get("content-length", ""))
    if not stated:
        return None
    length, *others = stated
    if others or not _LENGTH.fullmatch(length):
        raise NotHttp("has a content-length that is no number")
    return int(length)


def _read(data: bytes) -> Head:
    found = _HEAD.fullmatch(data)
    if found is None:
        raise NotHttp("is not HTTP/1.1")
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for line in found[3].decode("latin-1").split("\n")[1:]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t\r")
        if name == "set-cookie":
            cookies.append(value)
        else:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Head(status=int(found[2]), headers=headers, cookies=tuple(cookies), is_modern=found[1] == b"1")
