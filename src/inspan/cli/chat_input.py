"""Lines for a chat, and the screen that they are typed at: in plain lines here, with more in `chat_prompt.py`.

A prompt stands on a row of its own and only while it is the person's turn. A line answers a question only if it was
begun when the question stood on the screen: what was typed before was meant for something else.
"""

import os
import select
import sys
import termios
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from inspan.system.platform import open_pipe

PROMPT = "› "


class Left(Exception):
    """There are no more lines."""


class Line(NamedTuple):
    """What was typed; `answers` is the id of the question that was asked when it was begun, if one was."""

    text: str
    answers: str = ""


class ChatInput(Protocol):
    """Where lines come from and what the session says goes to; all but `read` may be called from any thread.

    `interrupt_key` is the one that interrupts a turn here.
    """

    is_interactive: bool
    interrupt_key: str

    def read(self, *, interrupt: Callable[[], None]) -> Line:
        """The next line; raises `Left` at the end, and `KeyboardInterrupt`. `interrupt` is called when the person wants
        the turn to end, in the middle of a line."""
        ...

    def write(self, text: str) -> None:
        """Shows what the session says, never behind a prompt."""
        ...

    def set_turn(self, *, mine: bool) -> None:
        """Whether it is the person's turn."""
        ...

    def expect(self, question: str) -> None:
        """All of a question has been written: lines that are begun from now on answer it; empty where none is open."""
        ...

    def stop(self) -> None:
        """Ends a `read` that waits."""
        ...


class PlainInput:
    """Lines of stdin, each as it comes; one that ends with a backslash goes on in the next."""

    # A terminal hands over whole lines: of its keys, only this one comes at once.
    interrupt_key = "Ctrl-C"

    def __init__(self) -> None:
        self.is_interactive = bool(sys.stdin and sys.stdin.isatty())
        # Who holds it may write, and knows that no line is being taken from the terminal.
        self._lock = threading.RLock()
        self._mine = False
        self._prompted = False
        self._line_open = False
        self._question = ""
        self._stopped, self._stop = open_pipe() if self.is_interactive else (-1, -1)

    def read(self, *, interrupt: Callable[[], None]) -> Line:
        with self._lock:
            self._show_prompt()
        text, answers = self._read_line()
        while text.endswith("\\"):
            with self._lock:
                self._put("  " if self.is_interactive else "")
                self._line_open = False
            text = text[:-1] + "\n" + self._read_line().text
        return Line(text, answers)

    def write(self, text: str) -> None:
        with self._lock:
            if self._prompted:
                self._put("\n")
                self._prompted = False
            self._put(text)
            self._line_open = not text.endswith("\n")
            self._show_prompt()

    def set_turn(self, *, mine: bool) -> None:
        with self._lock:
            self._mine = mine
            if self._line_open if mine else self._prompted:
                self._put("\n")
                self._line_open = self._prompted = False
            self._show_prompt()

    def expect(self, question: str) -> None:
        with self._lock:
            if question and question != self._question and self.is_interactive:
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
            self._question = question

    def stop(self) -> None:
        if self.is_interactive:
            os.write(self._stop, b".")

    def _show_prompt(self) -> None:
        if self.is_interactive and self._mine and not self._prompted and not self._line_open:
            self._put(PROMPT)
            self._prompted = True

    def _put(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _read_line(self) -> Line:
        while self.is_interactive:
            ready = select.select([sys.stdin, self._stopped], [], [])[0]
            if self._stopped in ready:
                raise Left
            with self._lock:
                # What made it ready may have been dropped meanwhile, for a question.
                if select.select([sys.stdin], [], [], 0)[0]:
                    return self._take_line()
        return self._take_line()

    def _take_line(self) -> Line:
        line = sys.stdin.readline() if sys.stdin else ""
        if not line:
            raise Left
        self._prompted = self._line_open = False
        return Line(line.rstrip("\n"), self._question)
