"""Which tools it may use: our names in its words, what is offered to the model and what runs without a question."""

from collections.abc import Iterable

from inspan.contracts.tool_grants import (
    is_unrestricted,
    list_granted_tools,
    offers_everything,
    split_mcp_tool,
    split_pattern,
)
from inspan.protocol.task import Task

_SHELL = ("bash", "read_bash", "write_bash", "stop_bash", "list_bash")
# Our name of a tool → its names, which depend on the model: those of one vendor patch files, the others edit them.
_NAMES: dict[str, tuple[str, ...]] = {
    "Bash": _SHELL,
    "Read": ("view",),
    "Write": ("create", "apply_patch"),
    "Edit": ("edit", "apply_patch"),
    "Glob": ("glob",),
    "Grep": ("grep", "rg"),
    "WebFetch": ("web_fetch",),
}
# Our name → the kind of permission that it needs; what has none only reads.
_KINDS = {"Bash": "shell", "Write": "write", "Edit": "write", "WebFetch": "url"}
_READERS = ("Bash", "Read", "Glob", "Grep")
# All that it has of its own, for a list of what is left out (1.0.102).
_BUILT_IN = (
    *dict.fromkeys(name for names in _NAMES.values() for name in names),
    "ask_user",
    "fetch_copilot_cli_documentation",
    "list_agents",
    "read_agent",
    "report_intent",
    "session_store_sql",
    "skill",
    "sql",
    "store_memory",
    "task",
    "update_todo",
    "web_search",
    "write_agent",
)
# A name that no tool has: a list without any name restricts nothing (1.0.102).
_NO_TOOL = "none"


def permission_argv(task: Task) -> list[str]:
    """What the mode and the lists of a task mean as its options."""
    if is_unrestricted(task):
        return ["--allow-all", *_deny_argv(task.disallowed_tools)]
    if task.ask and offers_everything(task):
        return _deny_argv(task.disallowed_tools)
    extra = list_granted_tools(task)
    if task.mode != "review":
        return [*_offer_argv(extra, task), *_allow_argv(extra, task), *_deny_argv(task.disallowed_tools)]
    granted = (*_READERS, *extra)
    held = ["--deny-tool=write"] if not _has_write(extra) else []
    # It reads anywhere, as a review may; a redirection into a file is a write that `shell` alone does not allow.
    return [
        "--allow-all-paths",
        *_offer_argv(granted, task),
        *_allow_argv(granted, task),
        *held,
        *_deny_argv(task.disallowed_tools),
    ]


def _has_write(patterns: Iterable[str]) -> bool:
    return any(_KINDS.get(split_pattern(pattern)[0]) == "write" for pattern in patterns)


def _offer_argv(patterns: tuple[str, ...], task: Task) -> list[str]:
    """What the model gets to see. A whole server cannot be listed: then all is left out that is not allowed."""
    withheld = {name for pattern in task.disallowed_tools for name in _names_to_exclude(pattern)}
    names = [name for pattern in patterns for name in _tool_names(pattern) if name not in withheld]
    if any(_is_whole_server(pattern) for pattern in patterns):
        return ["--excluded-tools=" + ",".join(name for name in _BUILT_IN if name not in names)]
    return ["--available-tools=" + ",".join(dict.fromkeys(names or [_NO_TOOL]))]


def _allow_argv(patterns: Iterable[str], task: Task) -> list[str]:
    """What it does without a question; where somebody is asked, the rules of the run answer instead."""
    if task.ask:
        return []
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := _permission_kind(pattern)))
    return [f"--allow-tool={kind}" for kind in kinds]


def _deny_argv(patterns: Iterable[str]) -> list[str]:
    """Taken from the model where the whole tool is meant, and denied where it is called all the same."""
    patterns = tuple(patterns)
    names = dict.fromkeys(name for pattern in patterns for name in _names_to_exclude(pattern))
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := _denial_kind(pattern, patterns)))
    return [
        *([f"--excluded-tools={','.join(names)}"] if names else []),
        *(f"--deny-tool={kind}" for kind in kinds),
    ]


def _tool_names(pattern: str) -> tuple[str, ...]:
    name, _ = split_pattern(pattern)
    if server := split_mcp_tool(pattern):
        return (f"{server[0]}-{server[1]}",) if server[1] else ()
    return _NAMES.get(name, (name,))


def _names_to_exclude(pattern: str) -> tuple[str, ...]:
    """The tools that a pattern takes away whole; one with a rule in it takes away uses of a tool."""
    return () if split_pattern(pattern)[1] else _tool_names(pattern)


def _permission_kind(pattern: str) -> str:
    name, rule = split_pattern(pattern)
    if server := split_mcp_tool(pattern):
        return f"{server[0]}({server[1]})" if server[1] else server[0]
    kind = _KINDS.get(name, "")
    return f"{kind}({_to_rule(rule)})" if kind and rule else kind


def _denial_kind(pattern: str, patterns: tuple[str, ...]) -> str:
    """The kind of permission to deny. Editing and writing need the same one: it is denied where neither is left."""
    named = {split_pattern(each)[0] for each in patterns}
    half = pattern in ("Edit", "Write") and not {"Edit", "Write"} <= named
    return "" if half else _permission_kind(pattern)


def _to_rule(rule: str) -> str:
    """`git diff *` as it writes it: `git diff:*`."""
    words = rule.removesuffix("*").rstrip(" :")
    return f"{words}:*" if rule.endswith("*") and words else rule


def _is_whole_server(pattern: str) -> bool:
    server = split_mcp_tool(pattern)
    return server is not None and not server[1]
