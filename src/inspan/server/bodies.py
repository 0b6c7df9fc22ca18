"""What a request carries, read no further than it may go, and decoded strictly: an error names the field."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS

from .problems import Refusal

LARGEST_BODY_BYTES = 1_000_000
# What anybody may send who has no token yet.
LARGEST_LOGIN_BYTES = 4096
BODY_TIMEOUT_S = 30.0
T = TypeVar("T")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


async def read_body(scope: Scope, receive: Receive, *, most: int = LARGEST_BODY_BYTES) -> bytes:
    """The whole body; refuses one that is too large without reading on, and one that does not come to its end."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise _too_large(most)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "bad_request", "The body broke off.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        raise Refusal(408, "body_timeout", f"The body did not come within {BODY_TIMEOUT_S:g} s.") from error


def parse_object(body: bytes, headers: Headers) -> dict[str, Any]:
    """The JSON object of a body; without a body an empty one."""
    if not body:
        return {}
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(
            415, "not_json", f"The body is {media_type or 'of no type'}.", next_step="Send `application/json`."
        )
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise Refusal(400, "bad_json", f"The body is not JSON: {error}.", next_step="Send one JSON object.") from error
    if not isinstance(value, dict):
        raise Refusal(400, "bad_json", "The body is not a JSON object.", next_step="Send one JSON object.")
    _refuse_nul(body)
    return value  # pyright: ignore[reportUnknownVariableType]  # Its keys are text, for it was JSON.


def parse_query(scope: Scope, params: type[msgspec.Struct], *, given: Mapping[str, str]) -> dict[str, Any]:
    """The query as the fields of `params`; `given` are those that stand in the path."""
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000
        )
    except ValueError as error:
        raise Refusal(400, "bad_input", "The query is no percent-encoded UTF-8.") from error
    many = {field.name for field in msgspec.structs.fields(params) if is_list(field.type)}
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in given:
            raise _refuse_field(name, value, "it stands in the path.")
        if "\0" in value or "\0" in name:
            raise _refuse_field(name, value, "it has a zero byte.")
        if name in many:
            # A kind of event has no comma: so several may stand in one word.
            values.setdefault(name, []).extend(value.split(",") if name == "kinds" else [value])
        elif name in values:
            raise _refuse_field(name, value, "it is given more than once.")
        else:
            values[name] = value
    return values


def is_list(kind: object) -> bool:
    """Whether a field takes a list, and so stands in a query once for each entry."""
    return get_origin(kind) in (tuple, list)


def decode(body: bytes, headers: Headers, kind: type[T]) -> T:
    """A body that is one value of ours; the refusal names the field that does not fit."""
    try:
        return msgspec.convert(parse_object(body, headers), know_type(kind))
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        field = place.removeprefix("$.").rstrip("`")
        raise _refuse_field(field, None, f"{problem[:1].lower()}{problem[1:]}.") from error


def _refuse_field(field: str, value: object, problem: str) -> Refusal:
    shown = f"{field}: " if field else ""
    return Refusal(400, "bad_input", f"{shown}{problem}", field=field or None, value=value)


def _refuse_nul(body: bytes) -> None:
    """No file and no program takes one, and each would refuse it in words of its own."""
    if _NUL.search(body):
        raise Refusal(400, "bad_input", "A text of the body has a zero byte.")


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        "body_too_large",
        f"A body has at most {most} bytes here.",
        next_step="Put what is larger into a file below a root, and name the file.",
    )
