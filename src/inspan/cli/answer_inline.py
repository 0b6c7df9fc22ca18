"""Asking the person at this terminal what the agent asks; anybody else may answer first."""

import os
import select
import sys
from collections.abc import Callable

import click

from inspan.folds.session import OpenQuestion, SessionFold
from inspan.protocol.commands import Answer
from inspan.protocol.events import Event, PermissionAsked
from inspan.reporters.text import one_line
from inspan.runs.control_client import ask_run
from inspan.stores.run_folder import RunFolder

_LOOK_S = 0.1
_LINE_BYTES = 64 * 1024
_CHOICES = {
    "y": Answer(id=""),
    "yes": Answer(id=""),
    "a": Answer(id="", always=True),
    "always": Answer(id="", always=True),
    "n": Answer(id="", allowed=False, reason="the user said no"),
    "no": Answer(id="", allowed=False, reason="the user said no"),
}


class InlineAnswers:
    """Hears the events of a run. What is still open once there is nothing more to hear is asked here, where this is a
    terminal: most of it is answered by a rule at once. It never waits for what is typed: the run may end meanwhile, or
    somebody else may answer.
    """

    def __init__(
        self, folder: RunFolder, *, before_asking: Callable[[], None] = lambda: None, present: bool = True
    ) -> None:
        self._folder = folder
        self._before_asking = before_asking
        self._fold = SessionFold()
        self._asked: set[str] = set()
        self._open: _OpenPrompt | None = None
        self._present = present and bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())

    @property
    def is_asking(self) -> bool:
        """Whether a question stands on the last line of the terminal."""
        return self._open is not None

    def choose_wait_s(self, usual: float) -> float:
        """How long to wait for a record before `ask` is called again."""
        return min(usual, _LOOK_S) if self._open else usual

    def hear(self, event: Event) -> None:
        """Takes an event in."""
        self._fold.add(event)

    def make_room(self) -> None:
        """Something is about to be shown: it begins on a line of its own, and the question is asked again below it."""
        if self._open and self._open.is_shown:
            self._open.is_shown = False
            sys.stderr.write("\n")
            sys.stderr.flush()

    def ask(self) -> None:
        """Asks what is open, each once, and sends the answers that were typed; does nothing without a terminal."""
        if not self._present:
            return
        if self._open and self._open.question.id not in self._fold.questions:
            self.make_room()  # Somebody else has answered, or nobody can any more.
            self._open = None
        if self._open is None:
            self._open = self._find_next()
        if self._open:
            self._take_answer(self._open)

    def _find_next(self) -> "_OpenPrompt | None":
        for identity, question in self._fold.questions.items():
            if identity not in self._asked:
                self._asked.add(identity)
                return _OpenPrompt(question)
        return None

    def _take_answer(self, prompt: "_OpenPrompt") -> None:
        if not prompt.is_shown:
            self._before_asking()
            prompt.show()
        if prompt.read():
            self._open = None
            self._send(prompt.answer)

    def _send(self, answer: Answer) -> None:
        reply = ask_run(self._folder.socket, answer)
        if reply and not reply.ok:
            click.echo(f"  ({reply.error})", err=True)


class _OpenPrompt:
    """A question on the terminal, and what was typed in answer to it so far."""

    def __init__(self, question: OpenQuestion) -> None:
        self.question = question
        self.is_shown = False
        self._is_new = True
        self._typed = b""
        self._lines: list[str] = []

    @property
    def answer(self) -> Answer:
        if isinstance(self.question, PermissionAsked):
            return build_permission_answer(self.question, self._lines[0])
        texts = [each.text for each in self.question.questions]
        return Answer(
            id=self.question.id, answers={text: line.strip() for text, line in zip(texts, self._lines, strict=True)}
        )

    def show(self) -> None:
        """Writes what is to be answered next; what was typed before the question was there is no answer to it."""
        if self._is_new:
            import termios  # Start-up time: few runs ask.

            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            self._is_new = False
        self.is_shown = True
        sys.stderr.write(self._prompts[len(self._lines)])
        sys.stderr.flush()

    def read(self) -> bool:
        """Takes in what was typed, without waiting for it; says whether all is answered."""
        while len(self._lines) < len(self._prompts) and select.select([sys.stdin], [], [], 0)[0]:
            typed = os.read(sys.stdin.fileno(), _LINE_BYTES)
            self._typed += typed
            if typed and not self._typed.endswith(b"\n"):
                continue
            self._lines.append(self._typed.decode(errors="replace").rstrip("\n"))
            self._typed = b""
            if len(self._lines) < len(self._prompts):
                self.show()
        return len(self._lines) == len(self._prompts)

    @property
    def _prompts(self) -> list[str]:
        if isinstance(self.question, PermissionAsked):
            return ["  allow? [y]es, [n]o and why, [a]lways: "]
        return [f"  {one_line(each.text)} " for each in self.question.questions]


def build_permission_answer(asked: PermissionAsked, line: str) -> Answer:
    """What a person typed, as an answer: `y`, `a`, `n` or `n` and a reason; anything else is a no with that reason.

    A yes is that word alone: a sentence that begins with `a` was meant for something else.
    """
    word, _, rest = line.strip().partition(" ")
    chosen = _CHOICES.get(word.lower())
    if chosen is None or (chosen.allowed and rest.strip()):
        return Answer(id=asked.id, allowed=False, reason=line.strip() or "the user said no")
    reason = rest.strip() or chosen.reason
    return Answer(id=asked.id, allowed=chosen.allowed, always=chosen.always, reason=reason)
