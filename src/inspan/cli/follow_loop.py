"""Following a loop from the command line: what it tells, and between that each of its runs as it comes."""

import os
import sys
import time
from collections.abc import Callable

from inspan.errors import HarnessFault, RunNotFound
from inspan.loop.results import read_answer
from inspan.protocol.events import AttemptStarted, Event, RunEnded, VerifierStarted, WaitStarted
from inspan.protocol.wire import Record
from inspan.reporters.events import report_events
from inspan.reporters.quiet import QuietReporter
from inspan.reporters.text import format_duration
from inspan.runs.find import find_run_folder
from inspan.runs.follow import POLL_S, follow
from inspan.stores.run_folder import RunFolder

from .console import LINES, Console
from .follow import FollowedRun, follow_as_text, print_answer, print_record
from .progress import Progress

_TICK_S = 0.2


def follow_loop(state: str, folder: RunFolder, *, as_json: bool, quiet: bool, verbose: bool) -> RunEnded:
    """Shows a loop until its end, on stderr, and then the answer of the attempt that did the task as `run` shows its
    own; as JSON its own records alone, on stdout. Where it is to be `quiet`, only a failure is told beside the answer.
    At a terminal, a wait counts down."""
    show = print_record if as_json else _make_teller(state, quiet=quiet, verbose=verbose)
    countdown, last_run = _Countdown(shown=not (as_json or quiet)), ""
    for record in follow(state, folder, wait_s=lambda: _TICK_S if countdown.left_s else POLL_S):
        if record is None:
            countdown.tick()
            continue
        countdown.hear(record.event)
        show(record)
        if isinstance(record.event, AttemptStarted):
            last_run = record.event.run_id
        if isinstance(record.event, RunEnded):
            if not as_json and record.event.reason == "done":
                answer = read_answer(state, last_run)
                print_answer(FollowedRun(ended=record.event, answer=answer), quiet=quiet)
            return record.event
    raise HarnessFault(f"The log of {folder.run_id} ended before its last record.")


class _Countdown:
    """A line at the bottom of the terminal for as long as a loop waits."""

    def __init__(self, *, shown: bool) -> None:
        self._line = Progress("waits") if shown else None
        self._wait: WaitStarted | None = None

    @property
    def left_s(self) -> float:
        """How long the loop will wait; 0 where it does not."""
        return max(0.0, self._wait.until - time.time()) if self._wait else 0.0

    def hear(self, event: Event) -> None:
        """Whatever comes ends the wait, and is told where the line stood."""
        self._wait = event if isinstance(event, WaitStarted) else None
        if self._line:
            self._line.clear()

    def tick(self) -> None:
        """Nothing has come for a while."""
        if self._line and self._wait:
            self._line.show(f"{format_duration(self.left_s)} left", self._wait.why)


def _make_teller(state: str, *, quiet: bool, verbose: bool) -> Callable[[Record], None]:
    if quiet:
        report = report_events(QuietReporter(alone=True, tells_answer=False))
        return lambda record: report.show(record.event)
    console = Console(sys.stderr, live=False, lines=None if verbose else LINES, every_warning=verbose)

    def show(record: Record) -> None:
        console.show(record.event)
        if isinstance(record.event, AttemptStarted | VerifierStarted):
            _follow_run(state, record.event.run_id, verbose=verbose)

    return show


def _follow_run(state: str, run_id: str, *, verbose: bool) -> None:
    try:
        folder = find_run_folder(state, run_id)
    except RunNotFound:
        return  # It was removed since; the loop tells what came of it.
    if os.path.exists(folder.log):
        follow_as_text(state, folder, quiet=False, verbose=verbose)
