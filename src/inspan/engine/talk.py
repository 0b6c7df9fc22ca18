"""A dialect that is listened to: its words reach the agent, and the file work that the agent wants is done."""

from collections.abc import Callable, Sequence

from inspan.contracts.dialect import Conversation, Said
from inspan.protocol.commands import Command
from inspan.protocol.events import Event
from inspan.protocol.wire import decode_event, encode
from inspan.transports.writing import PipeWriter

from .large import LARGE_BYTES
from .workspace import Workspace

Lighten = Callable[[bytes, int], bytes]


class Talk:
    """A dialect like any other to the session; whatever goes down has gone when a step returns.

    Frames reach the dialect as they are, since a file that the agent writes through us may be large; `lighten` then
    takes the large texts out of the events (given with their place among those of one step). `on_done` hears that
    nothing more will be said.
    """

    def __init__(
        self,
        dialect: Conversation,
        writer: PipeWriter,
        *,
        opening: bytes,
        workspace: Workspace,
        lighten: Lighten,
        on_done: Callable[[], None],
    ) -> None:
        self._dialect = dialect
        self._writer = writer
        self._opening = opening
        self._workspace = workspace
        self._lighten = lighten
        self._on_done = on_done

    def open(self) -> Said:
        return self._carried(self._dialect.begin(self._opening))

    def receive(self, frame: bytes) -> Said:
        return self._carried(self._dialect.receive(frame), large=len(frame) > LARGE_BYTES)

    def overhear(self, line: bytes) -> Said:
        return self._carried(self._dialect.overhear(line))

    def send(self, command: Command) -> Said:
        return self._carried(self._dialect.send(command))

    def close(self) -> Said:
        """The agent has closed its output."""
        return self._carried(self._dialect.close())

    def hang_up(self) -> None:
        """Closes the agent's stdin; idempotent."""
        self._writer.close()

    def _carried(self, said: Said, *, large: bool = False) -> Said:
        events = list(self._followed(said))
        return Said([self._light(event, place, large=large) for place, event in enumerate(events)], said.frames)

    def _followed(self, said: Said) -> Sequence[Event]:
        """Sends, does and closes what a step asks for; gives its events with those of what was done."""
        for frame in said.frames:
            self._writer.write(frame)
        events = [*said.events]
        for work in said.work:
            events += self._followed(self._dialect.worked(self._workspace.do(work)))
        if said.done:
            self._writer.finish()
            self._on_done()
        return events

    def _light(self, event: Event, place: int, *, large: bool) -> Event:
        text: str = getattr(event, "text", "") or getattr(event, "output", "")
        if not large and len(text) <= LARGE_BYTES // 4:
            return event
        spelled = encode(event)
        return decode_event(self._lighten(spelled, place)) if len(spelled) > LARGE_BYTES else event
