"""Tables of Markdown in columns that fit the terminal: held until they end, so that nothing shown has to move.

A long one is laid out by its first rows, and goes on in the same columns. Cells are wrapped; where a column would get
too narrow to read, each row is a list of its cells instead.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from .live_screen import Span
from .text import escape_controls
from .width import character_width, measure_width

Cell = list[Span]
_Align = Literal["left", "right", "center"]
# At the left edge only lines of inspan begin with a glyph, which many a table has in its first column.
_INDENT, _GAP = "  ", "  "
_LEAST_COLUMNS = 10
_HELD_ROWS = 30
_ROW = re.compile(r" {0,3}\|")
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\s*(:?)-+(:?)\s*")
_TOKENS = re.compile(r" +|[^ ]+")


def may_be_row(line: str) -> bool:
    """Whether a line begins like a row of a table."""
    return _ROW.match(line) is not None


class TableStream:
    """Give it the lines that may be rows, and `end` it at the first that is none. `style` shows what a cell says."""

    def __init__(self, *, columns: Callable[[], int], style: Callable[[str], Cell]) -> None:
        self._columns = columns
        self._style = style
        self._lines: list[str] = []
        self._layout: _Layout | None = None

    @property
    def is_open(self) -> bool:
        """Whether there has been a row that may have another below it."""
        return bool(self._lines or self._layout)

    def add(self, line: str) -> Iterator[Span]:
        """One more line, without its end; gives what can be shown."""
        if self._layout:
            yield from self._layout.format_row(self._read_row(line))
            return
        self._lines.append(line)
        if len(self._lines) > _HELD_ROWS and self._is_table:
            yield from self._lay_out()

    def end(self, *, whole: bool = True) -> Iterator[Span]:
        """What was held: columns, or the lines as they were where they are no table. `whole`: the last line has an
        end."""
        if self._is_table:
            yield from self._lay_out()
        elif self._lines:
            *before, last = self._lines
            for line in before:
                yield from self._style(line)
                yield "\n", ""
            yield from self._style(last)
            yield "\n" if whole else "", ""
        self._lines, self._layout = [], None

    @property
    def _is_table(self) -> bool:
        return len(self._lines) > 1 and _read_rule(self._lines[1]) is not None

    def _lay_out(self) -> Iterator[Span]:
        head, rule, *rows = self._lines
        self._lines = []
        cells = [self._read_row(line) for line in (head, *rows)]
        self._layout = layout = _Layout(cells, aligns=_read_rule(rule) or [], columns=self._columns())
        yield from layout.format_head()
        for row in cells[1:]:
            yield from layout.format_row(row)

    def _read_row(self, line: str) -> list[Cell]:
        return [self._style(text) for text in _split_cells(line)]


class _Shape(NamedTuple):
    width: int
    align: _Align


class _Layout:
    """Columns for these rows, the first of which names them."""

    def __init__(self, rows: Sequence[Sequence[Cell]], *, aligns: Sequence[_Align], columns: int) -> None:
        self._head = rows[0]
        wanted = [max(_measure(row[at]) if at < len(row) else 0 for row in rows) for at in range(len(self._head))]
        room = columns - 1 - len(_INDENT) - len(_GAP) * (len(wanted) - 1)
        widths = _share(wanted, room)
        self._room = columns - 1 - len(_INDENT)
        self._shapes = [
            _Shape(width, aligns[at] if at < len(aligns) else "left") for at, width in enumerate(widths or ())
        ]

    def format_head(self) -> Iterator[Span]:
        """The names of the columns and a rule; nothing where each row names its cells."""
        if self._shapes:
            yield from self._format_columns([[(text, "bold") for text, _ in cell] for cell in self._head])
            yield _INDENT + _GAP.join("─" * shape.width for shape in self._shapes), "dim"
            yield "\n", ""

    def format_row(self, row: Sequence[Cell]) -> Iterator[Span]:
        """One row, which may take several lines."""
        cells = [*row[: len(self._head)], *([] for _ in range(len(self._head) - len(row)))]
        for cell in row[len(self._head) :]:
            cells[-1] = [*cells[-1], (" | ", ""), *cell]
        yield from self._format_columns(cells) if self._shapes else self._format_list(cells)

    def _format_columns(self, cells: Sequence[Cell]) -> Iterator[Span]:
        wrapped = [_wrap(cell, shape.width) for cell, shape in zip(cells, self._shapes, strict=True)]
        for number in range(max(map(len, wrapped))):
            yield _INDENT, ""
            for at, (lines, shape) in enumerate(zip(wrapped, self._shapes, strict=True)):
                yield from _pad(lines[number] if number < len(lines) else [], shape)
                yield _GAP if at < len(wrapped) - 1 else "", ""
            yield "\n", ""

    def _format_list(self, cells: Sequence[Cell]) -> Iterator[Span]:
        for name, cell in zip(self._head, cells, strict=True):
            label: Cell = [(text, "bold") for text, _ in name]
            for number, line in enumerate(_wrap([*label, (": ", "bold"), *cell], self._room - len(_GAP))):
                yield _INDENT + (_GAP if number else ""), ""
                yield from line
                yield "\n", ""
        yield "\n", ""


def _read_rule(line: str) -> list[_Align] | None:
    """How the columns below a rule are aligned; `None` where the line is no rule."""
    found = [_RULE.fullmatch(cell) for cell in _split_cells(line)]
    if not found or not all(found):
        return None
    return ["center" if all(each.groups()) else "right" if each[2] else "left" for each in found if each]


def _split_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [
        escape_controls(cell.strip().replace("\\|", "|")).replace("\t", " ") for cell in _BETWEEN_CELLS.split(inner)
    ]


def _share(wanted: Sequence[int], room: int) -> list[int] | None:
    """The width of each column: what it wants where that is little, an equal share of the rest for the others; `None`
    where that is too little to read."""
    widths, left, share = list(wanted), room, 0
    for count, at in zip(range(len(wanted), 0, -1), sorted(range(len(wanted)), key=wanted.__getitem__), strict=True):
        share = left // count
        widths[at] = max(1, min(wanted[at], share))
        left -= widths[at]
    too_narrow = any(width < min(want, _LEAST_COLUMNS) for width, want in zip(widths, wanted, strict=True))
    return None if too_narrow else widths


def _measure(cell: Cell) -> int:
    return sum(measure_width(text) for text, _ in cell)


def _pad(line: Cell, shape: _Shape) -> Iterator[Span]:
    room = shape.width - _measure(line)
    before = {"left": 0, "right": room, "center": room // 2}[shape.align]
    yield " " * before, ""
    yield from line
    yield " " * (room - before), ""


def _wrap(cell: Cell, width: int) -> list[Cell]:
    """The cell in lines of whole words; a word that is longer than a line is broken at its end."""
    lines: list[Cell] = [[]]
    used = 0
    for words, style in cell:
        for token in _TOKENS.findall(words):
            for piece in _break(token, width):
                if used and used + measure_width(piece) > width:
                    lines.append([])
                    used = 0
                if used or not piece.isspace():
                    lines[-1].append((piece, style))
                    used += measure_width(piece)
    return [line[:-1] if line and line[-1][0].isspace() else line for line in lines]


def _break(word: str, width: int) -> Iterator[str]:
    if measure_width(word) <= width:
        yield word
        return
    piece, used = "", 0
    for character in word:
        if used + character_width(character) > width and piece:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + character_width(character)
    yield piece
