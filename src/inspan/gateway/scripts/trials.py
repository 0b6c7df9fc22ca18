"""Calls that show whether a tool on offer can be used: harmless, and seen on the disk where they are carried out."""

import shlex
from pathlib import Path
from typing import Any

from inspan.contracts.journal import SHELL_OUTPUT, TRIAL_FILE_PREFIX
from inspan.gateway.scripts.arguments import fill_arguments
from inspan.gateway.scripts.patches import build_add_patch
from inspan.gateway.scripts.scenario import Edit, Write
from inspan.gateway.upstream import Tool
from inspan.gateway.wires.wire import ToolUse

from .tool_choice import choose_tool, format_command
from .tool_kinds import COMMAND_FIELDS, CONTENT_FIELDS, OLD_FIELDS, PATCH_FIELDS, PATH_FIELDS, classify_tool, find_field


def build_trial(tool: Tool, *, number: int, cwd: Path, with_output: bool = False) -> ToolUse:
    """A use of the tool that leaves a file behind, or changes one, where the tool is carried out and can do so.

    A command that is tried `with_output` tells that it ran even where it can write nothing; the other is as plain as
    can be.
    """
    path = cwd / f"{TRIAL_FILE_PREFIX}-{number}.txt"
    command = (
        f"{_touch_command(path)}; echo {SHELL_OUTPUT.removesuffix('42')}$((40 + 2))"
        if with_output
        else _touch_command(path)
    )
    if (known := _use_known_tool(tool, path, cwd, command)) is not None:
        return known
    if tool.kind == "custom":
        text = build_add_patch(path.name, "tried\n") if classify_tool(tool) == "writes" else command
        return ToolUse(name=tool.name, kind="custom", namespace=tool.namespace, text=text)
    return ToolUse(name=tool.name, namespace=tool.namespace, arguments=_build_arguments(tool, path, cwd, command))


def _use_known_tool(tool: Tool, path: Path, cwd: Path, command: str) -> ToolUse | None:
    """As a step of a script would use it."""
    steps = {"runs": [command], "writes": [Write(path=path.name, content="tried\n"), _find_edit(cwd)]}
    for step in steps.get(classify_tool(tool), []):
        if step and (use := choose_tool(step, [tool], cwd=cwd)):
            return use
    return None


def _touch_command(path: Path) -> str:
    return shlex.join(["touch", str(path)])


def _find_edit(cwd: Path) -> Edit | None:
    """A change of the first text in the folder."""
    for path in sorted(cwd.iterdir()) if cwd.is_dir() else []:
        try:
            words = path.read_text(encoding="utf-8").split() if path.is_file() else []
        except (OSError, UnicodeDecodeError):
            continue
        if words:
            return Edit(path=path.name, old=words[0], new="tried")
    return None


def _build_arguments(tool: Tool, path: Path, cwd: Path, command: str) -> dict[str, Any]:
    """All that the schema requires, and every argument by which the tool could run or write something."""
    field, path_field = find_field(tool, COMMAND_FIELDS), find_field(tool, PATH_FIELDS)
    meant: dict[str, object] = {}
    if not field:  # Which of its words is a command, if any, is not known.
        meant |= {name: command for name, type_ in tool.fields.items() if type_ == "string"}
    meant |= {
        field: format_command(tool, field, command),
        path_field: str(path),
        find_field(tool, CONTENT_FIELDS): "tried\n",
        find_field(tool, PATCH_FIELDS): build_add_patch(path.name, "tried\n"),
    }
    if (old := find_field(tool, OLD_FIELDS)) and (edit := _find_edit(cwd)):
        meant |= {path_field: str(cwd / edit.path), old: edit.old}
    return fill_arguments(tool, meant)
