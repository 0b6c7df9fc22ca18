"""Server-sent events out of bytes."""

from typing import NamedTuple


class SentEvent(NamedTuple):
    """One event: its kind, its text, and the id that resumes the stream behind it."""

    kind: str
    data: str
    id: str


class EventStreamReader:
    """Fed with bytes as they arrive, it gives the events that are whole. Comments are read over.

    A text that was not ended by an empty line is never an event: the stream broke off in it.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._id = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[SentEvent]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[SentEvent] = []
        for line in lines:
            text = line.removesuffix(b"\r").decode(errors="replace")
            if text:
                self._read_field(text)
            elif self._data:
                found.append(SentEvent(self._kind or "message", "\n".join(self._data), self._id))
                self._kind, self._data = "", []
        return found

    def _read_field(self, text: str) -> None:
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id":
            self._id = value
