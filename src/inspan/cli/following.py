"""Following a run from the command line: records as JSON or as text, Ctrl-C once to stop it, twice to kill it."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Literal

import msgspec

from inspan.contracts.reporter import Reporter
from inspan.engine.large import whole
from inspan.engine.runs import follow, stop
from inspan.errors import HarnessFault
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import SCHEMA, Record, encode
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.events import report_events
from inspan.reporters.text import visible
from inspan.stores.folder import RunFolder


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was followed to its end, and its answer, which may lie beside the log."""

    ended: RunEnded
    answer: str = ""


def watch(state: str, folder: RunFolder, *, show: Callable[[Record], None], from_number: int = 1) -> RunEnded:
    """Shows every record from a number on until the last, which it gives back even where it was not to be shown."""
    gc.enable()  # This may go on for hours.
    ended: RunEnded | None = None
    for record in follow(state, folder):
        if record is None:
            continue
        if record.number >= from_number:
            show(record)
        if isinstance(record.event, RunEnded):
            ended = record.event
    if ended:
        return ended
    raise HarnessFault(f"The log of {folder.run_id} ended before its last record.")


class StopSignals:
    """Makes Ctrl-C and SIGTERM end the run that is followed, not just the command that follows it."""

    def __init__(self) -> None:
        self._folder: RunFolder | None = None
        self._by: Literal["", "interrupted", "stopped"] = ""

    @property
    def came(self) -> bool:
        """Whether somebody wanted an end."""
        return bool(self._by)

    def aim(self, folder: RunFolder) -> None:
        """From now on they end this run; one that came before has meant it too."""
        self._folder = folder
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        if self._by:
            stop(folder, command=Cancel(by=self._by))

    def _handle(self, number: int, _: FrameType | None) -> None:
        again, self._by = self.came, "interrupted" if number == signal.SIGINT else "stopped"
        if self._folder:
            stop(self._folder, command=Cancel(by=self._by, now=again))
        if not again:
            # Not `print`: the signal may have come in the middle of one, and a buffer is not entered twice.
            os.write(2, b"stopping; press Ctrl-C again to kill\n")


def stop_on_signals(folder: RunFolder) -> StopSignals:
    """Takes the signals for a run."""
    signals = StopSignals()
    signals.aim(folder)
    return signals


def follow_as_json(state: str, folder: RunFolder, *, quiet: bool) -> Followed:
    """Prints every record of a run that this command has started, as JSON; its answer is in them."""
    return Followed(ended=watch(state, folder, show=print_record))


def follow_as_text(state: str, folder: RunFolder, *, quiet: bool) -> Followed:
    """Shows the progress of a run that this command has started, on stderr."""
    report = report_events(_quiet() if quiet else ConsoleReporter(alone=True))
    ended = watch(state, folder, show=lambda record: report.show(record.event))
    answer = report.result.output if report.result else ""
    return Followed(ended=ended, answer=whole(answer, folder=folder.path))


def _quiet() -> Reporter:
    from inspan.reporters.quiet import QuietReporter  # Start-up time: few ask for it.

    return QuietReporter(alone=True, tells_answer=False)


def print_answer(followed: Followed, *, quiet: bool) -> None:
    """The answer on stdout, unless the progress on the same screen has shown it; one that does not fit is none."""
    if followed.answer and followed.ended.reason != "unfit_answer" and (quiet or not sys.stdout.isatty()):
        sys.stdout.write((visible(followed.answer) if sys.stdout.isatty() else followed.answer) + "\n")


def print_record(record: Record) -> None:
    """A record as one line of JSON on stdout."""
    line = b'{"schema":%d,"n":%d,"t":%.3f,"event":%b}\n' % (
        SCHEMA,
        record.number,
        record.at,
        encode(record.event),
    )
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
