"""The language of `codex exec --json`, as it is spoken since 0.149."""

import re
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.contracts.driver import failure, kind_told
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    Change,
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    PlanChanged,
    PlanStep,
    ReasoningSaid,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    failure("session_not_found", r"no rollout found|thread not found|no saved session"),
    failure("authentication", r"status:? 40[13]\b|incorrect api key|missing environment variable|not logged in"),
    failure("rate_limit", r"status:? 429\b|rate limit|usage limit|quota exceeded"),
    failure("context_too_long", r"ran out of room|context (window|length)|exceeds the maximum length"),
    failure("model_not_found", r"status:? 404\b|model .*(not found|does not exist|not supported)"),
    failure("overloaded", r"status:? 5\d\d\b|high demand|at capacity|overloaded"),
    failure(
        "network", r"stream disconnected|error sending request|connection (refused|reset|closed)|timed out|reconnecting"
    ),
    failure("invalid_response", r"incomplete response|unexpected (end|eof)|failed to parse|expected value"),
    failure("environment", r"no such file or directory|permission denied|error loading config|active writer"),
)


class _Change(msgspec.Struct):
    path: str
    kind: str


class _Todo(msgspec.Struct):
    text: str = ""
    completed: bool = False


class _Problem(msgspec.Struct):
    message: str = ""


