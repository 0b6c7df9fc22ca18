"""Which of the tools that a request offers does a scripted step, and with what arguments."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from inspan.gateway.scripts.patches import add_file, update_file
from inspan.gateway.scripts.scenario import Edit, Use, Write
from inspan.gateway.upstream import Tool, ToolKind
from inspan.gateway.wires.wire import ToolUse

Step = str | Write | Edit | Use
"""A shell command, a file to write, an edit, or a tool by its name."""

_PATH_FIELDS = ("file_path", "filePath", "path", "absolute_path")
_CONTENT_FIELDS = ("content", "file_text")
_OLD_FIELDS = ("old_string", "oldString", "old_str", "oldText", "before")
_NEW_FIELDS = ("new_string", "newString", "new_str", "newText", "after")
_PATCH_FIELDS = ("input", "patchText", "patch")
_ANSWER_TOOL = "StructuredOutput"
_LONGEST_WAIT_MS = 30_000
_EDIT_PROGRAM = (
    "import pathlib, sys; path = pathlib.Path(sys.argv[1]); text = path.read_text(); "
    "sys.argv[2] in text or sys.exit('the text is not there'); "
    "path.write_text(text.replace(sys.argv[2], sys.argv[3], 1))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """The tools of one request, and the folder that the agent works in."""

    tools: Mapping[tuple[str, ToolKind], Tool]
    cwd: Path

    def absolute(self, path: str) -> str:
        return str(self.cwd / path)

    def text_of(self, path: str) -> str:
        """What the file holds now; empty when it cannot be read."""
        try:
            return (self.cwd / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


def pick(step: Step, tools: Iterable[Tool], *, cwd: Path) -> ToolUse | None:
    """The tool use that does the step; None when nothing on offer can do it."""
    offer = Offer(tools={(tool.name, tool.kind): tool for tool in tools}, cwd=cwd)
    match step:
        case str():
            return _first(_SHELLS, step, offer)
        case Write():
            return _first(_WRITERS, step, offer) or _first(_SHELLS, _write_command(step), offer)
        case Edit():
            return _first(_EDITORS, step, offer) or _first(_SHELLS, _edit_command(step), offer)
        case Use():
            return _by_name(step, offer)


def answering(answer: Mapping[str, object], tools: Iterable[Tool]) -> ToolUse | None:
    """The use of the tool by which an agent takes answers that must fit a schema; None where it offers none."""
    tool = next((tool for tool in tools if tool.name == _ANSWER_TOOL), None)
    return _function(tool, answer) if tool else None


def _by_name(step: Use, offer: Offer) -> ToolUse:
    """A tool that is not offered is called all the same, as a model may; in JavaScript where tools are called so."""
    if step.server and (served := _of_server(step, offer)):
        return served
    if step.server:  # Not on offer: some agents have their model search for it first.
        takes_code = ("exec", "custom") in offer.tools or any(name.startswith("list_mcp_") for name, _ in offer.tools)
        server = _plain(step.server) if takes_code else step.server
        step = Use(tool=f"mcp__{server}__{step.tool}", input=step.input)
    for (name, kind), tool in offer.tools.items():
        if step.tool in (name, f"{tool.namespace}{name}") and kind == "function":
            return _function(tool, step.input)
    server, _, tool = step.tool.rpartition("__")
    if server and any(name.startswith("list_mcp_") for name, _ in offer.tools):
        return ToolUse(name=tool, namespace=server, arguments=step.input)  # There, but found by a search of its own.
    script = offer.tools.get(("exec", "custom"))
    if script:
        return _custom(script, f"text(JSON.stringify(await tools.{step.tool}({_literal(step.input)})));")
    return ToolUse(name=step.tool, arguments=step.input)


def _of_server(step: Use, offer: Offer) -> ToolUse | None:
    """A server's tool by whatever name the agent gives it: the two names in it stand in this order.

    The shortest such name: another server's, or another tool's, may hold these and more.
    """
    words = re.compile(rf".*{_plain(step.server)}.*_{_plain(step.tool)}")
    names = {
        _plain(f"{tool.namespace}_{name}"): tool for (name, kind), tool in offer.tools.items() if kind == "function"
    }
    found = min((name for name in names if words.fullmatch(name)), key=len, default="")
    return _function(names[found], step.input) if found else None


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()


StepKind = TypeVar("StepKind", str, Write, Edit)
_Builder = Callable[[StepKind, Tool, Offer], ToolUse]
_Candidates = tuple[tuple[str, ToolKind, _Builder[StepKind]], ...]


def _first(candidates: _Candidates[StepKind], step: StepKind, offer: Offer) -> ToolUse | None:
    for name, kind, build in candidates:
        tool = offer.tools.get((name, kind))
        if tool is not None:
            return build(step, tool, offer)
    return None


def _run_command(command: str, tool: Tool, offer: Offer) -> ToolUse:
    given = ["bash", "-lc", command] if tool.fields.get("command") == "array" else command
    described = {"description": "Run a command"} if "description" in tool.fields else {}
    return _function(tool, {"command": given, **described})


def _run_cmd(command: str, tool: Tool, offer: Offer) -> ToolUse:
    return _function(tool, {"cmd": command, "yield_time_ms": _LONGEST_WAIT_MS})


def _run_in_javascript(command: str, tool: Tool, offer: Offer) -> ToolUse:
    given = _literal({"cmd": command, "yield_time_ms": _LONGEST_WAIT_MS})
    return _custom(tool, f"const result = await tools.exec_command({given});\ntext(JSON.stringify(result));")


def _write_fields(step: Write, tool: Tool, offer: Offer) -> ToolUse:
    written = {
        _named(tool, _PATH_FIELDS): offer.absolute(step.path),
        _named(tool, _CONTENT_FIELDS): step.content,
    }
    return _function(tool, written)


def _edit_fields(step: Edit, tool: Tool, offer: Offer) -> ToolUse:
    path = {_named(tool, _PATH_FIELDS): offer.absolute(step.path)}
    if tool.fields.get("edits") == "array":
        return _function(tool, {**path, "edits": [{"oldText": step.old, "newText": step.new}]})
    changed = {_named(tool, _OLD_FIELDS): step.old, _named(tool, _NEW_FIELDS): step.new}
    instructed = {"instruction": "Edit a file"} if "instruction" in tool.fields else {}
    return _function(tool, {**path, **changed, **instructed})


def _patch(step: Write | Edit, offer: Offer) -> str:
    if isinstance(step, Write):
        return add_file(step.path, step.content)
    return update_file(step.path, old=step.old, new=step.new, text=offer.text_of(step.path))


def _patch_freely(step: Write | Edit, tool: Tool, offer: Offer) -> ToolUse:
    return _custom(tool, _patch(step, offer))


def _patch_as_argument(step: Write | Edit, tool: Tool, offer: Offer) -> ToolUse:
    return _function(tool, {_named(tool, _PATCH_FIELDS): _patch(step, offer)})


def _patch_in_javascript(step: Write | Edit, tool: Tool, offer: Offer) -> ToolUse:
    return _custom(tool, f"text(await tools.apply_patch({_literal(_patch(step, offer))}));")


_SHELLS: _Candidates[str] = (
    ("Bash", "function", _run_command),
    ("exec_command", "function", _run_cmd),
    ("run_shell_command", "function", _run_command),
    ("shell_command", "function", _run_command),
    ("shell", "function", _run_command),
    ("developer__shell", "function", _run_command),
    ("bash", "function", _run_command),
    ("execute_command", "function", _run_command),
    ("exec", "custom", _run_in_javascript),
)
_PATCHERS: tuple[tuple[str, ToolKind, Callable[[Write | Edit, Tool, Offer], ToolUse]], ...] = (
    ("apply_patch", "custom", _patch_freely),
    ("apply_patch", "function", _patch_as_argument),
    ("exec", "custom", _patch_in_javascript),
)
_WRITERS: _Candidates[Write] = (
    ("Write", "function", _write_fields),
    ("write_file", "function", _write_fields),
    ("write", "function", _write_fields),
    ("create", "function", _write_fields),
    *_PATCHERS,
)
_EDITORS: _Candidates[Edit] = (
    ("Edit", "function", _edit_fields),
    ("replace", "function", _edit_fields),
    ("edit", "function", _edit_fields),
    *_PATCHERS,
)


def _write_command(step: Write) -> str:
    path = shlex.quote(step.path)
    return f'mkdir -p -- "$(dirname -- {path})" && printf %s {shlex.quote(step.content)} > {path}'


def _edit_command(step: Edit) -> str:
    return shlex.join(["python3", "-c", _EDIT_PROGRAM, step.path, step.old, step.new])


def _named(tool: Tool, names: tuple[str, ...]) -> str:
    """The name that this tool has for a field."""
    return next((name for name in names if name in tool.fields), names[0])


def _function(tool: Tool, arguments: Mapping[str, object]) -> ToolUse:
    return ToolUse(name=tool.name, namespace=tool.namespace, arguments=arguments)


def _custom(tool: Tool, text: str) -> ToolUse:
    return ToolUse(name=tool.name, kind="custom", namespace=tool.namespace, text=text)


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()
