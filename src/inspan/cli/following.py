"""Following a run from the command line: records as JSON or as text, Ctrl-C once to stop it, twice to kill it."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from inspan.engine.runs import follow, stop
from inspan.errors import HarnessFault
from inspan.folds.summary import Summary
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import SCHEMA, Record, encode
from inspan.stores.folder import RunFolder

from .console import Console
from .exit_codes import of_run


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


def stop_on_signals(folder: RunFolder) -> None:
    """Makes Ctrl-C and SIGTERM end the run, not just the command that follows it."""
    presses = 0

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        by = "interrupted" if number == signal.SIGINT else "stopped"
        stop(folder, command=Cancel(by=by, now=presses > 1))
        if presses == 1:
            # Not `print`: the signal may have come in the middle of one, and a buffer is not entered twice.
            os.write(2, b"stopping; press Ctrl-C again to kill\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def follow_as_json(state: str, folder: RunFolder, *, quiet: bool) -> int:
    """Prints every record of a run that this command has started, as JSON; gives the exit code."""
    stop_on_signals(folder)
    return of_run(watch(state, folder, show=print_record))


def follow_as_text(state: str, folder: RunFolder, *, quiet: bool) -> int:
    """Shows a run that this command has started, progress on stderr, the answer on stdout; gives the exit code."""
    stop_on_signals(folder)
    console, summary = Console(), Summary()

    def show(record: Record) -> None:
        summary.add(record.event)
        if not quiet or (isinstance(record.event, RunEnded) and record.event.outcome != "completed"):
            console.show(record.event)

    ended = watch(state, folder, show=show)
    if summary.text and (quiet or not sys.stdout.isatty()):
        sys.stdout.write(summary.text + "\n")
    return of_run(ended)


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
