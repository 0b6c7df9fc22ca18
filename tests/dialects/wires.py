"""What agents said in the Agent Client Protocol, recorded from the real ones, read through its dialect."""

import json
from pathlib import Path
from typing import Any

import msgspec

from inspan.contracts.dialect import Said
from inspan.contracts.work import ReadText, Worked
from inspan.dialects.acp.dialect import AcpDialect
from inspan.dialects.acp.opening import Opening
from inspan.dialects.acp.speaker import Habits
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import Told

RECORDINGS = Path(__file__).parent.parent / "recordings" / "acp"
NO_HABITS = Habits()
NOTHING_TOLD = Told()


class Wire:
    """A conversation with a recorded or an imagined agent: the events so far, and what was said to it."""

    def __init__(
        self, *, habits: Habits = NO_HABITS, told: Told = NOTHING_TOLD, opening: Opening | None = None, **fields: Any
    ) -> None:
        self.dialect = AcpDialect(Task(prompt="do it", cwd="/WORK", **fields), told, habits=habits)
        self.events: list[Event] = []
        self.said: list[dict[str, Any]] = []
        self.done = False
        given = opening or Opening(cwd="/WORK", prompt=[{"type": "text", "text": "do it"}])
        self.take(self.dialect.begin(msgspec.json.encode(given)))

    def hear(self, **message: Any) -> list[dict[str, Any]]:
        """The agent says this; gives what it is answered."""
        before = len(self.said)
        self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())
        return self.said[before:]

    def update(self, told: str, /, **fields: Any) -> None:
        """The agent tells of its work."""
        self.hear(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": told, **fields}})

    def opened(self, *, abilities: dict[str, Any] | None = None, **result: Any) -> "Wire":
        """The agent answers until it has its prompt."""
        self.hear(id=1, result={"protocolVersion": 1, "agentCapabilities": abilities or {}})
        self.hear(id=3, result={"sessionId": "s", **result})
        return self

    def receive(self, line: bytes) -> None:
        self.take(self.dialect.receive(line))

    def take(self, said: Said) -> None:
        """Goes on as a session does: files are there, and empty."""
        self.events += said.events
        self.said += [json.loads(frame) for frame in said.frames]
        self.done = self.done or said.done
        for work in said.work:
            read = isinstance(work, ReadText)
            self.take(self.dialect.worked(Worked(id=work.id, path=work.path, change=None if read else "added")))

    def kinds(self) -> str:
        return " ".join(type(event).__name__ for event in self.events)


def recorded(name: str, **fields: Any) -> Wire:
    """A recorded conversation, heard to its end."""
    wire = Wire(**fields)
    for line in (RECORDINGS / f"{name}.jsonl").read_bytes().splitlines():
        wire.receive(line)
    return wire


def names() -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
