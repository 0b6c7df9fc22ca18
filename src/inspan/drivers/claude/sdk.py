"""Claude Code through the vendor's Python SDK: a process of ours imports it and speaks as the program itself does."""

import os.path
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput
from inspan.contracts.driver import Launch, LaunchContext
from inspan.errors import BadInput
from inspan.protocol.commands import Cancel, Command, Interrupt, SendMessage
from inspan.protocol.events import TurnInterrupted
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

from .rpc import INITIALIZE, ClaudeRpcDialect, ControlFrame, Setup
from .rpc import launch as launch_rpc

_HOST = os.path.join(os.path.dirname(__file__), "sdk_host.py")
_Field = tuple[str, Callable[[str], Any]]


def _split(words: str) -> list[str]:
    return words.split(",") if words else []


# What the SDK says to the program by itself.
_SAID_ANYWAY = {"--output-format": 1, "--input-format": 1, "--permission-prompt-tool": 1, "--verbose": 0}
# An option of the program → the SDK's own name for it, and how its value is put there. All others are passed on.
_FIELDS: dict[str, _Field] = {
    "--permission-mode": ("permission_mode", str),
    "--tools": ("tools", _split),
    "--allowedTools": ("allowed_tools", _split),
    "--disallowedTools": ("disallowed_tools", _split),
    "--setting-sources": ("setting_sources", _split),
    "--resume": ("resume", str),
    "--session-id": ("session_id", str),
    "--model": ("model", str),
    "--effort": ("effort", str),
    "--max-turns": ("max_turns", int),
    "--json-schema": ("output_format", lambda text: {"type": "json_schema", "schema": msgspec.json.decode(text)}),
    "--settings": ("settings", str),
    "--mcp-config": ("mcp_servers", str),
    "--system-prompt-file": ("system_prompt", lambda path: {"type": "file", "path": path}),
}
_SWITCHES = {
    "--fork-session": "fork_session",
    "--include-partial-messages": "include_partial_messages",
    "--strict-mcp-config": "strict_mcp_config",
}


def launch(task: Task, context: LaunchContext) -> Launch:
    """The options of the channel `rpc`, so that a run may do neither more nor less; the SDK starts the program."""
    usual = launch_rpc(task, context)
    setup = msgspec.json.decode(usual.stdin, type=know_type(Setup))
    options = {"cli_path": context.program, **build_options(usual.argv[2:])}
    return msgspec.structs.replace(
        usual,
        argv=(context.python, "-I", _HOST, os.path.dirname(os.path.dirname(context.package))),
        stdin=msgspec.json.encode(msgspec.structs.replace(setup, options=options)),
        reads=(context.python, context.package, _HOST),
    )


class ClaudeSdkDialect(ClaudeRpcDialect):
    """The language of the channel `rpc`. To load the SDK takes long, and nobody can be interrupted before that: the
    first message waits for it here."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        super().__init__(task, reported)
        self._started = False
        self._first: SendMessage | None = None

    def send(self, command: Command) -> DialectOutput:
        if self._started or not isinstance(command, SendMessage | Interrupt | Cancel):
            return super().send(command)
        if isinstance(command, SendMessage):
            self._first = self._first or command
            return NO_OUTPUT
        waiting, self._first = self._first, None
        return DialectOutput([TurnInterrupted()] if waiting else ())

    def _on_control_response(self, frame: ControlFrame) -> DialectOutput:
        output = super()._on_control_response(frame)
        if frame.response.get("request_id") != INITIALIZE or frame.response.get("subtype") == "error":
            return output
        self._started = True
        waiting, self._first = self._first, None
        return self.send(waiting) if waiting else output


def build_options(argv: Sequence[str]) -> dict[str, Any]:
    """A command line as the SDK's options. Raises `BadInput` for words that it has no place for."""
    # Without one, the SDK leaves the program's own prompt out.
    options: dict[str, Any] = {"system_prompt": {"type": "preset", "preset": "claude_code"}}
    folders: list[str] = []
    passed_on: dict[str, str | None] = {}
    for name, value in _split_options(argv):
        if name in _SAID_ANYWAY:
            continue
        if name == "--add-dir":
            folders.append(value or "")
        elif name in _SWITCHES:
            options[_SWITCHES[name]] = True
        elif name in _FIELDS:
            field, read = _FIELDS[name]
            options[field] = read(value or "")
        else:
            passed_on[name.removeprefix("--")] = value
    return {**options, "add_dirs": folders, "extra_args": passed_on}


def _split_options(argv: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Every option with its value, or None; one that is not known has a value where no other option follows it."""
    words = list(argv)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if not name.startswith("--"):
            step = "Write it as --NAME=VALUE, or choose --channel rpc."
            raise BadInput("options", name, "the SDK passes on options that have a long name only.", next_step=step)
        takes = name in _FIELDS or name == "--add-dir" or _SAID_ANYWAY.get(name) == 1
        if not equals and words and (takes or not (name in _SWITCHES or words[0].startswith("-"))):
            yield name, words.pop(0)
        else:
            yield name, value if equals else None
