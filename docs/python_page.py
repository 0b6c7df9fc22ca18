"""The page of every public name of `inspan`, out of the sources: signatures as written, and what they promise."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import inspan

_HEAD = """# Python

<!-- Written by `docs/generate.py` from the sources; change the docstrings, then run the script. -->

Everything here is a name of `inspan`: `inspan.Client`, or `from inspan import Client`. `help(inspan.Client)` says the
same. How to use it: [a client for everything](../guides/use-a-client.md), [run agents inside your
program](../guides/embed-in-python.md).

Public, beside these names, are the modules `inspan.errors` ([Errors](errors.md)), `inspan.protocol` (events, tasks,
limits), `inspan.contracts` (drivers, sandboxes, reporters), `inspan.client.values` (what a client gets),
`inspan.reporters.console` and `inspan.testing`. What inspan logs, it logs with `logging` below the name `inspan`.
"""

# Title → the names below it, in the order of the page; every public name stands here once.
_SECTIONS: dict[str, tuple[str, ...]] = {
    "A client for everything": ("Client", "RunInfo", "Record", "RunRecord", "OutputPiece"),
    "Run agents inside your program": (
        "run",
        "start",
        "run_sync",
        "create_agent_runner",
        "AgentRunner",
        "AgentResult",
        "Run",
        "find_run",
        "follow",
        "validate_environment",
        "undo_run",
        "apply_run",
        "UndoResult",
    ),
    "Open sessions": ("open_session", "attach_session", "AgentSession", "SessionState"),
    "Your functions": (
        "tool",
        "declare_tool",
        "Tool",
        "ToolContext",
        "ToolError",
        "allow",
        "deny",
        "Decision",
        "PermissionRequest",
        "ToolCall",
        "FinishedTurn",
        "Reporter",
        "create_console_reporter",
    ),
    "Loops and blueprints": (
        "run_loop",
        "LoopPolicy",
        "LoopResult",
        "run_blueprint",
        "Blueprint",
        "BlueprintReport",
        "AgentNode",
        "ApplyNode",
        "CheckNode",
        "CommandNode",
        "PersonNode",
        "Input",
        "Repeat",
    ),
    "Sandboxes": ("open_sandbox", "AgentSandbox", "ExecResult"),
    "Completions": ("CompletionClient", "wrap_agent_as_completion_client"),
    "Tasks, limits and money": (
        "Task",
        "McpServer",
        "Limits",
        "WatchdogLimits",
        "Budget",
        "Price",
        "Rates",
        "Usage",
        "Cost",
        "BASE_ALLOWED_TOOLS",
    ),
    "Events and errors": ("Event", "RunEnded", "InspanError"),
}
# A class that is reached by an attribute of another stands below that.
_PARTS = {"Client": ("Agents", "Runs", "Sessions", "Approvals", "Budgets", "Loops", "Blueprints")}
_INDENT = 4


def build_python_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_list_lines()]) + "\n"


def list_documented() -> list[str]:
    """Every name that has its place on the page."""
    return [name for names in _SECTIONS.values() for name in names]


def _list_lines() -> Iterator[str]:
    for title, names in _SECTIONS.items():
        yield f"## {title}\n"
        for name in names:
            yield from _describe(name, home=inspan.__dict__["_HOME"][name])


def _describe(name: str, *, home: str) -> Iterator[str]:
    node = _find(name, home)
    yield f"### {name}\n"
    match node:
        case ast.ClassDef():
            yield from _describe_class(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield _fence(_format_signature(node))
            yield from _format_text(node)
        case ast.Assign() | ast.AnnAssign():
            yield _fence(_shorten(ast.unparse(node)))
        case _:
            raise LookupError(f"{name} is not defined in {home}")
    for part in _PARTS.get(name, ()):
        yield f"#### {name}.{part.lower()}\n"
        yield from _describe_class(_find(part, home))


def _describe_class(node: ast.stmt | None) -> Iterator[str]:
    assert isinstance(node, ast.ClassDef)
    yield from _format_text(node)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and _is_public(ast.unparse(each.target))]
    if fields:
        yield _fence("\n".join(_shorten(ast.unparse(each)) for each in fields))
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and (
            _is_public(each.name) or (each.name == "__init__" and not fields)
        ):
            yield _fence(_format_signature(each, owner=node.name))
            yield from _format_text(each)


def _format_signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, owner: str = "") -> str:
    if any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    arguments = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns).strip(chr(39))}" if node.returns and owner != node.name else ""
    if node.name == "__init__":
        return f"{owner}({arguments})"
    line = f"{word} {node.name}({arguments}){returns}"
    return line if len(line) <= 110 else _fold(line)


def _fold(line: str) -> str:
    """A long signature with an argument in each line."""
    head, _, rest = line.partition("(")
    arguments, depth, pieces = rest.rpartition(") ->")[0] or rest.rpartition(")")[0], 0, [""]
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += character
    tail = rest[len(arguments) :]
    body = "".join(f"{' ' * _INDENT}{each.strip()},\n" for each in pieces)
    return f"{head}(\n{body}{tail}"


def _format_text(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if text := ast.get_docstring(node):
        yield dedent(text) + "\n"


def _fence(code: str) -> str:
    return f"```python\n{code}\n```\n"


def _shorten(line: str) -> str:
    return line if len(line) <= 110 else f"{line[:109]}…"


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _find(name: str, home: str) -> ast.stmt | None:
    return next((each for each in _read(home).body if name in _list_names(each)), None)


def _list_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign():
            return [ast.unparse(each) for each in node.targets]
        case ast.AnnAssign():
            return [ast.unparse(node.target)]
        case _:
            return []


@cache
def _read(home: str) -> ast.Module:
    found = find_spec(home)
    assert found and found.origin
    return ast.parse(Path(found.origin).read_text())
