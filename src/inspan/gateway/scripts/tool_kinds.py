"""What a tool on offer may do to a machine, told by its arguments and its name: whatever an agent calls it."""

import re
from collections.abc import Iterable

from inspan.contracts.journal import Ability
from inspan.gateway.upstream import Tool

COMMAND_FIELDS = ("command", "cmd", "commands", "script", "code", "command_line", "commandline", "shell_command")
PATH_FIELDS = ("file_path", "filepath", "path", "absolute_path", "filename", "file", "target_file", "notebook_path")
CONTENT_FIELDS = ("content", "contents", "file_text", "text", "new_source", "data")
OLD_FIELDS = ("old_string", "oldstring", "old_str", "oldtext", "before", "search")
NEW_FIELDS = ("new_string", "newstring", "new_str", "newtext", "after", "replace", "replacement")
PATCH_FIELDS = ("patch", "patchtext", "diff", "edits", "changes")

# Whole words in a name, however they are joined: `run_shell_command`, `runInTerminal`.
_RUN_WORDS = {"shell", "bash", "zsh", "powershell", "terminal", "exec", "execute", "command", "cmd", "console", "repl"}
_WRITE_WORDS = {"write", "edit", "patch", "create", "replace", "delete", "remove", "move", "rename", "editor"}
# By one of these a name says that its tool does neither; a name without any is taken for one that may do both.
_HARMLESS = re.compile(
    r"read|view|get|list|ls|tree|glob|grep|find|search|(web)?fetch|analyze|load|skill|plan|todo(write)?"
    r"|agents?|delegate|task|message|user|wait|sleep|placeholder|apps?|extensions"
)
# With the date behind them that some of these have. What is not here is taken for a tool of the agent's own.
_PROVIDER_TOOLS = re.compile(
    r"(web_?search|web_?fetch|file_?search|code_?execution|code_?interpreter|image_?generation|tool_?search\w*"
    r"|google_?search(_?retrieval)?|google_?maps|url_?context|enterprise_?web_?search|x_?search|mcp(_toolset)?)"
    r"(_preview)?(_\d+)*",
    re.IGNORECASE,
)


def classify_tool(tool: Tool) -> Ability:
    """What a declared tool may do. A custom tool takes any text, so that it may run whatever it likes."""
    names, words = {name.lower() for name in tool.fields}, _split_words(tool.name)
    if tool.kind == "custom":
        return "writes" if words & _WRITE_WORDS else "runs"
    if names & {*COMMAND_FIELDS} or words & _RUN_WORDS:
        return "runs"
    changes = names & {*CONTENT_FIELDS, *OLD_FIELDS} or words & _WRITE_WORDS
    patches = names & {*PATCH_FIELDS} or "patch" in words
    if patches or (changes and names & {*PATH_FIELDS}):
        return "writes"
    return "other" if any(map(_HARMLESS.fullmatch, words)) or not tool.fields else "unknown"


def classify_built_in(name: str) -> Ability:
    """What a tool may do that a request names by its type alone."""
    if _PROVIDER_TOOLS.fullmatch(name):
        return "provider"
    words = _split_words(name)
    return "runs" if words & {*_RUN_WORDS, "computer"} else "writes" if words & _WRITE_WORDS else "unknown"


def find_field(tool: Tool, names: Iterable[str]) -> str:
    """The argument of a tool that has one of these names, in whatever letters; empty where none has."""
    spelled = {name.lower(): name for name in tool.fields}
    return next((spelled[name] for name in names if name in spelled), "")


def _split_words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
