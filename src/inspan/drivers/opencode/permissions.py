"""What OpenCode may do in each mode, as rules of its own: of all rules that match a call, the last one counts."""

from typing import Any, cast

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
_READ_PERMISSIONS = ("read", "glob", "grep", "list", "bash", "lsp", "skill", "todowrite", "webfetch", "websearch")
_ONLY_READING = ("Read", "Glob", "Grep", "LS", "lsp", "TodoWrite")
# Nobody is there to answer these, as in its usual rules (1.18.33).
_OWN_QUESTIONS = {"question": "deny", "plan_enter": "deny", "plan_exit": "deny"}
# A redirection stands in the words of the command that it belongs to, and no pattern of a command speaks of it.
_REDIRECTIONS = ("*>*", "*<*")


def build_rules(task: Task) -> Rules:
    """The rules of a task for the agent that it is given; without any, its usual ones hold."""
    made: Rules = {}
    if asks_first(task):
        made = _build_asking_rules(task)
    elif not acts_unasked(task):
        made = {"*": "deny", **_grant_rules(task), **_folder_rules(task)}
    for name, pattern in map(_to_permission, task.disallowed_tools):
        _add_rule(made, name, pattern, "deny")
    return made


def _build_asking_rules(task: Task) -> Rules:
    """What it asks about, which the rules of the run or a person answer, and what only reads; the rest is denied."""
    unasked = [_NAMES.get(tool, tool) for tool in list_unasked_tools(task, _ONLY_READING)]
    if offers_everything(task):
        folders = {"*": "ask", **{f"{folder}/*": "allow" for folder in task.extra_dirs}}
        return {"*": "ask", **_OWN_QUESTIONS, **dict.fromkeys(unasked, "allow"), "external_directory": folders}
    granted = _grant_rules(msgspec.structs.replace(task, allowed_tools=list_granted_tools(task)))
    asked = {name: "allow" if name in unasked else _to_question(rule) for name, rule in granted.items()}
    return {"*": "deny", **asked, **_folder_rules(task)}


def _to_question(rule: Any) -> Any:
    """The rule, which asks where it would allow."""
    if isinstance(rule, dict):
        return {pattern: _to_question(each) for pattern, each in cast(Rules, rule).items()}
    return "ask" if rule == "allow" else rule


def _grant_rules(task: Task) -> Rules:
    granted: Rules = dict.fromkeys(_READ_PERMISSIONS, "allow") if task.mode == "review" else {}
    patterns = [_to_permission(each) for each in task.allowed_tools or ()]
    whole = {name for name, pattern in patterns if not pattern} | granted.keys()
    for name, pattern in patterns:
        if not pattern or name not in whole:
            _add_rule(granted, name, pattern, "allow")
    if isinstance(granted.get("bash"), dict):
        granted["bash"] = {**granted["bash"], **dict.fromkeys(_REDIRECTIONS, "deny")}
    return granted


def _folder_rules(task: Task) -> Rules:
    """Folders beside the working folder: all may be read in a review, those that were named in the other modes."""
    if task.mode == "review":
        return {"external_directory": "allow"}
    return {"external_directory": {"*": "deny", **{f"{folder}/*": "allow" for folder in task.extra_dirs}}}


def _add_rule(made: Rules, name: str, pattern: str, action: str) -> None:
    """One rule more, behind the others: a permission that stood before is taken out and put last."""
    known = made.pop(name, None)
    if not pattern:
        made[name] = action
        return
    usual = {"*": known if isinstance(known, str) else "allow" if action == "deny" else "deny"}
    earlier = cast(Rules, known) if isinstance(known, dict) else usual
    made[name] = {**{key: value for key, value in earlier.items() if key != pattern}, pattern: action}


def _to_permission(tool: str) -> tuple[str, str]:
    """A tool's permission and the pattern in it: `Bash(git *)` is about the commands that begin with `git`."""
    name, pattern = split_pattern(tool)
    return _permission_name(name), pattern.replace(":*", " *")


def _permission_name(name: str) -> str:
    server = split_mcp_tool(name)
    return f"{server[0]}_{server[1] or '*'}" if server else _NAMES.get(name, name)
