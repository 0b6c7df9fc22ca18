"""A terminal in memory: a command runs on a pty of some size, and its screen can be read, resized and typed at."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte

WAIT_S = 120.0
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def take_terminal(argv: Sequence[str]) -> list[str]:
    """The command behind one that makes its stdin the terminal of its session: keys are signals, closing it hangs up.

    A program of its own does it, and not a `preexec_fn`, which would run between the fork and the exec of a process
    with threads, and which tells nobody why it failed.
    """
    return [sys.executable, "-ISc", _TAKE_TERMINAL, *argv]


class _Screen(pyte.HistoryScreen):
    """Keeps the rows that the terminal itself has broken at its edge; those that end with a newline there are whole."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows, history=10_000, ratio=0.5)
        self.broken: list[str] = []
        self._draws = False

    def draw(self, data: str) -> None:
        self._draws = True
        try:
            super().draw(data)
        finally:
            self._draws = False

    def linefeed(self) -> None:
        if self._draws:
            self.broken.append(self.display[self.cursor.y])
        super().linefeed()


class EmulatedTerminal:
    """Starts a command as the leader of its own session, on a terminal of its own; a context manager, which ends it."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 24
    ) -> None:
        self.screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self._fd, theirs = pty.openpty()
        self.screen.write_process_input = lambda data: self.type_keys(data)  # Where the cursor is, for who asks.
        _set_size(theirs, columns, rows)
        try:
            self.process = subprocess.Popen(
                take_terminal(argv),
                cwd=cwd,
                env={"TERM": "xterm-256color", **env},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)

    @property
    def lines(self) -> list[str]:
        """The rows of the screen, without the blanks at their ends and the empty rows at the bottom."""
        return _strip_rows(self.screen.display)

    @property
    def scrolled(self) -> list[str]:
        """The same, with the rows before them that have scrolled out at the top."""
        columns = self.screen.columns
        above = ["".join(row[at].data for at in range(columns)).rstrip() for row in self.screen.history.top]
        return _strip_rows([*above, *self.screen.display])

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.scrolled)

    @property
    def broken(self) -> list[str]:
        """The rows with several words that the terminal has broken; one word may be wider than it, as a path is."""
        rows = (row.strip() for row in self.screen.broken)
        return [row for row in rows if " " in row and not row.startswith("`")]

    def wait_for(self, is_there: Callable[[], object], what: str) -> None:
        """Reads until the screen is as it should be; a generous time that a healthy machine never needs."""
        deadline = time.monotonic() + WAIT_S
        while not is_there():
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {WAIT_S:g} s:\n{self.text}")
            if not self._read(0.05) and self.process.poll() is not None and not self._read(0.05):
                if is_there():
                    return
                raise AssertionError(f"no {what} before the command ended:\n{self.text}")

    def wait_for_text(self, words: str) -> None:
        """Until these words stand on the screen, or have scrolled away."""
        self.wait_for(lambda: words in self.text, repr(words))

    def wait_for_end(self) -> int:
        """Until the command has ended and all that it wrote is on the screen; gives its exit code."""
        deadline = time.monotonic() + WAIT_S
        while self.process.poll() is None or self._read(0.05):
            self._read(0.05)
            assert time.monotonic() < deadline, f"it does not end:\n{self.text}"
        return self.process.returncode

    def type_keys(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """As a person drags the window: the program is told by its signal."""
        self._keep_cursor_in_view(rows)
        self.screen.resize(rows, columns)
        _set_size(self._fd, columns, rows)

    def _keep_cursor_in_view(self, rows: int) -> None:
        """A terminal that gets lower loses rows below its cursor first; pyte takes them all from the top."""
        screen, gone = self.screen, max(0, self.screen.lines - rows)
        above = min(gone, max(0, screen.cursor.y - rows + 1))
        row, column = screen.cursor.y, screen.cursor.x
        screen.cursor_position(1, 1)
        if gone > above:
            screen.insert_lines(gone - above)
        screen.cursor_position(row - above + 1, column + 1)

    def hang_up(self) -> None:
        """As a person closes the window."""
        os.close(self._fd)
        self._fd = -1

    def _read(self, timeout_s: float) -> bool:
        """Feeds what there is to the screen; says whether there was something."""
        if self._fd < 0 or not select.select([self._fd], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # So ends a terminal whose last writer has left.
            return False
        self.written += data
        self._stream.feed(data)
        return bool(data)

    def __enter__(self) -> "EmulatedTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self._fd >= 0:
            os.close(self._fd)


def _set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _strip_rows(rows: Sequence[str]) -> list[str]:
    kept = [row.rstrip() for row in rows]
    while kept and not kept[-1]:
        kept.pop()
    return kept
