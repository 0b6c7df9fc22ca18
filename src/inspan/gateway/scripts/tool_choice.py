"""Which of the tools that a request offers does a scripted step, and with what arguments."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from inspan.gateway.scripts.arguments import fill_arguments
from inspan.gateway.scripts.patches import build_add_patch, build_update_patch
from inspan.gateway.scripts.scenario import Edit, Use, Write
from inspan.gateway.upstream import Tool, ToolKind
from inspan.gateway.wires.wire import ToolUse

from .tool_kinds import COMMAND_FIELDS, CONTENT_FIELDS, NEW_FIELDS, OLD_FIELDS, PATH_FIELDS, find_field

Step = str | Write | Edit | Use
"""A shell command, a file to write, an edit, or a tool by its name."""

_PATCH_FIELDS = ("input", "patchtext", "patch")
_ANSWER_TOOL = "StructuredOutput"
_MAX_WAIT_MS = 30_000
_EDIT_PROGRAM = (
    "import pathlib, sys; path = pathlib.Path(sys.argv[1]); text = path.read_text(); "
    "sys.argv[2] in text or sys.exit('the text is not there'); "
    "path.write_text(text.replace(sys.argv[2], sys.argv[3], 1))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTools:
    """The tools of one request, and the folder that the agent works in."""

    tools: Mapping[tuple[str, ToolKind], Tool]
    cwd: Path

    def resolve_path(self, path: str) -> str:
        return str(self.cwd / path)

    def read_text(self, path: str) -> str:
        """What the file holds now; empty when it cannot be read."""
        try:
            return (self.cwd / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


def choose_tool(step: Step, tools: Iterable[Tool], *, cwd: Path) -> ToolUse | None:
    """The tool use that does the step; None when nothing on offer can do it."""
    offer = OfferedTools(tools={(tool.name, tool.kind): tool for tool in tools}, cwd=cwd)
    match step:
        case str():
            return _use_shell(step, offer)
        case Write():
            return (
                _try_candidates(_WRITERS, step, offer)
                or _use_writer(step, offer)
                or _use_shell(_build_write_command(step), offer)
            )
        case Edit():
            return (
                _try_candidates(_EDITORS, step, offer)
                or _use_editor(step, offer)
                or _use_shell(_build_edit_command(step), offer)
            )
        case Use():
            return _use_by_name(step, offer)


def choose_answer_tool(answer: Mapping[str, object], tools: Iterable[Tool]) -> ToolUse | None:
    """The use of the tool by which an agent takes answers that must fit a schema; None where it offers none."""
    tool = next((tool for tool in tools if tool.name == _ANSWER_TOOL), None)
    return _build_function_use(tool, answer) if tool else None


def _use_by_name(step: Use, offer: OfferedTools) -> ToolUse:
    """A tool that is not offered is called all the same, as a model may; in JavaScript where tools are called so."""
    if step.server and (served := _use_server_tool(step, offer)):
        return served
    if step.server:  # Not on offer: some agents have their model search for it first.
        takes_code = ("exec", "custom") in offer.tools or any(name.startswith("list_mcp_") for name, _ in offer.tools)
        server = _normalize_name(step.server) if takes_code else step.server
        step = Use(tool=f"mcp__{server}__{step.tool}", input=step.input)
    for (name, kind), tool in offer.tools.items():
        if step.tool in (name, f"{tool.namespace}{name}") and kind == "function":
            return _build_function_use(tool, step.input)
    server, _, tool = step.tool.rpartition("__")
    if server and any(name.startswith("list_mcp_") for name, _ in offer.tools):
        return ToolUse(name=tool, namespace=server, arguments=step.input)  # There, but found by a search of its own.
    script = offer.tools.get(("exec", "custom"))
    if script:
        return _build_custom_use(script, f"text(JSON.stringify(await tools.{step.tool}({_to_literal(step.input)})));")
    return ToolUse(name=step.tool, arguments=step.input)


def _use_server_tool(step: Use, offer: OfferedTools) -> ToolUse | None:
    """A server's tool by whatever name the agent gives it: the two names in it stand in this order.

    The shortest such name: another server's, or another tool's, may hold these and more.
    """
    words = re.compile(rf".*{_normalize_name(step.server)}.*_{_normalize_name(step.tool)}")
    names = {
        _normalize_name(f"{tool.namespace}_{name}"): tool
        for (name, kind), tool in offer.tools.items()
        if kind == "function"
    }
    found = min((name for name in names if words.fullmatch(name)), key=len, default="")
    return _build_function_use(names[found], step.input) if found else None


def _normalize_name(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()


StepKind = TypeVar("StepKind", str, Write, Edit)
_Builder = Callable[[StepKind, Tool, OfferedTools], ToolUse]
_Candidates = tuple[tuple[str, ToolKind, _Builder[StepKind]], ...]


def _try_candidates(candidates: _Candidates[StepKind], step: StepKind, offer: OfferedTools) -> ToolUse | None:
    for name, kind, build in candidates:
        tool = offer.tools.get((name, kind))
        if tool is not None:
            return build(step, tool, offer)
    return None


def _run_command(command: str, tool: Tool, offer: OfferedTools) -> ToolUse:
    given = format_command(tool, "command", command)
    described = {"description": "Run a command"} if "description" in tool.fields else {}
    return _build_function_use(tool, {"command": given, **described})


def _run_cmd(command: str, tool: Tool, offer: OfferedTools) -> ToolUse:
    return _build_function_use(tool, {"cmd": command, "yield_time_ms": _MAX_WAIT_MS})


def _run_in_javascript(command: str, tool: Tool, offer: OfferedTools) -> ToolUse:
    given = _to_literal({"cmd": command, "yield_time_ms": _MAX_WAIT_MS})
    return _build_custom_use(tool, f"const result = await tools.exec_command({given});\ntext(JSON.stringify(result));")


def _write_fields(step: Write, tool: Tool, offer: OfferedTools) -> ToolUse:
    written = {
        _field_name(tool, PATH_FIELDS): offer.resolve_path(step.path),
        _field_name(tool, CONTENT_FIELDS): step.content,
    }
    return _build_function_use(tool, written)


def _edit_fields(step: Edit, tool: Tool, offer: OfferedTools) -> ToolUse:
    path = {_field_name(tool, PATH_FIELDS): offer.resolve_path(step.path)}
    if tool.fields.get("edits") == "array":
        return _build_function_use(tool, {**path, "edits": [{"oldText": step.old, "newText": step.new}]})
    changed = {_field_name(tool, OLD_FIELDS): step.old, _field_name(tool, NEW_FIELDS): step.new}
    instructed = {"instruction": "Edit a file"} if "instruction" in tool.fields else {}
    return _build_function_use(tool, {**path, **changed, **instructed})


def _build_patch(step: Write | Edit, offer: OfferedTools) -> str:
    if isinstance(step, Write):
        return build_add_patch(step.path, step.content)
    return build_update_patch(step.path, old=step.old, new=step.new, text=offer.read_text(step.path))


def _patch_as_text(step: Write | Edit, tool: Tool, offer: OfferedTools) -> ToolUse:
    return _build_custom_use(tool, _build_patch(step, offer))


def _patch_as_argument(step: Write | Edit, tool: Tool, offer: OfferedTools) -> ToolUse:
    return _build_function_use(tool, {_field_name(tool, _PATCH_FIELDS): _build_patch(step, offer)})


def _patch_in_javascript(step: Write | Edit, tool: Tool, offer: OfferedTools) -> ToolUse:
    return _build_custom_use(tool, f"text(await tools.apply_patch({_to_literal(_build_patch(step, offer))}));")


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
_PATCHERS: tuple[tuple[str, ToolKind, Callable[[Write | Edit, Tool, OfferedTools], ToolUse]], ...] = (
    ("apply_patch", "custom", _patch_as_text),
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


def format_command(tool: Tool, field: str, command: str) -> str | list[str]:
    """A command in the shape that an argument of the tool has."""
    return ["bash", "-lc", command] if tool.fields.get(field) == "array" else command


def _use_shell(command: str, offer: OfferedTools) -> ToolUse | None:
    """A shell by its name, else whatever takes a command."""
    if known := _try_candidates(_SHELLS, command, offer):
        return known
    for tool in _function_tools(offer):
        if (field := find_field(tool, COMMAND_FIELDS)) and tool.fields[field] in ("string", "array"):
            return _build_function_use(tool, fill_arguments(tool, {field: format_command(tool, field, command)}))
    return None


def _use_writer(step: Write, offer: OfferedTools) -> ToolUse | None:
    """Whatever takes the path of a file and what is to stand in it."""
    for tool in _function_tools(offer):
        path, content = find_field(tool, PATH_FIELDS), find_field(tool, CONTENT_FIELDS)
        if path and content and not find_field(tool, OLD_FIELDS):
            return _build_function_use(
                tool, fill_arguments(tool, {path: offer.resolve_path(step.path), content: step.content})
            )
    return None


def _use_editor(step: Edit, offer: OfferedTools) -> ToolUse | None:
    """Whatever takes the path of a file, a text in it and another."""
    for tool in _function_tools(offer):
        path, old, new = (find_field(tool, names) for names in (PATH_FIELDS, OLD_FIELDS, NEW_FIELDS))
        if path and tool.fields.get("edits") == "array":
            return _edit_fields(step, tool, offer)
        if path and old and new:
            return _build_function_use(
                tool, fill_arguments(tool, {path: offer.resolve_path(step.path), old: step.old, new: step.new})
            )
    return None


def _function_tools(offer: OfferedTools) -> list[Tool]:
    return [tool for (_, kind), tool in offer.tools.items() if kind == "function"]


def _build_write_command(step: Write) -> str:
    path = shlex.quote(step.path)
    return f'mkdir -p -- "$(dirname -- {path})" && printf %s {shlex.quote(step.content)} > {path}'


def _build_edit_command(step: Edit) -> str:
    return shlex.join(["python3", "-c", _EDIT_PROGRAM, step.path, step.old, step.new])


def _field_name(tool: Tool, names: tuple[str, ...]) -> str:
    """The name that this tool has for a field."""
    return find_field(tool, names) or names[0]


def _build_function_use(tool: Tool, arguments: Mapping[str, object]) -> ToolUse:
    return ToolUse(name=tool.name, namespace=tool.namespace, arguments=arguments)


def _build_custom_use(tool: Tool, text: str) -> ToolUse:
    return ToolUse(name=tool.name, kind="custom", namespace=tool.namespace, text=text)


def _to_literal(value: object) -> str:
    return msgspec.json.encode(value).decode()
