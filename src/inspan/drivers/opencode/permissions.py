"""What OpenCode may do in each mode, as rules of its own: of all rules that match a call, the last one counts."""

from typing import Any, cast

from inspan.contracts.granting import is_free, of_server, parted
from inspan.protocol.task import Task

Rules = dict[str, Any]

# Names of tools as a task has them → the permission that each of OpenCode's tools asks for.
_NAMES = {
    "Read": "read",
    "Edit": "edit",
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Bash": "bash",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "list",
    "WebFetch": "webfetch",
    "WebSearch": "websearch",
    "Task": "task",
    "Agent": "task",
    "TodoWrite": "todowrite",
    "Skill": "skill",
}
_READING = ("read", "glob", "grep", "list", "bash", "lsp", "skill", "todowrite", "webfetch", "websearch")
# A redirection stands in the words of the command that it belongs to, and no pattern of a command speaks of it.
_REDIRECTED = "*>*"


def rules(task: Task) -> Rules:
    """The rules of a task for the agent that it is given; without any, its usual ones hold."""
    made: Rules = {} if is_free(task) else {"*": "deny", **_granted(task), **_outside(task)}
    for name, pattern in map(_permission, task.disallowed_tools):
        _add(made, name, pattern, "deny")
    return made


def _granted(task: Task) -> Rules:
    granted: Rules = dict.fromkeys(_READING, "allow") if task.mode == "review" else {}
    patterns = [_permission(each) for each in task.allowed_tools or ()]
    whole = {name for name, pattern in patterns if not pattern} | granted.keys()
    for name, pattern in patterns:
        if not pattern or name not in whole:
            _add(granted, name, pattern, "allow")
    if isinstance(granted.get("bash"), dict):
        granted["bash"] = {**granted["bash"], _REDIRECTED: "deny"}
    return granted


def _outside(task: Task) -> Rules:
    """Folders beside the working folder: all may be read in a review, those that were named in the other modes."""
    if task.mode == "review":
        return {"external_directory": "allow"}
    return {"external_directory": {"*": "deny", **{f"{folder}/*": "allow" for folder in task.extra_dirs}}}


def _add(made: Rules, name: str, pattern: str, action: str) -> None:
    """One rule more, behind the others: a permission that stood before is taken out and put last."""
    known = made.pop(name, None)
    if not pattern:
        made[name] = action
        return
    usual = {"*": known if isinstance(known, str) else "allow" if action == "deny" else "deny"}
    earlier = cast(Rules, known) if isinstance(known, dict) else usual
    made[name] = {**{key: value for key, value in earlier.items() if key != pattern}, pattern: action}


def _permission(tool: str) -> tuple[str, str]:
    """A tool's permission and the pattern in it: `Bash(git *)` is about the commands that begin with `git`."""
    name, pattern = parted(tool)
    return _named(name), pattern.replace(":*", " *")


def _named(name: str) -> str:
    server = of_server(name)
    return f"{server[0]}_{server[1] or '*'}" if server else _NAMES.get(name, name)
