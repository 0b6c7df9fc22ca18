"""Rules for Gemini CLI's policy engine: what a run may use, in a file of the tier that no settings can loosen."""

import re
from collections.abc import Iterable

import msgspec

from inspan.contracts.granting import is_free, of_server, parted
from inspan.errors import BadInput
from inspan.protocol.task import Task

_SHELL = "run_shell_command"
_DENIED, _ALLOWED, _FORBIDDEN = 1, 500, 900
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
_READERS = ("Read", "Grep", "Glob", "Bash")


def rules(task: Task) -> bytes:
    """The rules of this task as TOML; empty where nothing is held back.

    A tool that is denied as a whole is not even offered to the model (0.61).
    """
    forbidden = _each("disallowed_tools", task.disallowed_tools, decision="deny", priority=_FORBIDDEN)
    if is_free(task):
        return "".join(forbidden).encode()
    allowed = (*(_READERS if task.mode == "review" else ()), *(task.allowed_tools or ()))
    granted = _each("allowed_tools", dict.fromkeys(allowed), decision="allow", priority=_ALLOWED)
    everything = _rule({"toolName": "*"}, decision="deny", priority=_DENIED)
    return "".join([everything, *granted, *forbidden]).encode()


def _each(field: str, tools: Iterable[str], *, decision: str, priority: int) -> list[str]:
    return [_rule(match, decision=decision, priority=priority) for tool in tools for match in _matches(field, tool)]


def _rule(match: dict[str, object], *, decision: str, priority: int) -> str:
    """One rule. Where every command is allowed, so are those that write to a file by `>`."""
    whole = match == {"toolName": _SHELL} and decision == "allow"
    fields = {**match, "decision": decision, "priority": priority, **({"allowRedirection": True} if whole else {})}
    lines = [f"{name} = {_quoted(value)}" for name, value in fields.items()]
    return "\n".join(("[[rule]]", *lines, "", ""))


def _matches(field: str, tool: str) -> list[dict[str, object]]:
    """What a pattern such as `Bash(git *)`, `mcp__server__tool` or `Read` is about."""
    if server := of_server(tool):
        return [{"mcpName": server[0], "toolName": server[1] or "*"}]
    name, pattern = parted(tool)
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
    return [_commands(pattern)]


def _commands(pattern: str) -> dict[str, object]:
    """`git *` is every command that begins so, `git status` that command alone; each part of a line must fit."""
    if pattern == "*":
        return {"toolName": _SHELL}
    start = re.sub(r"[: ]?\*$", "", pattern)
    if start != pattern and "*" not in start:
        return {"toolName": _SHELL, "commandPrefix": start}
    # The engine looks for it in the arguments as JSON, right behind `"command":"`.
    parts = (re.escape(msgspec.json.encode(part).decode()[1:-1]) for part in pattern.split("*"))
    return {"toolName": _SHELL, "commandRegex": ".*".join(parts) + '"'}


def _quoted(value: object) -> str:
    """A TOML value; JSON's spelling is TOML's too, but for the character that JSON leaves as it is."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
