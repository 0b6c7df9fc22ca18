"""Printing values: JSON with a schema number, columns, colours where they are wanted."""

import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from inspan.protocol.wire import SCHEMA

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def print_json(**values: Any) -> None:
    """One JSON object on stdout, with the schema number first."""
    sys.stdout.write(msgspec.json.encode({"schema": SCHEMA, **values}).decode() + "\n")


def error_json(code: str, message: str, next_step: str) -> str:
    return msgspec.json.encode(
        {"schema": SCHEMA, "error": {"code": code, "message": message, "next": next_step}}
    ).decode()


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR and dumb terminals say no, FORCE_COLOR says yes, else a terminal decides."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, *, colour: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour else text


def columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A plain table: every column as wide as its widest cell."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    shape = "  ".join(f"%-{width}s" for width in widths[:-1]) + "  %s"
    return "\n".join([(shape % row).rstrip() for row in table])


def duration(seconds: float) -> str:
    """A length of time in two units at the most."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"
