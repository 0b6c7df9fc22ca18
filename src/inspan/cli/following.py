"""Following a run from the command line: records as JSON or as text, Ctrl-C once to stop it, twice to kill it."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

from inspan.engine.runs import follow, stop
from inspan.errors import HarnessFault
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import SCHEMA, Record, encode
from inspan.stores.folder import RunFolder


def watch(state: str, folder: RunFolder, *, show: Callable[[Record], None], from_number: int = 1) -> RunEnded:
    """Shows every record until the last, which it gives back."""
    ended: RunEnded | None = None
    for record in follow(state, folder, from_number=from_number):
        if record is None:
            continue
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
            print("stopping; press Ctrl-C again to kill", file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


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
