"""The language of `codex exec --json`, as it is spoken since 0.149."""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.driver import Failure, match_failure
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
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals, Usage
from inspan.protocol.wire import DECODE_ERRORS

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    # A rollout file that breaks off in its first line, as a Codex that was killed leaves it, counts as empty (0.163).
    Failure("session_not_found", r"no rollout found|thread not found|no saved session|rollout at .* is empty"),
    Failure("authentication", r"status:? 40[13]\b|incorrect api key|missing environment variable|not logged in"),
    Failure("rate_limit", r"status:? 429\b|rate limit|usage limit|quota exceeded"),
    Failure("context_too_long", r"ran out of room|context (window|length)|exceeds the maximum length"),
    Failure("model_not_found", r"status:? 404\b|model .*(not found|does not exist|not supported)"),
    Failure("overloaded", r"status:? 5\d\d\b|high demand|at capacity|overloaded"),
    Failure(
        "network", r"stream disconnected|error sending request|connection (refused|reset|closed)|timed out|reconnecting"
    ),
    Failure("invalid_response", r"incomplete response|unexpected (end|eof)|failed to parse|expected value"),
    Failure("environment", r"no such file or directory|permission denied|error loading config|active writer"),
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


class Item(msgspec.Struct):
    """One thing that the agent did or said, as `exec` spells it."""

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
    item: Item | None = None
    usage: Tokens | None = None
    error: _Problem | None = None
    message: str = ""


_decode = msgspec.json.Decoder(know_type(_Frame)).decode
_DENIED = re.compile(
    r"error=(?P<words>patch rejected: .*|unsupported (?:custom tool )?call: (?P<tool>.*)"
    r"|approval policy is Never; .*|exec_command failed: .*Rejected.*)"
)
_NOT_APPROVED = ("MCP tool call requires approval", "user rejected MCP tool call")
SERVERS_FAILED = re.compile(r"required MCP servers failed to initialize: (.*?)(?: \(code -?\d+\))?$")
CHANGES: dict[str, Change] = {"add": "added", "update": "modified", "delete": "deleted"}


def to_usage(tokens: Tokens) -> Usage:
    """The same in our words: what was read from the cache or written to it is no input of its own."""
    cached = tokens.cached_input_tokens + tokens.cache_write_input_tokens
    return Usage(
        input=max(0, tokens.input_tokens - cached),
        output=tokens.output_tokens,
        cache_read=tokens.cached_input_tokens,
        cache_write=tokens.cache_write_input_tokens,
        reasoning=tokens.reasoning_output_tokens,
    )


class _TokenInfo(msgspec.Struct):
    total_token_usage: Tokens | None = None


class _TokenCount(msgspec.Struct):
    type: str = ""
    info: _TokenInfo | None = None


class _Line(msgspec.Struct):
    payload: _TokenCount | None = None


def read_totals(rollout: bytes) -> SessionTotals | None:
    """The tokens that a thread counts on from, by the last count in the end of its rollout file.

    Not by the records of single calls: those of a turn that broke off are left out of later counts.
    """
    for line in reversed(rollout.splitlines()):
        if b'"token_count"' not in line:
            continue
        try:
            counted = msgspec.json.decode(line, type=know_type(_Line)).payload
        except DECODE_ERRORS:
            continue
        if counted and counted.type == "token_count" and counted.info and counted.info.total_token_usage:
            return SessionTotals(usage=to_usage(counted.info.total_token_usage))
    return None


def _on_command_started(item: Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="shell", input={"command": item.command})]


def _on_command_ended(item: Item) -> list[Event]:
    if item.status == "declined":
        return [ToolFailed(id=item.id, name="shell", output=item.aggregated_output, denied=True)]
    end = ToolFailed if item.status == "failed" else ToolCompleted
    return [
        end(id=item.id, name="shell", output=item.aggregated_output),
        CommandExecuted(id=item.id, command=item.command, exit_code=item.exit_code),
    ]


def _on_patch_started(item: Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="apply_patch", input=[change.path for change in item.changes])]


def _on_patch_ended(item: Item) -> list[Event]:
    if item.status in ("failed", "declined"):
        denied = item.status == "declined"
        return [ToolFailed(id=item.id, name="apply_patch", output=item.message, denied=denied)]
    changed = [
        FileChanged(path=change.path, change=CHANGES.get(change.kind, "modified"), id=item.id)
        for change in item.changes
    ]
    return [*changed, ToolCompleted(id=item.id, name="apply_patch")]


def _tool_name(item: Item) -> str:
    return f"{item.server}.{item.tool}" if item.server else item.tool or item.type


def _on_tool_started(item: Item) -> list[Event]:
    return [ToolStarted(id=item.id, name=_tool_name(item), input=item.arguments or item.query or None)]


