"""A stream that a person looks at: it knows whether a line is open, and it obeys nothing that an agent prints."""

from typing import TextIO

from .text import Style, apply_style, escape_controls, wants_colour


class Screen:
    """Writes to a stream; to none where the process was started without. What the stream raises goes to the caller."""

    def __init__(self, stream: TextIO | None, *, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = colour if colour is not None else stream is not None and wants_colour(stream)
        self._line_open = False

    def write_line(self, text: str, style: Style = "") -> None:
        """A text on lines of its own."""
        self.end_line()
        self._write_raw(apply_style(escape_controls(text), style, colour=self._colour) + "\n")

    def write(self, text: str) -> None:
        """A text as it is; the line stays open unless the text ends it."""
        if text:
            self._write_raw(escape_controls(text))
            self._line_open = not text.endswith("\n")

    def end_line(self) -> None:
        """Ends the line if one is open."""
        if self._line_open:
            self._write_raw("\n")
            self._line_open = False

    def flush(self) -> None:
        """Lets the reader see it now."""
        if self._stream is not None:
            self._stream.flush()

    def _write_raw(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            # A stream that is not UTF-8: what it cannot show is no fault.
            self._stream.write(text.encode(error.encoding, errors="backslashreplace").decode(error.encoding))
