"""A stream that a person looks at: it knows whether a line is open, and it obeys nothing that an agent prints."""

from typing import TextIO

from .left_edge import mark_rows, may_become_name
from .prose import fit_words
from .text import Style, apply_style, escape_controls, wants_colour
from .width import find_width


class Screen:
    """Writes to a stream; to none where the process was started without. What the stream raises goes to the caller."""

    def __init__(self, stream: TextIO | None, *, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = colour if colour is not None else stream is not None and wants_colour(stream)
        self._column = 0
        self._held = ""

    def write_line(self, text: str, style: Style = "") -> None:
        """A text of ours on lines of its own; what others have put into it does not look like another."""
        self.end_line()
        marked, _ = mark_rows(escape_controls(text), column=0, columns=self._columns, at_edge=False)
        self._write_raw(apply_style(marked, style, colour=self._colour) + "\n")

    def write_words(self, text: str, style: Style = "") -> None:
        """The same, in lines of whole words."""
        self.write_line(text if self._stream is None else fit_words(text, self._stream), style)

    def write(self, text: str) -> None:
        """What others say, as it is but for rows that look like ours; the line stays open unless the text ends it."""
        rows, newline, row = (self._held + escape_controls(text)).rpartition("\n")
        begins_row = bool(newline) or not self._column
        self._held = row if begins_row and may_become_name(row) else ""
        self._show(rows + newline + ("" if self._held else row))

    def end_line(self) -> None:
        """Ends the line if one is open."""
        text, self._held = self._held, ""
        if self._column or text:
            self._show(f"{text}\n")

    def flush(self) -> None:
        """Lets the reader see it now."""
        if self._stream is not None:
            self._stream.flush()

    @property
    def _columns(self) -> int | None:
        return find_width(self._stream) if self._stream is not None else None

    def _show(self, text: str) -> None:
        if not text:
            return
        marked, self._column = mark_rows(text, column=self._column, columns=self._columns, at_edge=not self._column)
        self._write_raw(marked)

    def _write_raw(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            # A stream that is not UTF-8: what it cannot show is no fault.
            self._stream.write(text.encode(error.encoding, errors="backslashreplace").decode(error.encoding))
