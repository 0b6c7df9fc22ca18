"""Asking the person at this terminal what the agent asks; anybody else may answer first."""

import sys
from collections.abc import Callable

import click

from inspan.folds.session import OpenQuestion, SessionFold
from inspan.protocol.commands import Answer
from inspan.protocol.events import Event, PermissionAsked
from inspan.reporters.text import one_line
from inspan.runs.control_client import ask_run
from inspan.stores.run_folder import RunFolder

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
    terminal: most of it is answered by a rule at once."""

    def __init__(self, folder: RunFolder, *, before_asking: Callable[[], None] = lambda: None) -> None:
        self._folder = folder
        self._before_asking = before_asking
        self._fold = SessionFold()
        self._asked: set[str] = set()
        self._present = bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())

    def hear(self, event: Event) -> None:
        """Takes an event in."""
        self._fold.add(event)

    def ask(self) -> None:
        """Asks what is open, each once, and sends the answers; does nothing without a terminal."""
        for identity, question in list(self._fold.questions.items()):
            if self._present and identity not in self._asked:
                self._asked.add(identity)
                self._before_asking()
                self._send(_ask_person(question))

    def _send(self, answer: Answer) -> None:
        reply = ask_run(self._folder.socket, answer)
        if reply and not reply.ok:
            click.echo(f"  ({reply.error})", err=True)


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


def _ask_person(question: OpenQuestion) -> Answer:
    if isinstance(question, PermissionAsked):
        return build_permission_answer(question, _read_line("  allow? [y]es, [n]o and why, [a]lways: "))
    answers = {each.text: _read_line(f"  {one_line(each.text)} ").strip() for each in question.questions}
    return Answer(id=question.id, answers=answers)


def _read_line(prompt: str) -> str:
    """What is typed from now on: what was typed before the question was there is no answer to it."""
    import termios  # Start-up time: few runs ask.

    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline()
