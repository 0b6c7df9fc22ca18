"""A dialect translates between an agent's frames and our events and commands. It does no I/O and never awaits."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from inspan.protocol.commands import Command
from inspan.protocol.events import Event, Unrecognized

from .file_requests import FileRequest, FileResult


class DialectOutput(NamedTuple):
    """What one step of a dialect gives: events to go up, frames to go down, whole with their line's end.

    `file_requests` are the file operations that the agent asks for; `done` says that nothing more will be said to it,
    so that it leaves.
    """

    events: Sequence[Event] = ()
    frames: Sequence[bytes] = ()
    file_requests: Sequence[FileRequest] = ()
    done: bool = False


NO_OUTPUT = DialectOutput()


def build_unrecognized(frame: bytes, note: str) -> Unrecognized:
    """A frame that is not known, whole, and what is known of it."""
    return Unrecognized(raw=frame.decode(errors="replace"), note=note)


class Dialect(Protocol):
    """A small state machine; the same one reads a live run, a recording and a test."""

    def open(self) -> DialectOutput:
        """What to send before the agent has said anything."""
        ...

    def receive(self, frame: bytes) -> DialectOutput:
        """Reads one frame. A frame that it does not know becomes an `Unrecognized` event; nothing is dropped."""
        ...

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """Reads one line of the agent's stderr, where some tell what their stream leaves out."""
        ...

    def send(self, command: Command) -> DialectOutput:
        """Puts a command into the agent's words; gives nothing back where the agent has no word for it."""
        ...


@runtime_checkable
class InteractiveDialect(Dialect, Protocol):
    """A dialect of an agent that listens as it works: its stdin stays open, and it is answered."""

    def begin(self, setup: bytes) -> DialectOutput:
        """In place of `open`: the first words. `setup` is the launch's `stdin`: it is sent when the agent is ready."""
        ...

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        """The result of a file request; passes it to the agent."""
        ...

    def close(self) -> DialectOutput:
        """The agent has closed its output: what was held back until now."""
        ...
