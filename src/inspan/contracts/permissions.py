"""The rule book of a run: which tool calls are allowed, denied or asked about. Patterns are data, verdicts are pure."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

import msgspec

from inspan.protocol.task import Task

from .tool_grants import split_pattern

Ruling = Literal["allow", "deny", "ask"]
# What one word of the rule book means in the agents' own words.
_FAMILIES = {
    "bash": frozenset(
        {"bash", "shell", "execute", "exec", "exec_command", "run_shell_command", "command", "local_shell"}
    ),
    "edit": frozenset({"edit", "multiedit", "notebookedit", "apply_patch", "patch", "replace", "str_replace"}),
    "write": frozenset({"write", "write_file", "create_file", "create"}),
    "read": frozenset({"read", "read_file", "view"}),
}
_FILES = frozenset({"file_path", "path", "filePath", "filepath", "notebook_path"})
_SUBJECTS = ("command", "file_path", "path", "filePath", "notebook_path", "url", "query", "pattern")
# What an approval for good names of a call of these tools: one of these fields, beside which these others do not change
# what is done, or are what is written into the file.
_KEPT_BY = {
    "bash": frozenset({"command"}),
    "edit": _FILES,
    "write": _FILES,
    "read": _FILES,
    "fetch": frozenset({"url"}),
}
_FETCHES = frozenset({"webfetch", "web_fetch", "fetch"})
_BESIDE = {
    "bash": frozenset(
        {"description", "timeout", "timeout_ms", "timeout_secs", "yield_time_ms", "max_output_tokens", "justification"}
    ),
    "edit": frozenset(
        {"old_string", "new_string", "replace_all", "oldString", "newString", "replaceAll", "old_str", "new_str"}
        | {"old_text", "new_text", "oldText", "newText", "edits", "diff", "new_source", "instruction"}
        | {"expected_replacements", "allow_multiple", "content"}
    ),
    "write": frozenset({"content", "contents", "file_text", "old_text", "new_text", "diff", "description"}),
    "read": frozenset({"offset", "limit", "line", "start_line", "end_line", "view_range", "pages"}),
    "fetch": frozenset({"prompt", "format", "timeout"}),
}
_FOLDERS = frozenset({"cwd", "workdir", "directory", "dir_path"})
# What joins commands, or lets one run another: a pattern that allows the first must not allow the rest.
_JOINTS = re.compile(r"[;&|<>`$(){}\n\r]")
# What quotes and escapes hide, and where one command of a line may begin.
_QUOTES = re.compile(r"\\\n|[\\'\"]")
_PARTS = re.compile(r"[;&|\n\r(){}<>`$]")
_MAX_WORDS = 200


class KeptApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was allowed for good in one project: this tool with exactly this subject, as `keep` spells it."""

    tool: str
    subject: str


