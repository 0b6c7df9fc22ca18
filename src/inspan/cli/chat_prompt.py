"""A prompt that stays at the bottom while the session is shown above it: history, several lines, Esc."""

import asyncio
import sys
import termios
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from inspan.reporters.left_edge import mark_text
from inspan.reporters.width import find_width, measure_width

from .chat_input import PROMPT, Left, Line

_ANSWER_PROMPT = "? › "
_COLUMNS = 80


class RichInput:
    """What others want to do to the screen waits in one queue: while a line is typed it is done above the prompt."""

    is_interactive = True
    interrupt_key = "Esc"

    def __init__(self, history: str) -> None:
        self._interrupt: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._prompting = False
        self._drawing = False
        self._stopped = False
        self._mine = False
        self._open_row = ""
        self._question = ""
        self._begun_for: str | None = None
        keys = KeyBindings()
        keys.add("escape", "enter")(_insert_line)
        keys.add("escape")(self._on_escape)
        self._session: PromptSession[str] = PromptSession(
            self._format_prompt, history=FileHistory(history), key_bindings=keys, input=_Keys(sys.stdin)
        )
        self._session.default_buffer.on_text_changed += self._on_text_changed

    def read(self, *, interrupt: Callable[[], None]) -> Line:
        self._interrupt = interrupt
        with self._lock:
            if self._stopped:
                raise Left
            self._prompting = True
        try:
            text = self._session.prompt(pre_run=self._begin)
            return Line(text, self._question if self._begun_for is None else self._begun_for)
        except EOFError:
            raise Left from None
        finally:
            with self._lock:
                self._prompting, self._drawing, self._loop, self._begun_for = False, False, None, None
                self._work_off()

    def write(self, text: str) -> None:
        self._put(lambda: self._show(text))

    def set_turn(self, *, mine: bool) -> None:
        self._put(lambda: self._change_turn(mine))

    def expect(self, question: str) -> None:
        self._put(lambda: self._change_question(question))

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
        self._put(self._leave)

    def _begin(self) -> None:
        """The prompt is about to be shown."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._work_off_above)

    def _put(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(work)
            if not self._prompting:
                self._work_off()
            elif self._loop:
                with suppress(RuntimeError):  # It has just ended: `read` does the rest.
                    self._loop.call_soon_threadsafe(self._work_off_above)

    def _work_off_above(self) -> None:
        """What has come together is done together: each time, the prompt is taken away and drawn again."""
        if self._waiting and not self._drawing:
            self._drawing = True
            run_in_terminal(self._work_off)

    def _work_off(self) -> None:
        with self._lock:
            self._drawing = False
            while self._waiting:
                self._waiting.popleft()()
            sys.stdout.flush()

    def _show(self, text: str) -> None:
        """Gives out whole rows: the prompt is drawn below them, and would be drawn over an open one."""
        columns = find_width(sys.stdout) or _COLUMNS
        whole, newline, self._open_row = (self._open_row + text).rpartition("\n")
        while measure_width(self._open_row) > columns:
            row, self._open_row = _break_row(self._open_row, columns)
            whole, newline = f"{whole}{newline}{row}", "\n"
        sys.stdout.write(whole + newline)

    def _change_turn(self, mine: bool) -> None:
        self._mine = mine
        if mine and self._open_row:
            self._show("\n")

    def _change_question(self, question: str) -> None:
        if question and question != self._question and self._begun_for is None:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            clear_typeahead(self._session.input)
        self._question = question

    def _leave(self) -> None:
        app = self._session.app
        if self._prompting and app.is_running:
            app.exit(exception=EOFError())

    def _on_text_changed(self, buffer: Buffer) -> None:
        """Whatever is asked meanwhile, a line is for what was there when it was begun."""
        if not buffer.text:
            self._begun_for = None
        elif self._begun_for is None:
            self._begun_for = self._question

    def _format_prompt(self) -> str:
        question = self._question if self._begun_for is None else self._begun_for
        return _ANSWER_PROMPT if question else PROMPT if self._mine or self._begun_for is not None else ""

    def _on_escape(self, event: KeyPressEvent) -> None:
        self._interrupt()


class _Keys(Vt100Input):
    """Keys that stay keys while something is shown above the prompt: nobody else reads from this terminal then, and it
    would echo them, swallow a Ctrl-D and make a signal of Ctrl-C."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


def _break_row(text: str, columns: int) -> tuple[str, str]:
    """As many words as fit, and the rest; a word that is longer than a row is broken at its end."""
    end = len(text)
    while measure_width(text[:end]) > columns:
        space = text.rfind(" ", 0, end)
        end = space if space > 0 else end - 1
    return text[:end], mark_text(text[end:].removeprefix(" "))


def _insert_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
