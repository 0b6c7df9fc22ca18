"""Rules for Gemini CLI's policy engine: what a run may use, in a file of the tier that no settings can loosen."""

import re
from collections.abc import Iterable

import msgspec

from inspan.contracts.tool_grants import (
    acts_unasked,
    asks_first,
    list_granted_tools,
    list_unasked_tools,
    offers_everything,
    split_mcp_tool,
    split_pattern,
)
from inspan.errors import BadInput
from inspan.protocol.task import Task

_SHELL = "run_shell_command"
_DENIED, _ASKED, _ALLOWED, _FORBIDDEN = 1, 300, 500, 900
# What becomes of a tool that no other rule is about, by whether it is asked about.
_USUAL = {False: "deny", True: "ask_user"}
# The names that callers use for any agent → its own.
_NAMES: dict[str, tuple[str, ...]] = {
    "Bash": (_SHELL,),
    "Edit": ("replace",),
    "Glob": ("glob", "list_directory"),
    "Grep": ("grep_search",),
    "Read": ("read_file", "read_many_files", "list_directory"),
    "TodoWrite": ("write_todos",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
    "Write": ("write_file",),
}
_ONLY_READING = ("Read", "Grep", "Glob")
_READERS = (*_ONLY_READING, "Bash")
# What changes only its own notes or what it shows, and what begins work whose tools are asked about themselves (0.61).
_HARMLESS = ("TodoWrite", "update_topic", "complete_task", "invoke_agent", "cli_help", "get_internal_docs")


def build_rules(task: Task) -> bytes:
    """The rules of this task as TOML; empty where nothing is held back.

    A tool that is denied as a whole is not even offered to the model (0.61).
    """
    forbidden = _rules_for("disallowed_tools", task.disallowed_tools, decision="deny", priority=_FORBIDDEN)
    if acts_unasked(task):
        return "".join(forbidden).encode()
    granted = _build_asking_rules(task) if asks_first(task) else _build_grants(task)
    everything = _format_rule({"toolName": "*"}, decision=_USUAL[_asks_about_all(task)], priority=_DENIED)
    return "".join([everything, *granted, *forbidden]).encode()


def _build_grants(task: Task) -> list[str]:
    allowed = (*(_READERS if task.mode == "review" else ()), *(task.allowed_tools or ()))
    return _rules_for("allowed_tools", dict.fromkeys(allowed), decision="allow", priority=_ALLOWED)


def _asks_about_all(task: Task) -> bool:
    return asks_first(task) and offers_everything(task)


def _build_asking_rules(task: Task) -> list[str]:
    """What it asks about, which the rules of the run or a person answer, and what only reads."""
    asked = () if _asks_about_all(task) else (*(_READERS if task.mode == "review" else ()), *list_granted_tools(task))
    offered = {split_pattern(tool)[0] for tool in asked}
    unasked = (*list_unasked_tools(task, (*_ONLY_READING, *_HARMLESS)), *(_HARMLESS if task.hooks else ()))
    unasked = [tool for tool in unasked if _asks_about_all(task) or tool in offered]
    return [
        *_rules_for("ask", dict.fromkeys(asked), decision="ask_user", priority=_ASKED),
        *_rules_for("ask", unasked, decision="allow", priority=_ALLOWED),
    ]


def _rules_for(field: str, tools: Iterable[str], *, decision: str, priority: int) -> list[str]:
    return [
        _format_rule(match, decision=decision, priority=priority)
        for tool in tools
        for match in _tool_matches(field, tool)
    ]


def _format_rule(match: dict[str, object], *, decision: str, priority: int) -> str:
    """One rule. Where every command is allowed, so are those that write to a file by `>`."""
    whole = match == {"toolName": _SHELL} and decision == "allow"
    fields = {**match, "decision": decision, "priority": priority, **({"allowRedirection": True} if whole else {})}
    lines = [f"{name} = {_to_toml(value)}" for name, value in fields.items()]
    return "\n".join(("[[rule]]", *lines, "", ""))


def _tool_matches(field: str, tool: str) -> list[dict[str, object]]:
    """What a pattern such as `Bash(git *)`, `mcp__server__tool` or `Read` is about."""
    if server := split_mcp_tool(tool):
        return [{"mcpName": server[0], "toolName": server[1] or "*"}]
    name, pattern = split_pattern(tool)
    own = _NAMES.get(name, (name,))
    if not pattern:
        return [{"toolName": each} for each in own]
    if own != (_SHELL,):
        raise BadInput(
            field,
            tool,
            "Gemini CLI holds only commands to a pattern, no other tool.",
            next_step=f"Use {name} without a pattern, or Bash(…).",
        )
    return [_command_match(pattern)]


def _command_match(pattern: str) -> dict[str, object]:
    """`git *` is every command that begins so, `git status` that command alone; each part of a line must fit."""
    if pattern == "*":
        return {"toolName": _SHELL}
    start = re.sub(r"[: ]?\*$", "", pattern)
    if start != pattern and "*" not in start:
        return {"toolName": _SHELL, "commandPrefix": start}
    # The engine looks for it in the arguments as JSON, right behind `"command":"`.
    parts = (re.escape(msgspec.json.encode(part).decode()[1:-1]) for part in pattern.split("*"))
    return {"toolName": _SHELL, "commandRegex": ".*".join(parts) + '"'}


def _to_toml(value: object) -> str:
    """A TOML value; JSON's spelling is TOML's too, but for the character that JSON leaves as it is."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
