"""A terminal with a status line below what scrolls. It writes to nothing else: `LiveScreen` is for a terminal.

The cursor always stays where the text goes on, and the status stands one row below it. So a text that stays in its row
leaves the status alone, erasing is "from the cursor down" whatever a resize has done to the rows, and neither a crash
nor a job that is stopped leaves the cursor in the middle of a line.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from .left_edge import NAME, mark_rows, may_become_name
from .text import Style, apply_style, escape_controls, one_line
from .width import advance_column, cut_to_width, measure_width

Span = tuple[str, Style]
"""A piece of text and how it looks; a newline in it ends the line."""

ERASE_BELOW = "\x1b[J"
# Down and up again makes room for a row below without moving the column: a newline would. The cursor is saved there
# and restored after, since only the terminal knows on which row it is. No row is broken meanwhile: a terminal that has
# just become narrower would scroll, and the cursor come back to another text.
_TO_GLYPH, _RESTORE = "\x1b7\r\n", "\x1b8"
_NO_BREAK, _BREAK = "\x1b[?7l", "\x1b[?7h"
_TO_STATUS, _FROM_STATUS = f"\x1bD\x1b[A{_TO_GLYPH}{_NO_BREAK}", f"\x1b[K{_BREAK}{_RESTORE}"
_LEAST_S_BETWEEN_DRAWS = 0.2
_S_AFTER_RESIZE = 0.3
_LEAST_ROWS, _LEAST_COLUMNS = 3, 10


class LiveScreen:
    """Writes to a terminal; raises what the stream raises. `size` gives columns and rows, asked at each draw."""

    def __init__(
        self,
        stream: TextIO,
        *,
        colour: bool,
        size: Callable[[], tuple[int, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self.has_colours = colour
        self._ask_size = size
        self._clock = clock
        self._column = 0
        self._line_columns = 0
        self._row = ""
        self._written = False
        self._drawn: str = ""
        self._drawn_at = -1.0
        self._drawn_size: tuple[int, int] = (0, 0)
        self._out: list[str] = []
        self.columns: int
        self._rows: int
        self.columns, self._rows = size()

    @property
    def column(self) -> int:
        """How far the open line goes; 0 where none is open."""
        return self._column

    @property
    def is_clear(self) -> bool:
        """Whether nothing was written yet."""
        return not self._written

    @property
    def may_draw(self) -> bool:
        """Whether the last draw was long enough ago."""
        return not self.due_s

    @property
    def due_s(self) -> float:
        """How long until the next draw is allowed."""
        return max(0.0, self._drawn_at + _LEAST_S_BETWEEN_DRAWS - self._clock())

    @property
    def lacks_status(self) -> bool:
        """Whether there is none below the text now."""
        return not self._drawn

    def write(self, *spans: Span, theirs: bool = False) -> None:
        """Goes on in the open line; what others say (`theirs`) never looks like a line of ours."""
        for text, style in spans:
            if text:
                self._write(escape_controls(text).replace("\t", "    "), style, theirs=theirs)

    def write_line(self, *spans: Span) -> None:
        """Texts on a line of their own."""
        self.end_line()
        self.write(*spans)
        self._write("\n", "")

    def end_line(self) -> None:
        """Ends the line if one is open."""
        if self._column:
            self._write("\n", "")

    def retract(self, column: int) -> None:
        """Takes away what stands in the open line from this column on, which is not the first; no row but this one."""
        self._out.append(f"\r\x1b[{column}C\x1b[K")
        self._line_columns -= self._column - column
        self._column = column

    def draw(self, status: Iterable[Span]) -> None:
        """Shows a status below the text, in one row; nothing where it is there already or the row is full.

        A cursor behind the last column belongs to the next row already, and moving it would lose that.
        """
        spans = list(status)
        key, size = "".join(text for text, _ in spans), self._resize()
        if key == self._drawn and size == self._drawn_size:
            return
        if self._drawn and key[1:] == self._drawn[1:] and size == self._drawn_size and self._column < self.columns:
            self._draw_glyph(spans[0])
            self._drawn, self._drawn_at = key, self._clock()
            return
        stale = ERASE_BELOW if self._drawn and size != self._drawn_size else ""
        self._drawn_at = self._clock()
        if self._rows < _LEAST_ROWS or self.columns < _LEAST_COLUMNS or self._column >= self.columns:
            self._out.append(stale)
            self._drawn = "" if stale else self._drawn
            return
        self._out.append(stale + _TO_STATUS + self._fit(spans) + _FROM_STATUS)
        self._drawn, self._drawn_size = key, size

    def _draw_glyph(self, first: Span) -> None:
        """The row is there and its rest is as it should be: a glyph that turns need not cost a whole line each time."""
        self._out.append(_TO_GLYPH + self._paint(first[0][:1], first[1]) + _RESTORE)

    def erase(self) -> None:
        """Takes the status away; the next draw may come at once."""
        if self._drawn:
            self._out.append(ERASE_BELOW)
            self._drawn, self._drawn_at = "", -1.0

    def erase_at_once(self, write: Callable[[bytes], object]) -> None:
        """The same for a signal handler, past every buffer."""
        if self._drawn:
            self._drawn = ""
            write(ERASE_BELOW.encode())
        # A window that is dragged has many sizes, one after the other: the last of them is drawn for.
        self._drawn_at = self._clock() + _S_AFTER_RESIZE - _LEAST_S_BETWEEN_DRAWS

    def forget_status(self) -> None:
        """Somebody else has erased the status and may have moved the cursor: it stands in a row of its own now."""
        self._drawn, self._drawn_at, self._column, self._line_columns = "", -1.0, 0, 0

    def flush(self) -> None:
        """Lets the reader see it, in one write."""
        if self._out:
            text = "".join(self._out)
            self._out.clear()
            self._stream.write(text)
        self._stream.flush()

    def _write(self, text: str, style: Style, *, theirs: bool = False) -> None:
        marked, column = self._mark(text, theirs=theirs)
        stays = "\n" not in text and self._column + measure_width(marked) <= self.columns
        if self._drawn and not stays:
            self._out.append(ERASE_BELOW)
            self._drawn = ""
        self._out.append(self._paint(marked, style))
        self._written = True
        self._column = column
        _, restarted, last = marked.replace("\r", "\n").rpartition("\n")
        self._line_columns = measure_width(last) + (0 if restarted else self._line_columns)

    def _mark(self, text: str, *, theirs: bool) -> tuple[str, int]:
        """The text as it may be shown, and the column that it ends at."""
        begins_row = theirs and not self._column
        begun, self._row = self._row, ""
        row = begun + text if begun or begins_row else ""
        if row and may_become_name(row):
            self._row = row
        elif begun and row.lower().startswith(NAME):
            marked, column = mark_rows(row, column=0, columns=self.columns, at_edge=True)
            return f"\r{marked}", column
        if not begins_row and "\n" not in text and self._column + measure_width(text) <= self.columns:
            return text, self._column + measure_width(text)
        return mark_rows(text, column=self._column, columns=self.columns, at_edge=begins_row)

    def _paint(self, text: str, style: Style) -> str:
        # A style ends with its line, so that nothing of it is left where the terminal scrolls.
        if self.has_colours and style and "\n" in text:
            return "\n".join(apply_style(line, style if line else "", colour=True) for line in text.split("\n"))
        return apply_style(text, style, colour=self.has_colours)

    def _fit(self, spans: list[Span]) -> str:
        room, painted = self.columns - 1, ""
        for text, style in spans:
            cut = cut_to_width(one_line(text), room)
            room -= measure_width(cut)
            painted += self._paint(cut, style) if cut else ""
            if cut != text:
                break
        return painted

    def _resize(self) -> tuple[int, int]:
        size = self._ask_size()
        if size != (self.columns, self._rows):
            self.columns, self._rows = size
            # Most terminals break the open line anew; a row that gets wider takes back what was moved below it.
            self._column = advance_column(0, " " * self._line_columns, self.columns)
        return size


def read_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows of a terminal; of one that has hung up, the usual ones."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24