def _on_tool_ended(item: Item) -> list[Event]:
    if item.status == "failed":
        words = item.error.message if item.error else _result_text(item) or item.message
        return [ToolFailed(id=item.id, name=_tool_name(item), output=words, denied=words.startswith(_NOT_APPROVED))]
    return [ToolCompleted(id=item.id, name=_tool_name(item), output=_result_text(item) or item.message)]


def _result_text(item: Item) -> str:
    """What a tool gave back: its texts, or whatever else it is as JSON."""
    if item.result is None:
        return ""
    try:
        parts = msgspec.convert(item.result, know_type(_Content)).content
    except msgspec.ValidationError:
        return msgspec.json.encode(item.result).decode()
    return "\n".join(part.text for part in parts)


def _on_todo_list(item: Item) -> list[Event]:
    steps = [PlanStep(text=todo.text, state="done" if todo.completed else "pending") for todo in item.items]
    return [PlanChanged(steps=steps)]


def _ignore(_: Item) -> list[Event]:
    return []


def _on_message(item: Item) -> list[Event]:
    return [TextSaid(text=item.text)]


def _on_reasoning(item: Item) -> list[Event]:
    return [ReasoningSaid(text=item.text)]


def _on_error(item: Item) -> list[Event]:
    return [ErrorReported(message=item.message or item.text)]


# Item type → what its start and its end tell.
_ITEMS: dict[str, tuple[Callable[[Item], list[Event]], Callable[[Item], list[Event]]]] = {
    "agent_message": (_ignore, _on_message),
    "reasoning": (_ignore, _on_reasoning),
    "error": (_ignore, _on_error),
    "command_execution": (_on_command_started, _on_command_ended),
    "file_change": (_on_patch_started, _on_patch_ended),
    "mcp_tool_call": (_on_tool_started, _on_tool_ended),
    "web_search": (_on_tool_started, _on_tool_ended),
    "collab_tool_call": (_on_tool_started, _on_tool_ended),
    "todo_list": (_on_todo_list, _on_todo_list),
}


class CodexDialect:
    """Reads the event lines of `codex exec --json`."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._denials = 0
        self._servers_failed = False
        self._handlers: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "thread.started": lambda frame: [ThreadStarted(session_id=frame.thread_id, model=task.model)],
            "turn.started": lambda frame: [TurnStarted()],
            # What it reports is the whole thread's, earlier runs included.
            "turn.completed": lambda frame: [TurnCompleted(usage=to_usage(frame.usage or Tokens()) - reported.usage)],
            "turn.failed": lambda frame: [_turn_failed_event(frame)],
            "error": lambda frame: [ErrorReported(message=frame.message)],
            "item.started": lambda frame: _on_item(frame, 0),
            "item.updated": lambda frame: _on_item_updated(frame),
            "item.completed": lambda frame: _on_item(frame, 1),
        }

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            decoded = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        handler = self._handlers.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            return DialectOutput([build_unrecognized(frame, f"frame {decoded.type!r}")])
        return DialectOutput(events)

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """Calls of tools that were taken away, rejected patches and servers that failed: only its stderr tells."""
        text = line.decode(errors="replace")
        if denied := _DENIED.search(text):
            self._denials += 1
            name = denied["tool"] or ("apply_patch" if denied["words"].startswith("patch") else "shell")
            return DialectOutput(
                [ToolFailed(id=f"denied-{self._denials}", name=name, output=denied["words"], denied=True)]
            )
        failed = SERVERS_FAILED.search(text)
        if failed and not self._servers_failed:  # It says so twice.
            self._servers_failed = True
            return DialectOutput(on_servers_failed(failed[1]))
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT


def on_servers_failed(words: str) -> list[Event]:
    """A required server is missing: the program leaves before its first turn."""
    name, _, problem = words.partition(": ")
    message = f"the MCP server {name} could not be started: {problem}"
    return [McpServerFailed(name=name, message=problem), TurnFailed(failure="environment", message=message)]


def read_item(item: Item, end: Literal[0, 1]) -> list[Event] | None:
    """What the start (0) or the end (1) of an item tells; None for a kind that is not known."""
    handlers = _ITEMS.get(item.type)
    return handlers[end](item) if handlers else None


def _on_item(frame: _Frame, end: Literal[0, 1]) -> list[Event] | None:
    return read_item(frame.item, end) if frame.item else None


def _on_item_updated(frame: _Frame) -> list[Event] | None:
    return _on_item(frame, 1) if frame.item and frame.item.type == "todo_list" else None


def _turn_failed_event(frame: _Frame) -> TurnFailed:
    message = frame.error.message if frame.error else frame.message
    return TurnFailed(failure=match_failure(FAILURES, message) or "unknown", message=message)
