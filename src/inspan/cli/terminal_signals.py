"""Signals at a terminal with a status line: a notice from a handler, a job that is stopped, a window that is resized.

Apart from the console, so that a handler has nothing left to import.
"""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from inspan.reporters.live_console import LiveConsole

# A process has one terminal: whoever else writes to it must know what stands there.
_on_terminal: "list[tuple[LiveConsole, TextIO]]" = []


@contextmanager
def held_terminal(console: "LiveConsole", stream: "TextIO") -> Generator[None]:
    """While it lasts, signals find the console's terminal clean, and leave it so."""
    entry = console, stream
    _on_terminal.append(entry)
    taken = [number for number in _HANDLERS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _HANDLERS[number])
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        _on_terminal.remove(entry)


def write_notice(notice: bytes) -> None:
    """Writes a line to stderr from a signal handler: past every buffer, and never into a status line."""
    if not _on_terminal:
        os.write(2, notice)
    for console, stream in _on_terminal:
        console.interject(partial(_write_below, stream, notice))


def _write_below(stream: "TextIO", notice: bytes = b"") -> None:
    from inspan.reporters.live_screen import ERASE_BELOW  # Start-up time: only at a terminal.

    with suppress(OSError):
        os.write(stream.fileno(), f"{ERASE_BELOW}\r\n".encode() + notice)


def _stop_job(number: int, frame: FrameType | None) -> None:
    for console, stream in _on_terminal:
        console.interject(partial(_stop_after_erasing, stream))


def _resize(number: int, frame: FrameType | None) -> None:
    for console, stream in _on_terminal:
        with suppress(OSError):
            console.take_resize(partial(os.write, stream.fileno()))


def _stop_after_erasing(stream: "TextIO") -> None:
    _write_below(stream)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, _stop_job)


_HANDLERS = {signal.SIGTSTP: _stop_job, signal.SIGWINCH: _resize}
