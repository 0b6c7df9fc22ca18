"""What tools at work put out, on its way to the log: only its last line, redacted, and that at most twice a second.

A build prints ten thousand lines, and whoever watches wants to see that it moves. The whole output comes with the end.
"""

import re
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

from inspan.protocol.events import ToolOutput
from inspan.redaction import Gate

_LEAST_S = 0.5
_MOST_CHARACTERS = 200
_LINE_ENDS = re.compile(r"[\r\n]+")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class ToolOutputs:
    """Give it every `ToolOutput`; `emit` gets those that are worth a record, some of them later, in the loop."""

    def __init__(self, gate: Gate, *, loop: AbstractEventLoop, emit: Callable[[ToolOutput], None]) -> None:
        self._gate = gate
        self._loop = loop
        self._emit = emit
        self._waiting: ToolOutput | None = None
        self._timer: TimerHandle | None = None
        self._last = ToolOutput(id="", text="")

    def take(self, event: ToolOutput) -> None:
        """Takes the end of what a tool has put out so far."""
        self._waiting = event
        if self._timer is None:
            self._send()

    def drop(self, identity: str) -> None:
        """A call has ended: nothing more is told of its output."""
        if self._waiting and self._waiting.id == identity:
            self._waiting = None

    def close(self) -> None:
        """Nothing more is told."""
        self._waiting = None
        if self._timer:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = None
        event, self._waiting = self._waiting, None
        if event is None:
            return
        self._timer = self._loop.call_later(_LEAST_S, self._send)
        shown = ToolOutput(id=event.id, text=self._find_last_line(event))
        if shown.text and shown != self._last:
            self._last = shown
            self._emit(shown)

    def _find_last_line(self, event: ToolOutput) -> str:
        """Redacted before it is cut, and without an end that may be the beginning of a secret."""
        block = f"output of {event.id}"
        known = self._gate.redact_delta(block, event.text)
        self._gate.end_block(block)  # What was held back comes again with the next piece.
        lines = (self._gate.redact_text(_ESCAPES.sub("", line)).strip() for line in reversed(_LINE_ENDS.split(known)))
        return next(filter(None, lines), "")[:_MOST_CHARACTERS]
