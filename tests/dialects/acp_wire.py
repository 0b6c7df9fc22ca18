"""What agents said in the Agent Client Protocol, recorded from the real ones, read through its dialect."""

import json
from pathlib import Path
from typing import Any

import msgspec

from inspan.contracts.dialect import DialectOutput
from inspan.contracts.file_requests import FileResult, ReadText
from inspan.dialects.acp.dialect import AcpDialect
from inspan.dialects.acp.profile import AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

RECORDINGS = Path(__file__).parent.parent / "recordings" / "acp"
DEFAULT_PROFILE = AcpProfile()
NO_TOTALS = SessionTotals()


class AcpWire:
    """A conversation with a recorded or an imagined agent: the events so far, and what was said to it."""

    def __init__(
        self,
        *,
        habits: AcpProfile = DEFAULT_PROFILE,
        told: SessionTotals = NO_TOTALS,
        opening: SessionSetup | None = None,
        **fields: Any,
    ) -> None:
        self.dialect = AcpDialect(Task(prompt="do it", cwd="/WORK", **fields), told, profile=habits)
        self.events: list[Event] = []
        self.said: list[dict[str, Any]] = []
        self.done = False
        given = opening or SessionSetup(cwd="/WORK", prompt=[{"type": "text", "text": "do it"}])
        self.apply(self.dialect.begin(msgspec.json.encode(given)))

    def receive_message(self, **message: Any) -> list[dict[str, Any]]:
        """The agent says this; gives what it is answered."""
        before = len(self.said)
        self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())
        return self.said[before:]

    def update(self, told: str, /, **fields: Any) -> None:
        """The agent tells of its work."""
        self.receive_message(
            method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": told, **fields}}
        )

    def open_session(self, *, abilities: dict[str, Any] | None = None, **result: Any) -> "AcpWire":
        """The agent answers until it has its prompt."""
        self.receive_message(id=1, result={"protocolVersion": 1, "agentCapabilities": abilities or {}})
        self.receive_message(id=3, result={"sessionId": "s", **result})
        return self

    def receive(self, line: bytes) -> None:
        self.apply(self.dialect.receive(line))

    def apply(self, said: DialectOutput) -> None:
        """Goes on as a session does: files are there, and empty."""
        self.events += said.events
        self.said += [json.loads(frame) for frame in said.frames]
        self.done = self.done or said.done
        for work in said.file_requests:
            read = isinstance(work, ReadText)
            self.apply(
                self.dialect.receive_file_result(
                    FileResult(id=work.id, path=work.path, change=None if read else "added")
                )
            )

    def kinds(self) -> str:
        return " ".join(type(event).__name__ for event in self.events)


def load_recorded(name: str, **fields: Any) -> AcpWire:
    """A recorded conversation, heard to its end."""
    wire = AcpWire(**fields)
    for line in (RECORDINGS / f"{name}.jsonl").read_bytes().splitlines():
        wire.receive(line)
    return wire


def names() -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
