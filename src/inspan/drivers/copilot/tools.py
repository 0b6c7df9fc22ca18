"""Which tools it may use: our names in its words, what is offered to the model and what runs without a question."""

from collections.abc import Iterable

from inspan.contracts.granting import is_free, of_server, parted
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


def permissions(task: Task) -> list[str]:
    """What the mode and the lists of a task mean as its options."""
    if is_free(task):
        return ["--allow-all", *_denied(task.disallowed_tools)]
    extra = task.allowed_tools or ()
    if task.mode != "review":
        return [*_offered(extra, task), *_allowed(extra), *_denied(task.disallowed_tools)]
    granted = (*_READERS, *extra)
    held = ["--deny-tool=write"] if not _asks_to_write(extra) else []
    # It reads anywhere, as a review may; a redirection into a file is a write that `shell` alone does not allow.
    return ["--allow-all-paths", *_offered(granted, task), *_allowed(granted), *held, *_denied(task.disallowed_tools)]


def _asks_to_write(patterns: Iterable[str]) -> bool:
    return any(_KINDS.get(parted(pattern)[0]) == "write" for pattern in patterns)


def _offered(patterns: tuple[str, ...], task: Task) -> list[str]:
    """What the model gets to see. A whole server cannot be listed: then all is left out that is not allowed."""
    withheld = {name for pattern in task.disallowed_tools for name in _withheld(pattern)}
    names = [name for pattern in patterns for name in _names(pattern) if name not in withheld]
    if any(_is_whole_server(pattern) for pattern in patterns):
        return ["--excluded-tools=" + ",".join(name for name in _BUILT_IN if name not in names)]
    return ["--available-tools=" + ",".join(dict.fromkeys(names or [_NO_TOOL]))]


def _allowed(patterns: Iterable[str]) -> list[str]:
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := _permission(pattern)))
    return [f"--allow-tool={kind}" for kind in kinds]


def _denied(patterns: Iterable[str]) -> list[str]:
    """Taken from the model where the whole tool is meant, and denied where it is called all the same."""
    patterns = tuple(patterns)
    names = dict.fromkeys(name for pattern in patterns for name in _withheld(pattern))
    kinds = dict.fromkeys(kind for pattern in patterns if (kind := _denial(pattern, patterns)))
    return [
        *([f"--excluded-tools={','.join(names)}"] if names else []),
        *(f"--deny-tool={kind}" for kind in kinds),
    ]


def _names(pattern: str) -> tuple[str, ...]:
    name, _ = parted(pattern)
    if server := of_server(pattern):
        return (f"{server[0]}-{server[1]}",) if server[1] else ()
    return _NAMES.get(name, (name,))


def _withheld(pattern: str) -> tuple[str, ...]:
    """The tools that a pattern takes away whole; one with a rule in it takes away uses of a tool."""
    return () if parted(pattern)[1] else _names(pattern)


def _permission(pattern: str) -> str:
    name, rule = parted(pattern)
    if server := of_server(pattern):
        return f"{server[0]}({server[1]})" if server[1] else server[0]
    kind = _KINDS.get(name, "")
    return f"{kind}({_rule(rule)})" if kind and rule else kind


def _denial(pattern: str, patterns: tuple[str, ...]) -> str:
    """The kind of permission to deny. Editing and writing need the same one: it is denied where neither is left."""
    named = {parted(each)[0] for each in patterns}
    half = pattern in ("Edit", "Write") and not {"Edit", "Write"} <= named
    return "" if half else _permission(pattern)


def _rule(rule: str) -> str:
    """`git diff *` as it writes it: `git diff:*`."""
    words = rule.removesuffix("*").rstrip(" :")
    return f"{words}:*" if rule.endswith("*") and words else rule


def _is_whole_server(pattern: str) -> bool:
    server = of_server(pattern)
    return server is not None and not server[1]
