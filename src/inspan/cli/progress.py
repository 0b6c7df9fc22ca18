"""A line at the bottom of the terminal that says how far long work is, and is gone when the work is done."""

import os
import sys
import time
from types import TracebackType
from typing import TextIO

from inspan.cli.output import format_size
from inspan.reporters.text import format_duration, one_line
from inspan.reporters.width import cut_to_width

_INTERVAL_S = 0.1
_ERASE = "\r\x1b[K"
_FALLBACK_COLUMNS = 80


class Progress:
    """Shows one line on stderr at a terminal, and nothing anywhere else; also not under CI or where TERM is dumb.

    Whoever prints something meanwhile calls `clear` first. Leaving the `with` erases the line.
    """

    def __init__(self, title: str, *, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = stream or sys.stderr
        self._wanted = wants_progress(self._stream)
        self._began = time.monotonic()
        self._last_s = 0.0
        self._shown = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, *facts: str, figure: str = "") -> None:
        """Puts these facts in the place of the last ones; those that follow each other too fast are left out.

        In a narrow terminal the facts make room for the figure, which says how far it is.
        """
        now = time.monotonic()
        if not self._wanted or (self._shown and now - self._last_s < _INTERVAL_S):
            return
        text = one_line(" · ".join([f"● {self._title}", *filter(None, facts)]))
        clock = "".join(f" · {each}" for each in (figure, format_duration(now - self._began)) if each)
        # These are what moves: in a narrow terminal the other words make room for them.
        room = max(1, _count_columns(self._stream) - 1)
        self._stream.write(_ERASE + cut_to_width(cut_to_width(text, max(1, room - len(clock))) + clock, room))
        self._stream.flush()
        self._last_s, self._shown = now, True

    def show_install(self, package: str, written_bytes: int) -> None:
        """How far an installer is, as `install` reports it."""
        self.show(package, figure=format_size(written_bytes) if written_bytes else "")

    def show_count(self, done: int, total: int = 0) -> None:
        """How many of them are done, where all that are there are counted already."""
        self.show(figure=f"{done} of {total}" if total else str(done))

    def clear(self) -> None:
        """Takes the line away, so that something else can stand there."""
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._shown = False


def wants_progress(stream: TextIO) -> bool:
    """Whether somebody looks at it: a terminal that can erase a line, and no CI, which would keep every one of them."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb") and not os.environ.get("CI")


def _count_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_COLUMNS
    except (OSError, ValueError):
        return _FALLBACK_COLUMNS
