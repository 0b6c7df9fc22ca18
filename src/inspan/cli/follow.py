"""Following a run from the command line: records as JSON or as text, Ctrl-C once to stop it, twice to kill it."""

import gc
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Literal

import msgspec

from inspan.contracts.reporter import Reporter
from inspan.errors import HarnessFault, OutputRefused
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import Record, encode_line
from inspan.reporters.text import escape_controls, escape_json
from inspan.runs.find import stop
from inspan.runs.follow import POLL_S, follow
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder
from inspan.system.platform import open_pipe

from .output import add_run_id
from .start_run import ENDINGS
from .terminal_signals import write_notice


class FollowedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was followed to its end, and its answer, which may lie beside the log."""

    ended: RunEnded
    answer: str = ""


def follow_run(
    state: str,
    folder: RunFolder,
    *,
    show: Callable[[Record], None],
    from_number: int = 1,
    on_idle: Callable[[], None] | None = None,
    wait_s: Callable[[], float] | None = None,
) -> RunEnded:
    """Shows every record from a number on until the last, which it gives back even where it was not to be shown.

    `on_idle` is called when there is nothing new, at the latest after as long as `wait_s` says.
    """
    gc.enable()  # This may go on for hours.
    ended: RunEnded | None = None
    for record in follow(state, folder, wait_s=wait_s):
        if record is None:
            if on_idle:
                on_idle()
            continue
        if record.number >= from_number:
            _show_record(folder, record, show)
        if isinstance(record.event, RunEnded):
            ended = record.event
    if ended:
        return ended
    raise HarnessFault(f"The log of {folder.run_id} ended before its last record.")


def _show_record(folder: RunFolder, record: Record, show: Callable[[Record], None]) -> None:
    try:
        show(record)
    except OutputRefused as error:
        raise add_run_id(error, folder.run_id) from error


class StopSignals:
    """Makes Ctrl-C and SIGTERM end the run that is followed, not just the command that follows it.

    A terminal that closes ends only this command; but an end that was wanted just before that reaches the run first.
    """

    def __init__(self) -> None:
        self._folder: RunFolder | None = None
        self._by: Literal["", "interrupted", "stopped"] = ""
        self._numbers = -1
        self._busy = False

    @property
    def received(self) -> bool:
        """Whether somebody wanted an end."""
        return bool(self._by)

    def attach(self, folder: RunFolder) -> None:
        """From now on they end this run; one that came before has meant it too."""
        self._folder = folder
        if self._numbers < 0:
            self._take_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        if self._by:
            stop(folder, command=Cancel(by=self._by))

    def _take_signals(self) -> None:
        # Python calls handlers by the number of their signals, SIGHUP first, and one inside another. What has come,
        # its own handler writes down at once.
        self._numbers, written = open_pipe()
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        for number in ENDINGS:
            if number != signal.SIGHUP or signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored.
                signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        """Obeys all that have come, one after the other; what comes meanwhile is obeyed by the call that is at it."""
        while not self._busy:
            self._busy = True
            try:
                for number in sorted(self._read(), key=lambda number: number == signal.SIGHUP):
                    self._obey(number)
            finally:
                self._busy = False
            if not select.select([self._numbers], [], [], 0)[0]:
                return

    def _read(self) -> bytes:
        try:
            return os.read(self._numbers, 4096)
        except BlockingIOError:
            return b""

    def _obey(self, number: int) -> None:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if number not in ENDINGS:
            return
        again, self._by = self.received, "interrupted" if number == signal.SIGINT else "stopped"
        if self._folder:
            stop(self._folder, command=Cancel(by=self._by, now=again))
        if not again:
            # Not `print`: the signal may have come in the middle of one, and a buffer is not entered twice.
            with suppress(OSError):
                write_notice(b"stopping; press Ctrl-C again to kill\n")


def stop_on_signals(folder: RunFolder) -> StopSignals:
    """Takes the signals for a run."""
    signals = StopSignals()
    signals.attach(folder)
    return signals


def follow_as_json(state: str, folder: RunFolder, *, quiet: bool, verbose: bool) -> FollowedRun:
    """Prints every record of a run that this command has started, as JSON; its answer is in them."""
    return FollowedRun(ended=follow_run(state, folder, show=print_record))


def follow_as_text(state: str, folder: RunFolder, *, quiet: bool, verbose: bool) -> FollowedRun:
    """Shows the progress of a run that this command has started, on stderr."""
    if quiet:
        return _follow_quietly(state, folder)
    from .answer_inline import InlineAnswers  # Start-up time: who wants JSON needs no console.
    from .console import LINES, Console

    lines = None if verbose else LINES
    console = Console(sys.stderr, folder=folder, stoppable=True, lines=lines, every_warning=verbose)
    answers = InlineAnswers(folder, before_asking=console.hide)

    def show(record: Record) -> None:
        answers.make_room()
        console.show(record.event, at=record.at)
        answers.hear(record.event)

    def wait() -> None:
        answers.ask()
        if not answers.is_asking:
            console.tick()

    def wait_s() -> float:
        return answers.choose_wait_s(console.wait_s())

    with console.hold_terminal():
        ended = follow_run(state, folder, show=show, on_idle=wait, wait_s=wait_s)
    return FollowedRun(ended=ended, answer=restore_large_texts(console.answer, folder=folder.path))


def _follow_quietly(state: str, folder: RunFolder) -> FollowedRun:
    from inspan.reporters.events import report_events  # Start-up time, as above.

    from .answer_inline import InlineAnswers  # Start-up time, as above.

    report = report_events(_make_quiet_reporter())
    answers = InlineAnswers(folder)

    def show(record: Record) -> None:
        report.show(record.event)
        answers.hear(record.event)

    ended = follow_run(state, folder, show=show, on_idle=answers.ask, wait_s=lambda: answers.choose_wait_s(POLL_S))
    answer = report.result.output if report.result else ""
    return FollowedRun(ended=ended, answer=restore_large_texts(answer, folder=folder.path))


def _make_quiet_reporter() -> Reporter:
    from inspan.reporters.quiet import QuietReporter  # Start-up time: few ask for it.

    return QuietReporter(alone=True, tells_answer=False)


def print_answer(followed: FollowedRun, *, quiet: bool) -> None:
    """The answer on stdout, unless the progress on the same screen has shown it; one that does not fit is none."""
    if followed.answer and followed.ended.reason != "unfit_answer" and (quiet or not sys.stdout.isatty()):
        sys.stdout.write((escape_controls(followed.answer) if sys.stdout.isatty() else followed.answer) + "\n")


def print_record(record: Record) -> None:
    """A record as one line of JSON on stdout."""
    line = encode_line(record) + b"\n"
    sys.stdout.buffer.write(escape_json(line.decode()).encode() if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()
