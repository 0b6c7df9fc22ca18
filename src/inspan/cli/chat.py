"""A conversation in the terminal: what is typed goes to the session, what happens there is shown as it comes."""

import io
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable

from inspan.errors import InspanError
from inspan.folds.session import OpenQuestion, SessionFold
from inspan.folds.summary import Summary
from inspan.protocol.commands import Answer, CloseSession, Command, Configure, Interrupt, SendMessage
from inspan.protocol.events import (
    MessageEnded,
    MessageSent,
    PermissionAsked,
    RunEnded,
)
from inspan.protocol.reasons import REASONS
from inspan.protocol.wire import Record
from inspan.reporters.costs import format_cost, format_count
from inspan.runs.control_client import command_session
from inspan.runs.follow import follow
from inspan.stores.run_folder import RunFolder

from .answer_inline import build_permission_answer
from .chat_input import ChatInput, Left, Line
from .console import Console

_HELP = """\
/diff           what was changed so far
/cost           what was used so far
/model NAME     another model from the next message on
/stop           interrupt the turn; {key} does the same
/quit           close the session; so do Ctrl-D, and Ctrl-C twice
//TEXT          a message that begins with a slash
A line that ends with \\ goes on in the next one."""
_AGAIN_S = 2.0


class Chat:
    """Reads lines and follows the session beside that, until one of them ends."""

    def __init__(self, state: str, folder: RunFolder, given: ChatInput) -> None:
        self._state = state
        self._folder = folder
        self._input = given
        self._console = Console(_Shown(given), live=False)
        self._summary = Summary()
        self._fold = SessionFold()
        self._changed = threading.Condition()
        self._own: set[str] = set()
        self._answered: set[str] = set()
        self._running: set[str] = set()
        self._code = 0
        self._ended = False
        self._closing = False
        self._interrupted_at = 0.0
        self._commands: dict[str, Callable[[str], object]] = {
            "help": lambda rest: self._print(_HELP.format(key=self._input.interrupt_key)),
            "diff": lambda rest: self._show_diff(),
            "cost": lambda rest: self._print(_describe_cost(self._summary)),
            "model": self._set_model,
            "stop": lambda rest: self._send(Interrupt()),
        }

    def run(self, *, after: int = 0) -> int:
        """Until the session is closed or left; gives the exit code of the last message."""
        follower = threading.Thread(target=self._follow, args=(after,), name="inspan-chat", daemon=True)
        follower.start()
        self._read_lines()
        if self._input.is_interactive:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # It leaves already, and has yet to say how to go on.
        self._close()
        follower.join(timeout=10.0)
        return self._code

    def _read_lines(self) -> None:
        while not self._ended:
            try:
                if self._take(self._input.read(interrupt=self._interrupt_turn)):
                    return
                if not self._input.is_interactive:
                    self._wait_for_turn()
            except Left:
                return
            except KeyboardInterrupt:
                try:
                    if self._leaves_now():
                        return
                except KeyboardInterrupt:
                    return  # It came while the one before it was still being told of.

    def _take(self, line: Line) -> bool:
        """Carries out one line; whether it was the last."""
        text, (asked, is_late) = line.text, self._find_question(line)
        if asked:
            self._answer(asked, text)
        elif is_late:
            self._print("(somebody else has answered it)")
        elif text.startswith("/") and not text.startswith("//"):
            return self._obey(text[1:])
        elif text.strip():
            self._send_message(text[1:] if text.startswith("//") else text)
        return False

    def _find_question(self, line: Line) -> tuple[OpenQuestion | None, bool]:
        """What a line answers, and whether it came too late for it; one from a pipe answers whatever is open."""
        with self._changed:
            opened = {each.id: each for each in self._list_questions()}
        if not self._input.is_interactive:
            return next(iter(opened.values()), None), False
        return opened.get(line.answers), bool(line.answers) and line.answers not in opened

    def _answer(self, asked: OpenQuestion, text: str) -> None:
        with self._changed:
            self._answered.add(asked.id)
            self._show_turn()
        self._send(
            build_permission_answer(asked, text)
            if isinstance(asked, PermissionAsked)
            else Answer(id=asked.id, answers={each.text: text.strip() for each in asked.questions})
        )

    def _list_questions(self) -> list[OpenQuestion]:
        """Those that wait for this person; what was answered here is told of a moment later."""
        return [each for each in self._fold.questions.values() if each.id not in self._answered]

    def _obey(self, line: str) -> bool:
        name, _, rest = line.strip().partition(" ")
        if name in ("quit", "exit"):
            return True
        command = self._commands.get(name)
        if command is None:
            self._print(f"There is no command /{name}. /help lists them; begin with // to send it as it is.")
        else:
            command(rest.strip())
        return False

    def _send_message(self, text: str) -> None:
        identity = uuid.uuid4().hex[:12]
        with self._changed:
            self._own.add(identity)
            self._running.add(identity)
            self._show_turn()
        if not self._send(SendMessage(id=identity, text=text)):
            with self._changed:
                self._running.discard(identity)
                self._show_turn()

    def _send(self, command: Command) -> bool:
        try:
            command_session(self._folder, command)
        except InspanError as error:
            self._print(f"! {error.message}")
            return False
        return True

    def _set_model(self, name: str) -> None:
        if name:
            self._send(Configure(model=name))
        else:
            self._print(self._fold.state.model or "the agent has not told its model yet")

    def _show_diff(self) -> None:
        from .main import run  # Start-up time: it imports every command's module as it is used.

        run(["diff", self._folder.run_id])

    def _interrupt_turn(self) -> None:
        if self._running:
            self._send(Interrupt())

    def _leaves_now(self) -> bool:
        """Ctrl-C: interrupts a turn; twice within two seconds, it leaves."""
        now = time.monotonic()
        if now - self._interrupted_at < _AGAIN_S:
            return True
        self._interrupted_at = now
        self._interrupt_turn()
        self._print("(Ctrl-C again leaves)")
        return False

    def _wait_for_turn(self) -> None:
        """For whoever pipes lines in: the next one is read when this one is answered, or when it is the answer."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._running or bool(self._list_questions()))

    def _close(self) -> None:
        if self._ended:
            return
        self._closing = True
        self._input.set_turn(mine=False)
        if self._input.is_interactive:
            self._interrupt_turn()
        else:
            self._wait_for_turn()
        self._send(CloseSession())

    def _follow(self, after: int) -> None:
        for record in follow(self._state, self._folder):
            if record is None:
                continue
            with self._changed:
                self._hear(record, shown=record.number > after)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _hear(self, record: Record, *, shown: bool) -> None:
        event = record.event
        self._summary.add(event)
        self._fold.add(event)
        if isinstance(event, MessageEnded):
            self._running.discard(event.id)
            self._code = REASONS[event.reason].exit_code
        if isinstance(event, RunEnded):
            self._ended = True
            self._end_input()
        elif shown and not (isinstance(event, MessageSent) and event.id in self._own):
            self._console.show(event)
            if isinstance(event, PermissionAsked) and event.id in self._fold.questions:
                self._print("  [y] once  [a] always in this project  [n] no, and why")
        if not self._ended:
            self._show_turn()

    def _show_turn(self) -> None:
        """Whose turn it is, and what the next line is for; after what was shown of it."""
        if not self._closing:
            question = next(iter(self._list_questions()), None)
            self._input.expect(question.id if question else "")
            self._input.set_turn(mine=bool(question) or not self._running)

    def _end_input(self) -> None:
        if not self._closing:
            self._input.set_turn(mine=False)
            self._print("the session has ended")
            self._input.stop()

    def _print(self, text: str) -> None:
        self._input.write(text + "\n")


class _Shown(io.StringIO):
    """The stream that the session is shown on: what is flushed goes to where lines are typed."""

    def __init__(self, given: ChatInput) -> None:
        super().__init__()
        self._input = given

    def isatty(self) -> bool:
        return sys.stdout.isatty()

    def fileno(self) -> int:
        """For who asks how wide it is."""
        return sys.stdout.fileno()

    def flush(self) -> None:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        if text:
            self._input.write(text)


def _describe_cost(summary: Summary) -> str:
    spent = summary.spent
    tokens = f"{spent.total} tokens ({spent.cache_read} cached)" if spent else "no tokens told of"
    return f"{format_count(summary.calls, 'model call')} · {tokens} · cost: {format_cost(summary.cost)}"
