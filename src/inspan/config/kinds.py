"""What a key may hold. A kind reads a value of a file and a text of a variable, and says in words what it takes."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from . import durations

_YES = {"true": True, "yes": True, "on": True, "1": True}
_NO = {"false": False, "no": False, "off": False, "0": False}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one shape.

    `read` turns a value of TOML into the setting, `parse` a text into a value of TOML, `spell` the setting back into
    a value of TOML. The first two raise `ValueError` with what is wrong.
    """

    words: str
    schema: Mapping[str, Any]
    read: Callable[[object], object]
    parse: Callable[[str], object] = str
    spell: Callable[[Any], object] = lambda value: value
    is_path: bool = False


def literal(text: str) -> object:
    """A value written as TOML; raises `ValueError`."""
    import tomllib  # Start-up time: most commands read no TOML.

    parsed = tomllib.loads(f"value = {text}\n")
    if parsed.keys() != {"value"}:
        raise ValueError("is more than one value.")
    return parsed["value"]


def choice(*names: str) -> Kind:
    """One of these words, or nothing."""
    *first, last = names

    def read(value: object) -> object:
        if value not in ("", *names):
            raise ValueError("is none of the words that it takes.")
        return value

    return Kind(words=f"{', '.join(first)} or {last}", schema={"enum": ["", *names]}, read=read)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text.")
    if not value.isprintable() and (odd := next(filter(_is_odd, value), "")):
        raise ValueError(f"holds the character {odd!r}, which has no use here.")
    return value


def _is_odd(character: str) -> bool:
    """Control characters, of use to neither a terminal nor a command line, and bytes that are not UTF-8."""
    code = ord(character)
    return (code < 32 and character not in "\n\t") or 127 <= code < 160 or 0xD800 <= code < 0xE000


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("is no list of texts.")
    return tuple(_text(each) for each in cast(list[object], value))


def _path(value: object) -> str:
    text = _text(value)
    if text and not text.startswith("~/") and not os.path.isabs(text):
        raise ValueError("is no absolute path.")
    return text


def _paths(value: object) -> tuple[str, ...]:
    return tuple(_path(each) for each in _texts(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false.")
    return value


def _service(value: object) -> str:
    text = _text(value)
    service, _, user = text.partition("/")
    if text and not (service and user):
        raise ValueError("does not name a service and a user.")
    return text


def _duration(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | float | int | None):
        raise ValueError("is no duration.")
    try:
        length = durations.seconds(value) if isinstance(value, str) else None if value is None else float(value)
    except (ValueError, OverflowError):
        raise ValueError("is no duration.") from None
    if length is not None and not 0 < length < float("inf"):
        raise ValueError("is no limit: it must be more than 0 seconds.")
    return length


def _count(value: object) -> int | None:
    if value == "off" or value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValueError("is no whole number from 1.")
    return value


def _number_or_text(text: str) -> object:
    """Numbers are written to a file as numbers."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else text


def _parsed_flag(text: str) -> bool:
    known = _YES | _NO
    if text.lower() not in known:
        raise ValueError("is neither true nor false.")
    return known[text.lower()]


def _parsed_texts(text: str) -> object:
    if text.lstrip().startswith("["):
        return literal(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _budget(value: object) -> str:
    from inspan.protocol.budget import parse_budget  # Start-up time: few files set a budget.

    text = _text(value)
    if text:
        parse_budget(text)
    return text


def _dollars(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError("is no number of dollars.")
    return float(value)


def _url(value: object) -> str:
    text = _text(value)
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("is no URL.")
    return text


_TEXT_SCHEMA = {"type": "string"}
_TEXTS_SCHEMA = {"type": "array", "items": _TEXT_SCHEMA}
_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": f"^(off|{durations.PATTERN})$"},
        {"type": "number", "exclusiveMinimum": 0},
    ]
}

TEXT = Kind(words="a text", schema=_TEXT_SCHEMA, read=_text)
TEXTS = Kind(words="a list of texts", schema=_TEXTS_SCHEMA, read=_texts, parse=_parsed_texts, spell=list)
PATH = Kind(words="an absolute path, or one below ~/", schema=_TEXT_SCHEMA, read=_path, is_path=True)
PATHS = Kind(
    words="a list of absolute paths",
    schema=_TEXTS_SCHEMA,
    read=_paths,
    parse=_parsed_texts,
    spell=list,
    is_path=True,
)
FLAG = Kind(words="true or false", schema={"type": "boolean"}, read=_flag, parse=_parsed_flag)
SERVICE = Kind(words='"service/user"', schema={"type": "string", "pattern": "^$|^[^/]+/.+$"}, read=_service)
DURATION = Kind(
    words=durations.WORDS,
    schema=_DURATION_SCHEMA,
    read=_duration,
    parse=_number_or_text,
    spell=durations.spelled,
)
BUDGET = Kind(
    words="limits such as 2usd, 200ktok, 50calls, 30min or 20usd/day, with commas between them",
    schema=_TEXT_SCHEMA,
    read=_budget,
)
DOLLARS = Kind(
    words="a number of dollars",
    schema={"type": "number", "minimum": 0},
    read=_dollars,
    parse=literal,
)
URL = Kind(words="a URL", schema=_TEXT_SCHEMA, read=_url)
COUNT = Kind(
    words="a whole number from 1, or off",
    schema={"anyOf": [{"const": "off"}, {"type": "integer", "minimum": 1}]},
    read=_count,
    parse=_number_or_text,
    spell=lambda value: "off" if value is None else value,
)
