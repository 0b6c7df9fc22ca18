"""Printing values: JSON with a schema number, columns, colours where they are wanted."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from inspan.errors import OutputRefused
from inspan.protocol.wire import SCHEMA
from inspan.reporters.text import apply_style as apply_style
from inspan.reporters.text import escape_json
from inspan.reporters.text import format_duration as format_duration
from inspan.reporters.text import one_line as one_line
from inspan.reporters.text import shorten_home as shorten_home
from inspan.reporters.text import wants_colour as wants_colour
from inspan.reporters.width import cut_middle, cut_to_width, measure_width, pad
from inspan.reporters.width import find_width as find_width

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def print_json(**values: Any) -> None:
    """One JSON object on stdout, with the schema number first."""
    text = msgspec.json.encode({"schema": SCHEMA, **values}).decode()
    sys.stdout.write((escape_json(text) if sys.stdout.isatty() else text) + "\n")


def add_run_id(error: OutputRefused, run_id: str) -> OutputRefused:
    """The same refusal for a command that starts or follows a run."""
    return OutputRefused(
        f"{error.message} Run {run_id} is not affected.",
        next_step=f"Follow it: `inspan logs -f {run_id}`.",
        is_closed=error.is_closed,
        run_id=run_id,
    )


def format_error_json(code: str, message: str, next_step: str) -> str:
    error = {"code": code, "message": message, "next": next_step}
    return escape_json(msgspec.json.encode({"schema": SCHEMA, "error": error}).decode())


def print_words(text: str, *, err: bool = False) -> None:
    """Sentences of ours; at a terminal in lines of whole words."""
    from inspan.reporters.prose import fit_words  # Start-up time: a run that prints JSON has none.

    stream = sys.stderr if err else sys.stdout
    if stream is not None:
        print(fit_words(text, stream), file=stream)


class Column(NamedTuple):
    """A column of a table, and what becomes of it where the terminal is too narrow.

    Its cells are shortened where it has a `cut`, down to `least` columns. Columns with a `drop` go, lowest first; an
    `extra` one goes as soon as anything would have to be cut. On a terminal too narrow for a table, those that `lead`
    are an entry's first line and the others its second, numbers with their head before them where they are `named`.
    """

    head: str
    cut: Literal["", "middle", "end"] = ""
    least: int = 0
    drop: int = 0
    extra: bool = False
    lead: bool = False
    named: bool = False


# Below this, an entry of a table takes two lines.
_TABLE_COLUMNS = 60
_GAP = "  "
_DOT = " · "
_CUTS: dict[str, Callable[[str, int], str]] = {"middle": cut_middle, "end": cut_to_width}


def format_table(columns: Sequence[Column], rows: Sequence[tuple[str, ...]], *, width: int | None) -> str:
    """A table that fits a terminal of so many columns; without a width, nothing is cut and nothing is left out."""
    if width is None:
        return format_columns(tuple(column.head for column in columns), rows)
    shown = [tuple(map(one_line, row)) for row in rows]
    if width < _TABLE_COLUMNS:
        lead = _GAP.join(column.head for column in columns if column.lead)
        return "\n".join([cut_to_width(lead, width), *(line for row in shown for line in _stack(columns, row, width))])
    table = [tuple(column.head for column in columns), *shown]
    widths = _fit(columns, [max(map(measure_width, cells)) for cells in zip(*table, strict=True)], width)
    return "\n".join(_format_line(columns, row, widths, width) for row in table)


def _fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> dict[int, int]:
    """The columns that are shown, by their places, and how wide each of them is."""
    widths = dict(enumerate(natural))
    if _sum_widths(widths.values()) > width:
        widths = {place: each for place, each in widths.items() if not columns[place].extra}
    for place in _order_drops(columns, widths):
        if _sum_widths(min(each, columns[at].least or each) for at, each in widths.items()) <= width:
            break
        del widths[place]
    for place in reversed(list(widths)):
        over = _sum_widths(widths.values()) - width
        if over > 0 and columns[place].cut:
            widths[place] = max(min(widths[place], columns[place].least), widths[place] - over)
    return widths


def _order_drops(columns: Sequence[Column], places: Iterable[int]) -> list[int]:
    return sorted((place for place in places if columns[place].drop), key=lambda place: columns[place].drop)


def _sum_widths(widths: Iterable[int]) -> int:
    every = list(widths)
    return sum(every) + len(_GAP) * (len(every) - 1)


def _format_line(columns: Sequence[Column], row: Sequence[str], widths: Mapping[int, int], width: int) -> str:
    cells = (pad(_cut(columns[place], row[place], each), each) for place, each in widths.items())
    return cut_to_width(_GAP.join(cells).rstrip(), width)


def _cut(column: Column, cell: str, width: int) -> str:
    return _CUTS[column.cut](cell, width) if column.cut else cell


def _stack(columns: Sequence[Column], row: Sequence[str], width: int) -> Iterator[str]:
    """One entry on two lines; of the second, columns are dropped until the others fit, and then those are cut."""
    yield cut_to_width(_GAP.join(cell for column, cell in zip(columns, row, strict=True) if column.lead), width)
    rest = {
        place: f"{column.head.lower()} {row[place]}" if column.named else row[place]
        for place, column in enumerate(columns)
        if not (column.lead or column.extra) and row[place] not in ("", "-")
    }
    room = width - len(_GAP)
    for place in _order_drops(columns, rest):
        if sum(_least(columns[at], cell) for at, cell in rest.items()) + len(_DOT) * (len(rest) - 1) <= room:
            break
        del rest[place]
    for place in reversed(list(rest)):
        over = sum(map(measure_width, rest.values())) + len(_DOT) * (len(rest) - 1) - room
        if over > 0 and columns[place].cut:
            least = _least(columns[place], rest[place])
            rest[place] = _cut(columns[place], rest[place], max(least, measure_width(rest[place]) - over))
    if rest:
        yield _GAP + cut_to_width(_DOT.join(rest.values()), room)


def _least(column: Column, cell: str) -> int:
    return min(measure_width(cell), column.least) if column.cut else measure_width(cell)


def format_size(count: int) -> str:
    """A number of bytes as a person reads it."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"


def format_columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A plain table: every column as wide as its widest cell. What a cell holds is shown, never obeyed."""
    table = [heads, *rows]
    *first, last = columns = list(zip(*table, strict=True))
    # By whole columns: a list of ten thousand runs has few of them.
    if not all((text := "".join(column)).isascii() and text.isprintable() for column in columns):
        table = [tuple(map(one_line, row)) for row in table]
        *first, last = zip(*table, strict=True)
    if any(map(_has_wide, first)):
        lines = map(_GAP.join, zip(*map(_pad_cells, first), last, strict=True))
    else:
        shape = _GAP.join([*(f"%-{max(map(len, column))}s" for column in first), "%s"])
        lines = map(shape.__mod__, table)
    return "\n".join(lines if all(last) else map(str.rstrip, lines))


def _has_wide(cells: Sequence[str]) -> bool:
    return not "".join(cells).isascii() and any(measure_width(cell) != len(cell) for cell in set(cells))


def _pad_cells(cells: Sequence[str]) -> Iterator[str]:
    width = max(map(measure_width, cells))
    return (pad(cell, width) for cell in cells)
