"""Qwen Code's tools: which there are, and what a call of one tells."""

import re
from collections.abc import Iterable
from typing import Any

from inspan.contracts.tool_grants import split_pattern
from inspan.dialects.json_values import Json, as_object, get_text
from inspan.dialects.plans import plan_events
from inspan.protocol.events import (
    CommandExecuted,
    Event,
    FileChanged,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)

SHELL = "run_shell_command"
READERS = (SHELL, "read_file", "grep_search", "glob", "list_directory")
# All of 0.24.4. A rule about the first of a family is one about the others as well.
_FAMILIES = {
    SHELL: ("monitor",),
    "read_file": ("grep_search", "glob", "list_directory", "zoom_image"),
    "edit": ("write_file", "notebook_edit"),
}
_OTHERS = (
    *("exec", "todo_write", "save_memory", "agent", "skill", "enter_plan_mode", "exit_plan_mode", "web_fetch"),
    *("web_search", "image_gen", "lsp", "ask_user_question", "cron_create", "cron_list", "cron_delete", "loop_wakeup"),
    *("create_sub_session", "list_agents", "task_stop", "task_create", "task_update", "task_list", "team_create"),
    *("team_delete", "team_plan_approval", "request_shutdown", "send_message", "tool_call", "tool_search"),
    *("read_mcp_resource", "enter_worktree", "exit_worktree", "workflow", "artifact", "record_artifact"),
    *("record_source", "report_findings", "get_goal", "update_goal", "propose_goal", "display_image"),
)
# Names of tools as they are known to all agents → its own.
_NAMES = {
    "Bash": SHELL,
    "Read": "read_file",
    "Grep": "grep_search",
    "Glob": "glob",
    "LS": "list_directory",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "write_file",
    "NotebookEdit": "notebook_edit",
    "Task": "agent",
    "Agent": "agent",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "TodoWrite": "todo_write",
    "Skill": "skill",
}
_EDITORS = {"edit": "file_path", "write_file": "file_path", "notebook_edit": "notebook_path"}
_CREATED = re.compile(r"Successfully created|Created new")
_COMMAND_END = re.compile(r"\nExit Code: (\d+)\nSignal: (?:(\d+)|\(none\))\n")
_DENIED = re.compile(
    r'This ".*?" invocation was denied by permission rules|Qwen Code requires permission to use '
    r'|Tool ".*?" (not found in registry|is denied by permission rules|is a built-in tool that is disabled)'
)


def to_own_name(pattern: str) -> str:
    """The tool that a pattern is about, by its own name: `Bash(git *)` is about its shell."""
    name, _ = split_pattern(pattern)
    return _NAMES.get(name, name)


def to_own_pattern(pattern: str) -> str:
    """The pattern with its tool's own name: it knows the others too, but does not offer the tool for them (0.24.4)."""
    _, bracket, rest = pattern.partition("(")
    return f"{to_own_name(pattern)}{bracket}{rest}"


def tools_except(offered: Iterable[str]) -> list[str]:
    """Every tool but these. The first of a family stays while one of it is offered, or that one would go with it."""
    kept = set(offered)
    kept |= {first for first, rest in _FAMILIES.items() if kept & set(rest)}
    known = [name for first, rest in _FAMILIES.items() for name in (first, *rest)]
    return [name for name in (*known, *_OTHERS) if name not in kept]


def tool_start_events(call: str, name: str, given: Any, *, parent: str = "") -> list[Event]:
    """What the start of a call tells."""
    plan = plan_events(as_object(given).get("todos")) if name == "todo_write" else []
    return [ToolStarted(id=call, name=name, input=given, parent=parent), *plan]


def tool_end_events(call: str, name: str, given: Any, *, output: str, is_error: bool) -> list[Event]:
    """What the end of a call tells."""
    end: Event = ToolCompleted(id=call, name=name, output=output)
    if is_error:
        end = ToolFailed(id=call, name=name, output=output, denied=bool(_DENIED.match(output)))
    if name == SHELL:
        return [end, *_command_events(call, as_object(given), output, is_error=is_error)]
    if name in _EDITORS and not is_error:
        path = get_text(as_object(given), _EDITORS[name])
        return [end, FileChanged(path=path, change="added" if _CREATED.match(output) else "modified", id=call)]
    return [end]


def _command_events(call: str, given: Json, output: str, *, is_error: bool) -> list[Event]:
    """A command that ran to its end: what it printed is told alone where it printed something and went well."""
    found = _COMMAND_END.findall(output) if output.startswith("Command: ") else []
    if given.get("is_background") or (is_error and not found):
        return []
    code, signal = found[-1] if found else ("0", "")
    exit_code = 128 + int(signal) if signal else int(code)
    return [CommandExecuted(id=call, command=get_text(given, "command"), exit_code=exit_code)]