class Rulebook(msgspec.Struct, frozen=True, kw_only=True):
    """A denial counts before everything, then what was allowed for good, then `ask`, then `allow`.

    A call that no rule is about gets `otherwise`.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    kept: frozenset[KeptApproval] = frozenset()
    otherwise: Ruling = "allow"
    cwd: str = ""

    def rule(self, tool: str, given: Any) -> Ruling:
        """What becomes of this call."""
        if any(_concerns(pattern, tool, given) for pattern in self.deny):
            return "deny"
        if self.kept and self.keep(tool, given) in self.kept:
            return "allow"
        exact = [pattern for pattern in self.ask if pattern != "*"]
        if any(_concerns(pattern, tool, given) for pattern in exact):
            return "ask"
        if any(_covers(pattern, tool, given) for pattern in self.allow):
            return "allow"
        return "ask" if "*" in self.ask else self.otherwise

    def keep(self, tool: str, given: Any) -> KeptApproval:
        """What is kept of this call where it is allowed for good: its command, its address, or its file whatever is
        written into it; everything else that it was given, too, unless it is known to change nothing."""
        return KeptApproval(tool=tool, subject=_spell_kept(tool, given, self.cwd))


def build_rulebook(task: Task, kept: frozenset[KeptApproval] = frozenset()) -> Rulebook:
    """The rules that a task states. A list of tools in `exec` is all that is allowed, unless somebody is asked."""
    listed = task.allowed_tools is not None
    own = ("mcp__inspan",) if task.tools else ()
    return Rulebook(
        allow=(*(task.allowed_tools or ()), *own),
        deny=task.disallowed_tools,
        ask=task.ask,
        kept=kept,
        cwd=task.cwd,
        otherwise="deny" if listed or task.mode != "exec" else "allow",
    )


def subject_of(given: Any) -> str:
    """What a call is about, in one text: its command or its path, else all of its input."""
    if isinstance(given, dict):
        fields = cast(dict[str, Any], given)
        for name in _SUBJECTS:
            value = fields.get(name)
            if isinstance(value, str) and value:
                return value
            if name == "command" and isinstance(value, list):
                return " ".join(map(str, cast(list[object], value)))
    return _spell_whole(given)


def _spell_kept(tool: str, given: Any, cwd: str) -> str:
    family = _find_family(tool)
    if not isinstance(given, dict) or not family:
        return _spell_whole(given)
    fields = {
        name: value
        for name, value in cast(dict[str, Any], given).items()
        if name not in _BESIDE[family] and not (name in _FOLDERS and value == cwd)
    }
    named = fields.keys() & _KEPT_BY[family]
    values = {value if isinstance(value, str) else "" for value in fields.values()}
    subject = values.pop() if len(values) == 1 else ""
    # What stands alone is spelled as a person would; nothing else is spelled like that.
    return subject if subject and named == fields.keys() and subject[0] not in '{["' else _spell_whole(fields)


def _find_family(tool: str) -> str:
    name = tool.lower()
    if name in _FETCHES:
        return "fetch"
    return next((family for family, tools in _FAMILIES.items() if name == family or name in tools), "")


def _spell_whole(given: Any) -> str:
    return "" if given is None else msgspec.json.encode(given, order="sorted").decode()


def drop_subjects(given: dict[str, Any]) -> dict[str, Any]:
    """An input without the fields that may say what a call is about."""
    return {name: value for name, value in given.items() if name not in _SUBJECTS}


def _concerns(pattern: str, tool: str, given: Any) -> bool:
    """Whether a rule that holds back is about this call: any part of a line of commands is enough."""
    name, wanted = split_pattern(pattern)
    if not _names(name, tool):
        return False
    if not wanted:
        return True
    subject = subject_of(given)
    return _is_too_long(subject) or any(fnmatchcase(part, wanted) for part in _iter_parts(subject))


def _covers(pattern: str, tool: str, given: Any) -> bool:
    """Whether a rule that lets through is about all of this call."""
    name, wanted = split_pattern(pattern)
    if not _names(name, tool):
        return False
    subject = subject_of(given)
    return not wanted or subject == wanted or (fnmatchcase(subject, wanted) and not _JOINTS.search(subject))


def _names(name: str, tool: str) -> bool:
    if name == "*":
        return True
    name, tool = name.lower(), tool.lower()
    if name.startswith("mcp__"):
        return tool == name or tool.startswith(f"{name.removesuffix('*').removesuffix('__')}__")
    return tool == name or tool in _FAMILIES.get(name, ())


def _is_too_long(subject: str) -> bool:
    """Whether a command has more words than are looked at: then anything may stand behind them."""
    return any(len(part.split()) > _MAX_WORDS for part in _PARTS.split(_QUOTES.sub("", subject)))


def _iter_parts(subject: str) -> Iterator[str]:
    """The text itself, and every place in it where a command may begin, without what hides its name: quotes, a path,
    words before it such as `env` or `X=1`. Too much is found rather than too little: this holds back."""
    yield subject
    for part in _PARTS.split(_QUOTES.sub("", subject)):
        words = part.split()[:_MAX_WORDS]
        for place, word in enumerate(words):
            rest = " ".join(words[place + 1 :])
            # `env -S"rm x"` and `--split-string=rm` hold a command's name in a word of their own.
            for name in {word, word.rpartition("/")[2], word.removeprefix("-S"), word.rpartition("=")[2]}:
                yield f"{name} {rest}"
                yield f"{name} {rest}".rstrip()
