"""Events on the screen of the command line: the console reporter, for a run that is its only node.

What it shows comes from the log and is redacted already.
"""

from typing import TextIO

from inspan.protocol.events import Event
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.events import report_events
from inspan.reporters.text import truncate as truncate


class Console:
    """Shows the events of one run as they come. `lines` limits what is shown of a tool's output, `None` shows all."""

    def __init__(self, stream: TextIO | None = None, *, lines: int | None = 12) -> None:
        self._report = report_events(ConsoleReporter(stream=stream, lines=lines, alone=True))

    def show(self, event: Event) -> None:
        """Prints what this event has to say, which may be nothing."""
        self._report.show(event)
