"""The six operations as one table: the command line, its help and the MCP server all follow from it."""

from inspan.errors import BadInput

from .listing import DEFAULT_ENTRIES, list_folder, stat_path
from .reading import read_file
from .search import DEFAULT_MATCHES, LIMIT_S, search_files
from .text import format_change, format_list, format_read, format_search, format_stat
from .writing import edit_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .root import Root

_TYPES: "dict[str, type]" = {"text": str, "count": int, "flag": bool}
_WORDS = {"text": "a text", "count": "a whole number", "flag": "true or false"}


class Parameter:
    """One argument of an operation; `kind` is `text`, `count` or `flag`."""

    def __init__(self, name: str, kind: str, help: str, *, required: bool = False, positional: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.required = required
        self.positional = positional

    @property
    def option(self) -> str:
        """As it is written on a command line."""
        return f"--{self.name.replace('_', '-')}"


class Operation:
    """What can be done beneath ROOT: `run` does it, `format` tells what came of it as plain text."""

    def __init__(
        self,
        name: str,
        summary: str,
        *parameters: Parameter,
        run: "Callable[..., dict[str, object]]",
        format: "Callable[[dict[str, Any]], str]",
        writes: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        self.parameters = {each.name: each for each in parameters}
        self.run = run
        self.format = format
        self.writes = writes

    def call(self, root: "Root", given: "Mapping[str, Any]") -> "dict[str, Any]":
        """Does it with arguments that anybody may have written; raises `InspanError`."""
        for name, value in given.items():
            self._check(name, value)
        missing = [each for each in self.parameters.values() if each.required and each.name not in given]
        if missing:
            names = ", ".join(each.name if each.positional else each.option for each in missing)
            raise BadInput(self.name, list(given), f"it needs {names}.", next_step=f"See `{self.name} --help`.")
        return self.run(root, **given)

    def _check(self, name: str, value: "Any") -> None:
        known = self.parameters.get(name)
        if known is None:
            step = f"It takes: {', '.join(self.parameters)}."
            raise BadInput(self.name, name, "there is no such argument.", next_step=step)
        if type(value) is not _TYPES[known.kind]:
            raise BadInput(name, value, f"it is not {_WORDS[known.kind]}.", next_step=known.help)


_PATH = Parameter("path", "text", "A file beneath ROOT.", required=True, positional=True)
_BELOW = Parameter("path", "text", "A folder beneath ROOT. [default: ROOT]", positional=True)

OPERATIONS = {
    each.name: each
    for each in (
        Operation(
            "read",
            "Print the text of a file, or some of its lines.",
            _PATH,
            Parameter("offset", "count", "The first line, counted from 1."),
            Parameter("limit", "count", "How many lines. [default: all]"),
            Parameter("numbers", "flag", "Print the number of each line before it."),
            run=read_file,
            format=format_read,
        ),
        Operation(
            "write",
            "Write a file whole, or add to its end; missing folders are made.",
            _PATH,
            Parameter("content", "text", "The text of the file.", required=True),
            Parameter("append", "flag", "Add to the end of what is there."),
            run=write_file,
            format=format_change,
            writes=True,
        ),
        Operation(
            "edit",
            "Replace a text in a file by another; it must be there exactly once.",
            _PATH,
            Parameter("old", "text", "What is there, to the letter.", required=True),
            Parameter("new", "text", "What is to be there instead.", required=True),
            Parameter("all", "flag", "Replace it wherever it is."),
            run=edit_file,
            format=format_change,
            writes=True,
        ),
        Operation(
            "list",
            "List a folder: folders end in /, links show where they lead.",
            _BELOW,
            Parameter("recursive", "flag", "What is in the folders below, too."),
            Parameter("limit", "count", f"How many entries at most. [default: {DEFAULT_ENTRIES}]"),
            run=list_folder,
            format=format_list,
        ),
        Operation(
            "search",
            f"Print the lines that a regular expression is found in; it takes {LIMIT_S:g} s at most.",
            Parameter("pattern", "text", "A regular expression, as Python has them.", required=True, positional=True),
            Parameter("path", "text", "A file or folder beneath ROOT. [default: ROOT]", positional=True),
            Parameter("literal", "flag", "The pattern is a text to be found as it is."),
            Parameter("ignore_case", "flag", "Upper and lower case are the same."),
            Parameter("glob", "text", "Only files whose name or path fits, such as '*.py'."),
            Parameter("limit", "count", f"How many lines at most. [default: {DEFAULT_MATCHES}]"),
            run=search_files,
            format=format_search,
        ),
        Operation(
            "stat",
            "Tell what is at a path: its kind, size, mode and time.",
            _PATH,
            run=stat_path,
            format=format_stat,
        ),
    )
}


def list_operations(root: "Root") -> "dict[str, Operation]":
    """Those that may be used: without the ones that write where ROOT is read-only."""
    return {name: each for name, each in OPERATIONS.items() if not (root.read_only and each.writes)}
