"""Printing values: JSON with a schema number, columns, colours where they are wanted."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.protocol.wire import SCHEMA
from inspan.reporters.text import duration as duration
from inspan.reporters.text import styled as styled
from inspan.reporters.text import wants_colour as wants_colour


def print_json(**values: Any) -> None:
    """One JSON object on stdout, with the schema number first."""
    sys.stdout.write(msgspec.json.encode({"schema": SCHEMA, **values}).decode() + "\n")


def error_json(code: str, message: str, next_step: str) -> str:
    return msgspec.json.encode(
        {"schema": SCHEMA, "error": {"code": code, "message": message, "next": next_step}}
    ).decode()


def columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A plain table: every column as wide as its widest cell."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    shape = "  ".join(f"%-{width}s" for width in widths[:-1]) + "  %s"
    return "\n".join([(shape % row).rstrip() for row in table])
