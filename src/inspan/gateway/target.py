"""The target of a request, parsed once. What is passed on is written from that, never the bytes that came."""

import re
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+)+|/")
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
# Google's front ends take a method and headers out of fields that begin with a dollar sign.
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.\[\]-]*|\$alt")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
# What may stand in a path as it is, so that an encoded one means the same everywhere.
_PLAIN = re.compile(rb"[A-Za-z0-9_~!$&'()*+,=:@-]")
_SAFE_IN_QUERY = "!$'()*+,;:@/?[]"


class BadTarget(ValueError):
    """No target that could mean but one thing to everybody on the way; the text says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path without dot segments, empty segments and needless encodings; the fields of the query, decoded."""

    path: str
    fields: tuple[tuple[bytes, bytes | None], ...] = ()

    @property
    def query(self) -> str:
        return "&".join(_format_field(name, value) for name, value in self.fields)

    def __str__(self) -> str:
        return f"{self.path}?{self.query}" if self.fields else self.path


def parse_target(text: str) -> Target:
    """Takes the origin form alone: a path, perhaps with a query; raises `BadTarget`."""
    if "#" in text:
        raise BadTarget("it has a fragment")
    path, mark, query = text.partition("?")
    if not _PATH.fullmatch(path):
        raise BadTarget("its path is not a plain path")
    path = _ENCODED.sub(_decode_escape, path)
    if any(segment in (".", "..") for segment in path.split("/")):
        raise BadTarget("its path has dots for a segment")
    if not _QUERY.fullmatch(query):
        raise BadTarget("its query has characters that none may have")
    return Target(path, tuple(_parse_field(field) for field in query.split("&") if field) if mark else ())


def _decode_escape(found: re.Match[str]) -> str:
    byte = bytes.fromhex(found[0][1:])
    if not _PLAIN.fullmatch(byte):
        raise BadTarget(f"its path has {found[0]} in it")
    return byte.decode("ascii")


def _parse_field(field: str) -> tuple[bytes, bytes | None]:
    name, equals, value = field.partition("=")
    decoded = unquote_to_bytes(name)
    if not _NAME.fullmatch(decoded):
        raise BadTarget("its query has a field with a name that is not passed on")
    return decoded, unquote_to_bytes(value) if equals else None


def _format_field(name: bytes, value: bytes | None) -> str:
    written = quote_from_bytes(name, safe="$[]")
    return written if value is None else f"{written}={quote_from_bytes(value, safe=_SAFE_IN_QUERY)}"
