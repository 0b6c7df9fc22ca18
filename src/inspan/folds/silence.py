"""What a silent run is stuck on, by rules over its last events. From what an agent has said, only words follow."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.permissions import subject_of
from inspan.protocol.events import (
    Event,
    ToolCompleted,
    ToolFailed,
    ToolOutput,
    ToolStarted,
)
from inspan.protocol.outcome import StuckCause

_KEPT_EVENTS = 20
_SAME_CALLS = 3
_SUBJECT_CHARACTERS = 200
_EVENT_CHARACTERS = 300
# The last line of a program that waits for somebody at a terminal.
_PROMPT_LINE = re.compile(
    r"(\?|password|passphrase|\[y/n\]|\(y/n\)|\(yes/no\)|press .*(key|enter).*)\W*$", re.IGNORECASE
)
_ASKS_USER = re.compile(r"ask_?user|request_?user_?input", re.IGNORECASE)


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """What a silent run is stuck on, and the same as the rest of a sentence that begins with for how long."""

    cause: StuckCause
    words: str


class SilenceFold:
    """Feed it every event in order; `classify` says what a run is stuck on that says nothing after them.

    What it quotes, `redact` sees before it is cut: half a secret is not found any more. `keeps`: the last events are
    kept, to be described.
    """

    def __init__(self, *, redact: Callable[[str], str], keeps: bool = False) -> None:
        self._redact = redact
        self._last: deque[Event] = deque(maxlen=_KEPT_EVENTS if keeps else 0)
        self._calls: deque[tuple[str, Any]] = deque(maxlen=_SAME_CALLS)
        self._open: dict[str, ToolStarted] = {}
        self._output = ToolOutput(id="", text="")

    def add(self, event: Event) -> None:
        self._last.append(event)
        if isinstance(event, ToolStarted):
            self._open[event.id] = event
            self._calls.append((event.name, event.input))
        elif isinstance(event, ToolCompleted | ToolFailed):
            self._open.pop(event.id, None)
        elif isinstance(event, ToolOutput):
            self._output = event

    def end_turn(self) -> None:
        """What was at work then is not at work any more."""
        self._open.clear()
        self._calls.clear()

    def classify(self, *, calls_model: bool | None) -> Silence:
        """The first rule that applies. `calls_model`: a model call is on its way; `None` where nobody can see that."""
        tool = next(reversed(self._open.values()), None)
        if tool:
            return self._classify_tool(tool)
        if len(self._calls) == _SAME_CALLS and all(call == self._calls[0] for call in self._calls):
            return Silence(cause="same_calls", words=f"after {_SAME_CALLS} same calls of {self._calls[0][0]}")
        if calls_model is False:
            return Silence(cause="agent_silent", words="with no tool at work and no model call on its way")
        return Silence(cause="model_silent", words="while the model is waited for")

    def describe_events(self, encode: Callable[[Event], bytes], *, most: int) -> str:
        """The last events, each on a line that is cut, together no longer than `most`; `encode` redacts them."""
        lines: list[str] = []
        for event in reversed(self._last):
            line = encode(event).decode(errors="replace")[:_EVENT_CHARACTERS]
            most -= len(line) + 1
            if most < 0:
                break
            lines.append(line)
        return "\n".join(reversed(lines))

    def _classify_tool(self, tool: ToolStarted) -> Silence:
        subject = " ".join(self._redact(subject_of(tool.input)).split())[:_SUBJECT_CHARACTERS]
        what = f"{tool.name} ({subject})" if subject else tool.name
        output = self._output.text if self._output.id == tool.id else ""
        if _ASKS_USER.search(tool.name) or _PROMPT_LINE.search(output.strip()):
            return Silence(cause="needs_input", words=f"while {what} waits for input that nobody gives")
        return Silence(cause="tool_at_work", words=f"while {what} is at work")
