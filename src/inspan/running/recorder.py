"""The way of an event from a dialect to the log: summary, blocks of text, the gate, the store."""

import os
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.folds.summary import Summary
from inspan.protocol.events import (
    Event,
    RunEnded,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolOutput,
)
from inspan.redaction import Gate, Redactor, SecretSet
from inspan.stores.event_log import SYNC_S, RunLog

if TYPE_CHECKING:
    from .tool_output import ToolOutputs

_TAIL_BYTES = 16 * 1024


class Recorder:
    """Appends events to a run's log and keeps its summary. Raises `OSError` when the store refuses.

    `on_events` gets what was appended, before redaction, and never raises; `on_sync_error` hears of a sync that failed.
    """

    def __init__(
        self,
        log: RunLog,
        *,
        secrets: SecretSet,
        loop: AbstractEventLoop,
        on_events: Callable[[Sequence[Event]], None] | None,
        on_sync_error: Callable[[Exception], None],
    ) -> None:
        self.summary = Summary()
        self._log = log
        self._gate = Gate(secrets)
        self._loop = loop
        self._on_events = on_events
        self._on_sync_error = on_sync_error
        self._blocks: set[str] = set()
        self._waiting: list[Event] = []
        self._sync_timer: TimerHandle | None = None
        self._outputs: ToolOutputs | None = None

    @property
    def next_number(self) -> int:
        """The number that the next event will get."""
        return self._log.number + len(self._waiting) + 1

    def adopt(self, first: Event) -> None:
        """Takes in the event that the log began with, which whoever prepared the run has written."""
        self.summary.add(first)
        if self._on_events:
            self._on_events([first])

    def emit(self, events: Sequence[Event]) -> None:
        """Takes events in; `flush` appends them and lets followers see them."""
        for event in events:
            if event.__class__ is ToolOutput or self._outputs:
                event = self._filter_output(event)
                if event is None:
                    continue
            if self._blocks or event.__class__ is TextDelta:
                event = self._redact_delta(event)
                if event is None:
                    continue
            self.summary.add(event)
            self._waiting.append(event)

    def flush(self) -> None:
        """Appends what was taken in, all through the gate at once, and syncs it now or soon."""
        while self._waiting:
            events, self._waiting = self._waiting, []
            self._log.extend(self._gate.encode_events(events))
            if self._on_events:
                self._log.flush()
                self._on_events(events)
        if not self._log.flush():
            return
        if self._log.wants_sync:
            self._log.sync()
        elif self._sync_timer is None:
            self._sync_timer = self._loop.call_later(SYNC_S, self._sync)

    def close(self, last: RunEnded, *, full: bool) -> None:
        """Appends the last record, on a full disk in the room that was kept for it, and closes the log."""
        if self._sync_timer:
            self._sync_timer.cancel()
        if self._outputs:
            self._outputs.close()
        try:
            if full:
                self._write_last_record(last)
            else:
                self.emit([last])
                self.flush()
            self._log.sync()
        except OSError:
            self._write_last_record(last)
        finally:
            self._log.close()
            self.summary.add(last)

    def _write_last_record(self, last: RunEnded) -> None:
        brief = _shorten(last)
        self._log.write_last_record(self._gate.encode_event(brief))
        if self._on_events:
            self._on_events([brief])

    def _filter_output(self, event: Event) -> Event | None:
        """Keeps back what tools put out, except for what is recorded of it."""
        if isinstance(event, ToolOutput):
            self._outputs = self._outputs or self._build_outputs()
            self._outputs.take(event)
            return None
        if self._outputs and isinstance(event, ToolCompleted | ToolFailed):
            self._outputs.drop(event.id)
        return event

    def _build_outputs(self) -> "ToolOutputs":
        from .tool_output import ToolOutputs  # Start-up time: few agents tell of it, and only to somebody who watches.

        return ToolOutputs(self._gate, loop=self._loop, emit=self._record_output)

    def _record_output(self, event: ToolOutput) -> None:
        """At any moment, since some of it comes by a timer: it ends no block of text."""
        self.summary.add(event)
        self._waiting.append(event)
        try:
            self.flush()
        except OSError as error:
            self._on_sync_error(error)

    def _redact_delta(self, event: Event) -> Event | None:
        """Text in pieces passes one redactor per block; whatever ends the block lets out what was held back."""
        if isinstance(event, TextDelta):
            self._blocks.add(event.block)
            text = self._gate.redact_delta(event.block, event.text)
            return TextDelta(block=event.block, text=text) if text else None
        blocks, self._blocks = self._blocks, set()
        for block in blocks:
            rest = self._gate.end_block(block)
            if rest:
                self._waiting.append(TextDelta(block=block, text=rest))
        return event

    def _sync(self) -> None:
        self._sync_timer = None
        try:
            self._log.sync()
        except OSError as error:
            self._on_sync_error(error)


def _shorten(last: RunEnded) -> RunEnded:
    """A last record that fits into the room kept for it."""
    return msgspec.structs.replace(last, files_changed=last.files_changed[:50], message=last.message[:1000])


class RawFile:
    """What an agent wrote to one of its outputs, redacted as a stream, byte for byte otherwise; `tail` is its end."""

    def __init__(self, path: str, secrets: SecretSet) -> None:
        self._path = path
        self._fd = -1
        self._closed = False
        try:
            self._open()
        except OSError:
            pass  # A disk that is full already refuses again when there is something to write, and that ends the run.
        self._redactor = Redactor(secrets)
        self.tail = b""

    def write(self, chunk: bytes) -> None:
        self._write(self._redactor.feed(chunk))

    def close(self) -> None:
        """Writes what the redactor held back; raises `OSError` on a full disk, closed all the same."""
        if self._closed:
            return
        self._closed = True
        try:
            self._write(self._redactor.flush())
        finally:
            if self._fd >= 0:
                os.close(self._fd)

    def _write(self, data: bytes) -> None:
        self.tail = (self.tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        if self._fd < 0:
            self._open()
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
