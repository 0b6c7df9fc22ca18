"""A dialect translates between an agent's frames and our events and commands. It does no I/O and never awaits."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from inspan.protocol.commands import Command
from inspan.protocol.events import Event


class Said(NamedTuple):
    """What one step of a dialect gives: events to go up, frames to go down."""

    events: Sequence[Event] = ()
    frames: Sequence[bytes] = ()


NOTHING = Said()


class Dialect(Protocol):
    """A small state machine; the same one reads a live run, a recording and a test."""

    def open(self) -> Said:
        """What to send before the agent has said anything."""
        ...

    def receive(self, frame: bytes) -> Said:
        """Reads one frame. A frame that it does not know becomes an `Unrecognized` event; nothing is dropped."""
        ...

    def overhear(self, line: bytes) -> Said:
        """Reads one line of the agent's stderr, where some tell what their stream leaves out."""
        ...

    def send(self, command: Command) -> Said:
        """Puts a command into the agent's words; gives nothing back where the agent has no word for it."""
        ...
