"""One tool call as far as it is known, and what can be read from that: its output, its command, its exit code."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from inspan.protocol.events import Change

from .settings import as_object

_OUTPUTS = ("output", "formatted_output", "stdout", "content", "text", "message", "error")
_EXIT_CODES = ("exit_code", "exitCode", "exit")
_EXIT_CODE = re.compile(r"\bexit(?:ed with)?(?: exit)? code:? (\d+)", re.IGNORECASE)


class ToolCall:
    """One tool call, as far as it is known."""

    def __init__(self, identity: str) -> None:
        self.id = identity
        self.name = ""
        self.kind = ""
        self.title = ""
        self.input: Any = None
        self.parent = ""
        self.started = False
        self.refusal = ""
        self.output: Any = None
        self.exit_code: int | None = None
        self.texts: list[str] = []
        self.streamed: list[str] = []
        self.streamed_end = ""
        self.diffs: dict[str, Change] = {}
        self.paths: list[str] = []


def find_in_meta(update: Mapping[str, Any], name: str) -> Any:
    """A word in what an agent says beside the protocol, at any depth of it."""
    return find_nested(as_object(update.get("_meta")), name)


def find_nested(meta: Mapping[str, Any], name: str, depth: int = 3) -> Any:
    """The value of that name in an object or in those within it."""
    if name in meta:
        return meta[name]
    inner = (find_nested(as_object(value), name, depth - 1) for value in meta.values()) if depth else iter(())
    return next((found for found in inner if found is not None), None)


def output_of(call: ToolCall) -> str:
    """What the call gave back: as it streamed, as the tool said it, or as it is shown."""
    if call.streamed:
        return "".join(call.streamed)
    if isinstance(call.output, str):
        return call.output
    raw = as_object(call.output)
    said = next((raw[name] for name in _OUTPUTS if raw.get(name) and isinstance(raw[name], str)), None)
    if said is not None:
        return str(said)
    if call.texts:
        return "\n".join(call.texts)
    return msgspec.json.encode(call.output).decode() if call.output and not call.diffs else ""


def command_of(call: ToolCall) -> str | None:
    """The command that a call runs; nothing where it runs none."""
    if call.kind != "execute":
        return None
    given = as_object(call.input)
    words = given.get("command") or given.get("cmd")
    if isinstance(words, list):
        return shlex.join(map(str, cast(list[object], words)))
    return str(words) if words else None


def exit_code_of(call: ToolCall, output: str) -> int | None:
    """The exit code of a command, where it is told in any way."""
    if call.exit_code is not None:
        return call.exit_code
    raw = as_object(call.output)
    for place in (raw, as_object(raw.get("metadata"))):
        for name in _EXIT_CODES:
            if isinstance(place.get(name), int):
                return place[name]
    match = _EXIT_CODE.search(output[-400:]) or _EXIT_CODE.match(output)
    return int(match[1]) if match else None
