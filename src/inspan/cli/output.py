"""Printing values: JSON with a schema number, columns, colours where they are wanted."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.errors import OutputRefused
from inspan.protocol.wire import SCHEMA
from inspan.reporters.text import apply_style as apply_style
from inspan.reporters.text import format_duration as format_duration
from inspan.reporters.text import one_line as one_line
from inspan.reporters.text import wants_colour as wants_colour


def print_json(**values: Any) -> None:
    """One JSON object on stdout, with the schema number first."""
    sys.stdout.write(msgspec.json.encode({"schema": SCHEMA, **values}).decode() + "\n")


def add_run_id(error: OutputRefused, run_id: str) -> OutputRefused:
    """The same refusal for a command that starts or follows a run."""
    return OutputRefused(
        f"{error.message} Run {run_id} is not affected.",
        next_step=f"Follow it: `inspan logs -f {run_id}`.",
        is_closed=error.is_closed,
        run_id=run_id,
    )


def format_error_json(code: str, message: str, next_step: str) -> str:
    return msgspec.json.encode(
        {"schema": SCHEMA, "error": {"code": code, "message": message, "next": next_step}}
    ).decode()


def format_columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A plain table: every column as wide as its widest cell. What a cell holds is shown, never obeyed."""
    table = [heads, *(row if "".join(row).isprintable() else tuple(map(one_line, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    shape = "  ".join(f"%-{width}s" for width in widths[:-1]) + "  %s"
    return "\n".join([(shape % row).rstrip() for row in table])
