"""Lines for a chat: with history and several lines at a terminal that can do more, else as they come."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent

_PROMPT = "› "


class Left(Exception):
    """There are no more lines."""


class ChatInput(Protocol):
    """Where lines come from. `interrupt` is called when the person wants the turn to end, in the middle of a line.

    `interrupt_key` is the one that does so here.
    """

    is_interactive: bool
    interrupt_key: str

    def read(self, *, interrupt: Callable[[], None]) -> str:
        """The next line; raises `Left` at the end, and `KeyboardInterrupt`."""
        ...

    def stop(self) -> None:
        """Ends a `read` that waits, where that is possible; from another thread."""
        ...


class PlainInput:
    """Lines of stdin, each as it comes; one that ends with a backslash goes on in the next."""

    # A terminal hands over whole lines: of its keys, only this one comes at once.
    interrupt_key = "Ctrl-C"

    def __init__(self) -> None:
        self.is_interactive = bool(sys.stdin and sys.stdin.isatty())

    def read(self, *, interrupt: Callable[[], None]) -> str:
        text = self._read_line(_PROMPT)
        while text.endswith("\\"):
            text = text[:-1] + "\n" + self._read_line("  ")
        return text

    def stop(self) -> None:
        if self.is_interactive:
            sys.stdout.write("the session has ended: press Enter\n")
            sys.stdout.flush()

    def _read_line(self, prompt: str) -> str:
        if self.is_interactive:
            sys.stdout.write(prompt)
            sys.stdout.flush()
        line = sys.stdin.readline() if sys.stdin else ""
        if not line:
            raise Left
        return line.rstrip("\n")


class RichInput:
    """A prompt that stays at the bottom while the session is shown above it: history, several lines, Esc."""

    is_interactive = True
    interrupt_key = "Esc"

    def __init__(self, history: str) -> None:
        # Start-up time: only a chat needs it, and it may not be installed.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings

        self._interrupt: Callable[[], None] = lambda: None
        keys = KeyBindings()
        keys.add("escape", "enter")(_insert_line)
        keys.add("escape")(self._on_escape)
        self._session: PromptSession[str] = PromptSession(_PROMPT, history=FileHistory(history), key_bindings=keys)

    def _on_escape(self, event: "KeyPressEvent") -> None:
        self._interrupt()

    def read(self, *, interrupt: Callable[[], None]) -> str:
        from prompt_toolkit.patch_stdout import patch_stdout  # Start-up time, as above.

        self._interrupt = interrupt
        try:
            with patch_stdout(raw=True):
                return self._session.prompt()
        except EOFError:
            raise Left from None

    def stop(self) -> None:
        app: Any = self._session.app
        loop = app.loop
        if loop:
            with suppress(RuntimeError):  # It has ended meanwhile.
                loop.call_soon_threadsafe(lambda: app.exit(exception=EOFError()) if app.is_running else None)


def _insert_line(event: "KeyPressEvent") -> None:
    event.current_buffer.insert_text("\n")


def choose_input(history: str) -> ChatInput:
    """What this terminal can do; a dumb one, and a pipe, get plain lines."""
    plain = PlainInput()
    if not plain.is_interactive or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return plain
    try:
        return RichInput(history)
    except ImportError:
        return plain
