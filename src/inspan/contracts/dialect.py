"""A dialect translates between an agent's frames and our events and commands. It does no I/O and never awaits."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from inspan.protocol.commands import Command
from inspan.protocol.events import Event, Unrecognized

from .work import Work, Worked


class Said(NamedTuple):
    """What one step of a dialect gives: events to go up, frames to go down, whole with their line's end.

    `work` is what the agent wants done with files; `done` says that nothing more will be said to it, so that it leaves.
    """

    events: Sequence[Event] = ()
    frames: Sequence[bytes] = ()
    work: Sequence[Work] = ()
    done: bool = False


NOTHING = Said()


def unrecognized(frame: bytes, note: str) -> Unrecognized:
    """A frame that is not known, whole, and what is known of it."""
    return Unrecognized(raw=frame.decode(errors="replace"), note=note)


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


@runtime_checkable
class Conversation(Dialect, Protocol):
    """A dialect of an agent that listens as it works: its stdin stays open, and it is answered."""

    def begin(self, opening: bytes) -> Said:
        """In place of `open`: the first words. What the launch gave as `stdin` is to be said in time."""
        ...

    def worked(self, done: Worked) -> Said:
        """What came of a piece of work; tells it to the agent."""
        ...

    def close(self) -> Said:
        """The agent has closed its output: what was held back until now."""
        ...
