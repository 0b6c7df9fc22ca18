"""The parts of OpenCode's messages, the same in a frame and in a saved session, and what each of them tells."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from inspan.dialects.json_values import as_object, get_text
from inspan.dialects.plans import plan_events
from inspan.protocol.events import (
    Change,
    CommandExecuted,
    Event,
    FileChanged,
    ReasoningSaid,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage

_DENIED = re.compile(r"The user (has specified a rule which prevents|rejected permission)")
_UNAVAILABLE = "Model tried to call unavailable tool"
_CHANGES: dict[str, Change] = {"add": "added", "update": "modified", "move": "modified", "delete": "deleted"}


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()

    @property
    def usage(self) -> Usage:
        """The same in our words; its output leaves out the reasoning."""
        return Usage(
            input=self.input,
            output=self.output + self.reasoning,
            cache_read=self.cache.read,
            cache_write=self.cache.write,
            reasoning=self.reasoning,
        )


class _State(msgspec.Struct, frozen=True):
    status: str = ""
    input: Any = None
    output: str = ""
    error: str = ""
    metadata: dict[str, Any] = {}


class Part(msgspec.Struct):
    """A part of a message; which fields it has follows from its type."""

    type: str
    id: str = ""
    sessionID: str = ""
    text: str = ""
    tool: str = ""
    callID: str = ""
    state: _State = _State()
    reason: str = ""
    tokens: _Tokens = _Tokens()
    cost: float = 0.0


class TurnUsage:
    """Tokens and cost of the steps of a turn, until they are taken."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._cost_usd = 0.0

    def add(self, part: Part) -> None:
        """One more step that has ended."""
        self._cost_usd += part.cost
        self._usage = (self._usage or Usage()) + part.tokens.usage

    def take(self) -> tuple[Usage | None, float | None]:
        """All of it, and then nothing; a model that its price list does not know costs nothing there."""
        usage, cost_usd = self._usage, self._cost_usd
        self._usage, self._cost_usd = None, 0.0
        return usage, round(cost_usd, 9) or None


def part_events(part: Part, *, parent: str = "") -> list[Event] | None:
    """What a part that has ended tells, but for the start of a tool call; nothing known of its type is `None`."""
    handler = _PARTS.get(part.type)
    return handler(part, parent) if handler else None


def tool_start_event(part: Part, *, parent: str = "") -> ToolStarted:
    """The start of a tool call."""
    name = _original_tool_name(part) if part.tool == "invalid" else part.tool
    return ToolStarted(id=part.callID, name=name, input=part.state.input, parent=parent)


def _on_text(part: Part, parent: str) -> list[Event]:
    return [TextSaid(text=part.text, parent=parent)] if part.text else []


def _on_reasoning(part: Part, parent: str) -> list[Event]:
    return [ReasoningSaid(text=part.text, parent=parent)] if part.text else []


def _on_tool(part: Part, parent: str) -> list[Event]:
    state = part.state
    if part.tool == "invalid":
        denied = _UNAVAILABLE in state.output
        return [ToolFailed(id=part.callID, name=_original_tool_name(part), output=state.output, denied=denied)]
    if state.status == "error":
        denied = bool(_DENIED.match(state.error))
        return [ToolFailed(id=part.callID, name=part.tool, output=state.error, denied=denied)]
    more = _TOOL_EVENTS.get(part.tool)
    # A command that failed is no error to it.
    end = ToolFailed if state.metadata.get("exit") else ToolCompleted
    return [end(id=part.callID, name=part.tool, output=state.output), *(more(part) if more else [])]


def _original_tool_name(part: Part) -> str:
    """The tool that was asked for and is not there: its call is turned into one of a tool that only complains."""
    return get_text(as_object(part.state.input), "tool") or part.tool


def _command_events(part: Part) -> list[Event]:
    code = part.state.metadata.get("exit")
    command = get_text(as_object(part.state.input), "command")
    return [CommandExecuted(id=part.callID, command=command, exit_code=code if isinstance(code, int) else None)]


def _write_events(part: Part) -> list[Event]:
    change: Change = "modified" if part.state.metadata.get("exists") else "added"
    path = get_text(part.state.metadata, "filepath") or get_text(as_object(part.state.input), "filePath")
    return [FileChanged(path=path, change=change, id=part.callID)]


def _edit_events(part: Part) -> list[Event]:
    given = as_object(part.state.input)
    change: Change = "modified" if given.get("oldString") else "added"
    return [FileChanged(path=get_text(given, "filePath"), change=change, id=part.callID)]


class _PatchedFile(msgspec.Struct):
    filePath: str = ""
    type: str = ""


class _Patch(msgspec.Struct):
    files: list[_PatchedFile] = []


def _patch_events(part: Part) -> list[Event]:
    try:
        files = msgspec.convert(part.state.metadata, know_type(_Patch)).files
    except msgspec.ValidationError:
        return []
    return [
        FileChanged(path=each.filePath, change=_CHANGES.get(each.type, "modified"), id=part.callID) for each in files
    ]


_PARTS: dict[str, Callable[[Part, str], list[Event]]] = {
    "text": _on_text,
    "reasoning": _on_reasoning,
    "tool": _on_tool,
    "step-start": lambda part, parent: [],
    "step-finish": lambda part, parent: [],
}
_TOOL_EVENTS: dict[str, Callable[[Part], list[Event]]] = {
    "bash": _command_events,
    "write": _write_events,
    "edit": _edit_events,
    "apply_patch": _patch_events,
    "todowrite": lambda part: plan_events(as_object(part.state.input).get("todos")),
}
