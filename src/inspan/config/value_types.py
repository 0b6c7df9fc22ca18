"""What a key may hold. A kind reads a value of a file and a text of a variable, and says in words what it takes."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from . import durations, sizes

_YES = {"true": True, "yes": True, "on": True, "1": True}
_NO = {"false": False, "no": False, "off": False, "0": False}


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one shape.

    `read` turns a value of TOML into the setting, `parse` a text into a value of TOML, `to_toml` the setting back into
    a value of TOML. The first two raise `ValueError` with what is wrong.
    """

    description: str
    schema: Mapping[str, Any]
    read: Callable[[object], object]
    parse: Callable[[str], object] = str
    to_toml: Callable[[Any], object] = lambda value: value
    is_path: bool = False


def parse_literal(text: str) -> object:
    """A value written as TOML; raises `ValueError`."""
    import tomllib  # Start-up time: most commands read no TOML.

    parsed = tomllib.loads(f"value = {text}\n")
    if parsed.keys() != {"value"}:
        raise ValueError("is more than one value.")
    return parsed["value"]


def choice_type(*names: str) -> ValueType:
    """One of these words, or nothing."""
    *first, last = names

    def read(value: object) -> object:
        if value not in ("", *names):
            raise ValueError("is none of the words that it takes.")
        return value

    return ValueType(description=f"{', '.join(first)} or {last}", schema={"enum": ["", *names]}, read=read)


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text.")
    if not value.isprintable() and (odd := next(filter(_is_control_character, value), "")):
        raise ValueError(f"contains the character {odd!r}, which has no use here.")
    return value


def _is_control_character(character: str) -> bool:
    """Control characters, of use to neither a terminal nor a command line, and bytes that are not UTF-8."""
    code = ord(character)
    return (code < 32 and character not in "\n\t") or 127 <= code < 160 or 0xD800 <= code < 0xE000


def _read_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("is not a list of texts.")
    return tuple(_read_text(each) for each in cast(list[object], value))


def _read_path(value: object) -> str:
    text = _read_text(value)
    if text and not text.startswith("~/") and not os.path.isabs(text):
        raise ValueError("is not an absolute path.")
    return text


def _read_paths(value: object) -> tuple[str, ...]:
    return tuple(_read_path(each) for each in _read_texts(value))


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false.")
    return value


def _read_service(value: object) -> str:
    text = _read_text(value)
    service, _, user = text.partition("/")
    if text and not (service and user):
        raise ValueError("does not name a service and a user.")
    return text


def _read_duration(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | float | int | None):
        raise ValueError("is not a duration.")
    try:
        length = durations.parse_duration(value) if isinstance(value, str) else None if value is None else float(value)
    except (ValueError, OverflowError):
        raise ValueError("is not a duration.") from None
    if length is not None and not 0 < length < float("inf"):
        raise ValueError("is not a limit: it must be more than 0 seconds.")
    return length


