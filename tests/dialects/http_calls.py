"""A call as its host process would tell it, read by a dialect."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from inspan.contracts.dialect import Dialect as AnyDialect
from inspan.protocol.events import Event, ThreadStarted, TurnStarted
from inspan.protocol.task import Task


class Dialect(Protocol):
    """What gives a dialect for a task."""

    def __call__(self, task: Task, *, model: str) -> AnyDialect: ...


STARTED = [ThreadStarted(session_id="", model="m-1"), TurnStarted()]
WHOLE: dict[str, Any] = {"http": {"ended": "whole"}}


def head_line(status: int = 200, *, at: float | None = None, **headers: str) -> dict[str, Any]:
    """The first line."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"http": {"status": status, "headers": named, **({"at": at} if at is not None else {})}}


def cut_line(message: str = "the connection was closed") -> dict[str, Any]:
    """The last line of a call that broke off."""
    return {"http": {"ended": "cut", "message": message}}


def read_events(dialect: Dialect, *frames: Any, partial: bool = False) -> list[Event]:
    """All events of a call; a frame that is no text is written as JSON, compactly, as the host does."""
    reader = dialect(Task(prompt="p", cwd="/", mode="complete", partial=partial), model="m-1")
    opened: Sequence[Event] = reader.open().events
    lines = [frame.encode() if isinstance(frame, str) else _line(frame) for frame in frames]
    return [*opened, *(event for line in lines for event in reader.receive(line).events)]


def _line(frame: Any) -> bytes:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()