class _Part(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Content(msgspec.Struct):
    content: list[_Part]


class _Item(msgspec.Struct):
    type: str
    id: str = ""
    text: str = ""
    message: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    status: str = ""
    changes: list[_Change] = []
    items: list[_Todo] = []
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: _Problem | None = None
    query: str = ""


class Tokens(msgspec.Struct):
    """A count of tokens, as Codex has it in its stream and in its rollout files."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Frame(msgspec.Struct):
    type: str
    thread_id: str = ""
    item: _Item | None = None
    usage: Tokens | None = None
    error: _Problem | None = None
    message: str = ""


_decode = msgspec.json.Decoder(_Frame).decode
_DENIED = re.compile(
    r"error=(?P<words>patch rejected: .*|unsupported (?:custom tool )?call: (?P<tool>.*)"
    r"|approval policy is Never; .*|exec_command failed: .*Rejected.*)"
)
_NOT_APPROVED = "MCP tool call requires approval"
_SERVERS_FAILED = re.compile(r"required MCP servers failed to initialize: (.*?)(?: \(code -?\d+\))?$")
CHANGES: dict[str, Change] = {"add": "added", "update": "modified", "delete": "deleted"}


def usage_of(tokens: Tokens) -> Usage:
    """The same in our words: what was read from the cache or written to it is no input of its own."""
    cached = tokens.cached_input_tokens + tokens.cache_write_input_tokens
    return Usage(
        input=max(0, tokens.input_tokens - cached),
        output=tokens.output_tokens,
        cache_read=tokens.cached_input_tokens,
        cache_write=tokens.cache_write_input_tokens,
        reasoning=tokens.reasoning_output_tokens,
    )


class _Total(msgspec.Struct):
    total_token_usage: Tokens | None = None


class _Counted(msgspec.Struct):
    type: str = ""
    info: _Total | None = None


class _Line(msgspec.Struct):
    payload: _Counted | None = None


def told_in(rollout: bytes) -> Told | None:
    """The tokens that a thread counts on from, by the last count in the end of its rollout file.

    Not by the records of single calls: those of a turn that broke off are left out of later counts.
    """
    for line in reversed(rollout.splitlines()):
        if b'"token_count"' not in line:
            continue
        try:
            counted = msgspec.json.decode(line, type=_Line).payload
        except UNREADABLE:
            continue
        if counted and counted.type == "token_count" and counted.info and counted.info.total_token_usage:
            return Told(usage=usage_of(counted.info.total_token_usage))
    return None


def _command_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="shell", input={"command": item.command})]


def _command_ended(item: _Item) -> list[Event]:
    end = ToolFailed if item.status == "failed" else ToolCompleted
    return [
        end(id=item.id, name="shell", output=item.aggregated_output),
        CommandExecuted(id=item.id, command=item.command, exit_code=item.exit_code),
    ]


def _patch_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="apply_patch", input=[change.path for change in item.changes])]


def _patch_ended(item: _Item) -> list[Event]:
    if item.status == "failed":
        return [ToolFailed(id=item.id, name="apply_patch", output=item.message)]
    changed = [
        FileChanged(path=change.path, change=CHANGES.get(change.kind, "modified"), id=item.id)
        for change in item.changes
    ]
    return [*changed, ToolCompleted(id=item.id, name="apply_patch")]


def _tool_name(item: _Item) -> str:
    return f"{item.server}.{item.tool}" if item.server else item.tool or item.type


def _tool_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name=_tool_name(item), input=item.arguments or item.query or None)]


def _tool_ended(item: _Item) -> list[Event]:
    if item.status == "failed":
        words = item.error.message if item.error else _result(item) or item.message
        return [ToolFailed(id=item.id, name=_tool_name(item), output=words, denied=words.startswith(_NOT_APPROVED))]
    return [ToolCompleted(id=item.id, name=_tool_name(item), output=_result(item) or item.message)]


def _result(item: _Item) -> str:
    """What a tool gave back: its texts, or whatever else it is as JSON."""
    if item.result is None:
        return ""
    try:
        parts = msgspec.convert(item.result, _Content).content
    except msgspec.ValidationError:
        return msgspec.json.encode(item.result).decode()
    return "\n".join(part.text for part in parts)


def _planned(item: _Item) -> list[Event]:
    steps = [PlanStep(text=todo.text, state="done" if todo.completed else "pending") for todo in item.items]
    return [PlanChanged(steps=steps)]


def _silent(_: _Item) -> list[Event]:
    return []


def _said(item: _Item) -> list[Event]:
    return [TextSaid(text=item.text)]


def _reasoned(item: _Item) -> list[Event]:
    return [ReasoningSaid(text=item.text)]


def _complained(item: _Item) -> list[Event]:
    return [ErrorReported(message=item.message or item.text)]


# Item type → what its start and its end tell.
_ITEMS: dict[str, tuple[Callable[[_Item], list[Event]], Callable[[_Item], list[Event]]]] = {
    "agent_message": (_silent, _said),
    "reasoning": (_silent, _reasoned),
    "error": (_silent, _complained),
    "command_execution": (_command_started, _command_ended),
    "file_change": (_patch_started, _patch_ended),
    "mcp_tool_call": (_tool_started, _tool_ended),
    "web_search": (_tool_started, _tool_ended),
    "collab_tool_call": (_tool_started, _tool_ended),
    "todo_list": (_planned, _planned),
}


class CodexDialect:
    """Reads the event lines of `codex exec --json`."""

    def __init__(self, task: Task, told: Told) -> None:
        self._denials = 0
        self._servers_failed = False
        self._handlers: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "thread.started": lambda frame: [ThreadStarted(session_id=frame.thread_id, model=task.model)],
            "turn.started": lambda frame: [TurnStarted()],
            # What it reports is the whole thread's, earlier runs included.
            "turn.completed": lambda frame: [TurnCompleted(usage=usage_of(frame.usage or Tokens()) - told.usage)],
            "turn.failed": lambda frame: [_turn_failed(frame)],
            "error": lambda frame: [ErrorReported(message=frame.message)],
            "item.started": lambda frame: _item(frame, 0),
            "item.updated": lambda frame: _updated(frame),
            "item.completed": lambda frame: _item(frame, 1),
        }

    def open(self) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
        except UNREADABLE as error:
            return Said([unrecognized(frame, str(error))])
        handler = self._handlers.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            return Said([unrecognized(frame, f"frame {decoded.type!r}")])
        return Said(events)

    def overhear(self, line: bytes) -> Said:
        """Calls of tools that were taken away, rejected patches and servers that failed: only its stderr tells."""
        text = line.decode(errors="replace")
        if denied := _DENIED.search(text):
            self._denials += 1
            name = denied["tool"] or ("apply_patch" if denied["words"].startswith("patch") else "shell")
            return Said([ToolFailed(id=f"denied-{self._denials}", name=name, output=denied["words"], denied=True)])
        failed = _SERVERS_FAILED.search(text)
        if failed and not self._servers_failed:  # It says so twice.
            self._servers_failed = True
            return Said(_without_servers(failed[1]))
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING


def _without_servers(words: str) -> list[Event]:
    """A required server is missing: the program leaves before its first turn."""
    name, _, problem = words.partition(": ")
    message = f"the server of tools {name} could not be started: {problem}"
    return [McpServerFailed(name=name, message=problem), TurnFailed(failure="environment", message=message)]


def _item(frame: _Frame, end: Literal[0, 1]) -> list[Event] | None:
    handlers = _ITEMS.get(frame.item.type) if frame.item else None
    return handlers[end](cast(_Item, frame.item)) if handlers else None


def _updated(frame: _Frame) -> list[Event] | None:
    return _item(frame, 1) if frame.item and frame.item.type == "todo_list" else None


def _turn_failed(frame: _Frame) -> TurnFailed:
    message = frame.error.message if frame.error else frame.message
    return TurnFailed(failure=kind_told(FAILURES, message) or "unknown", message=message)