def _read_durations(value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("is not a list of durations.")
    found = [_read_duration(each) for each in cast(list[object], value)]
    if any(each is None for each in found):
        raise ValueError("holds what is no duration.")
    return tuple(each for each in found if each is not None)


def _read_size(value: object) -> int | None:
    try:
        size = sizes.parse_size(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("is not a size.") from None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 2**63):
        raise ValueError("is not a size.")
    return size


def _read_processors(value: object) -> float | None:
    if value == "off" or value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise ValueError("is not a number of processors.")
    return float(value)


def _read_network(value: object) -> str:
    from inspan.protocol.network import parse_network  # Start-up time: few files say so.

    text = _read_text(value)
    if text:
        parse_network(text)
    return text


def _read_count(value: object) -> int | None:
    if value == "off" or value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValueError("is not a whole number from 1.")
    return value


def _parse_number_or_text(text: str) -> object:
    """Numbers are written to a file as numbers."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else text


def _parse_flag(text: str) -> bool:
    known = _YES | _NO
    if text.lower() not in known:
        raise ValueError("is neither true nor false.")
    return known[text.lower()]


def _parse_texts(text: str) -> object:
    if text.lstrip().startswith("["):
        return parse_literal(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _read_budget(value: object) -> str:
    from inspan.protocol.budget import parse_budget  # Start-up time: few files set a budget.

    text = _read_text(value)
    if text:
        parse_budget(text)
    return text


def _read_dollars(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError("is not a number of dollars.")
    return float(value)


def _read_url(value: object) -> str:
    text = _read_text(value)
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("is not a URL.")
    return text


_TEXT_SCHEMA = {"type": "string"}
_TEXTS_SCHEMA = {"type": "array", "items": _TEXT_SCHEMA}
_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": f"^(off|{durations.PATTERN})$"},
        {"type": "number", "exclusiveMinimum": 0},
    ]
}

TEXT = ValueType(description="a text", schema=_TEXT_SCHEMA, read=_read_text)
TEXTS = ValueType(
    description="a list of texts", schema=_TEXTS_SCHEMA, read=_read_texts, parse=_parse_texts, to_toml=list
)
PATH = ValueType(description="an absolute path, or one below ~/", schema=_TEXT_SCHEMA, read=_read_path, is_path=True)
PATHS = ValueType(
    description="a list of absolute paths",
    schema=_TEXTS_SCHEMA,
    read=_read_paths,
    parse=_parse_texts,
    to_toml=list,
    is_path=True,
)
FLAG = ValueType(description="true or false", schema={"type": "boolean"}, read=_read_flag, parse=_parse_flag)
SERVICE = ValueType(
    description='"service/user"', schema={"type": "string", "pattern": "^$|^[^/]+/.+$"}, read=_read_service
)
DURATION = ValueType(
    description=durations.EXAMPLES,
    schema=_DURATION_SCHEMA,
    read=_read_duration,
    parse=_parse_number_or_text,
    to_toml=durations.format_duration,
)
DURATIONS = ValueType(
    description='a list of durations, as ["30s", "5m"]',
    schema={"type": "array", "items": _DURATION_SCHEMA},
    read=_read_durations,
    parse=_parse_texts,
    to_toml=lambda value: [durations.format_duration(each) for each in value],
)
SIZE = ValueType(
    description=sizes.EXAMPLES,
    schema={
        "anyOf": [
            {"type": "string", "pattern": f"^(off|{sizes.PATTERN})$"},
            {"type": "integer", "exclusiveMinimum": 0},
        ]
    },
    read=_read_size,
    parse=_parse_number_or_text,
    to_toml=sizes.format_size,
)
PROCESSORS = ValueType(
    description="a number of processors such as 2 or 0.5, or off",
    schema={"anyOf": [{"const": "off"}, {"type": "number", "exclusiveMinimum": 0}]},
    read=_read_processors,
    parse=lambda text: text if text == "off" else parse_literal(text),
    to_toml=lambda value: "off" if value is None else value,
)
NETWORK = ValueType(description="none, gateway, open or allow=HOST,…", schema=_TEXT_SCHEMA, read=_read_network)
BUDGET = ValueType(
    description="limits such as 2usd, 200ktok, 50calls, 30min or 20usd/day, with commas between them",
    schema=_TEXT_SCHEMA,
    read=_read_budget,
)
DOLLARS = ValueType(
    description="a number of dollars",
    schema={"type": "number", "minimum": 0},
    read=_read_dollars,
    parse=parse_literal,
)
URL = ValueType(description="a URL", schema=_TEXT_SCHEMA, read=_read_url)
COUNT = ValueType(
    description="a whole number from 1, or off",
    schema={"anyOf": [{"const": "off"}, {"type": "integer", "minimum": 1}]},
    read=_read_count,
    parse=_parse_number_or_text,
    to_toml=lambda value: "off" if value is None else value,
)
