"""The architecture as a test: the direction of imports, the purity of the pure rooms, and who may name an agent."""

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pytest

import inspan
from inspan.agents.registry import load_drivers

SOURCE = Path(inspan.__file__).parent

_VALUES = {"protocol", "errors"}
_TERMS = _VALUES | {"contracts"}
_PURE = _TERMS | {"framing", "redaction", "folds"}
# Each package may import those of its row, which all stand above it. One without a row is an error: add one first.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "system": set(),
    "protocol": {"errors"},
    "contracts": _VALUES,
    "framing": _TERMS,
    "redaction": _TERMS,
    "folds": _TERMS,
    "reporters": _TERMS | {"redaction", "folds"},
    "dialects": _TERMS | {"framing"},
    "drivers": _TERMS | {"framing", "dialects"},
    "config": _TERMS | {"system"},
    "file_tools": _VALUES | {"framing"},
    "transports": _TERMS | {"framing", "redaction", "system"},
    "stores": _TERMS | {"framing", "redaction", "system"},
    "containment": _TERMS | {"stores", "system"},
    "sandboxes": _TERMS | {"containment", "system"},
    "gateway": _TERMS | {"framing", "redaction", "system"},
    "agents": _TERMS | {"config", "containment", "dialects", "drivers", "sandboxes", "stores", "system"},
    "credentials": _TERMS | {"redaction", "agents", "system"},
    "spending": _PURE | {"gateway", "stores", "system", "transports"},
    "running": _PURE | {"agents", "containment", "gateway", "spending", "stores", "system", "transports"},
    "runs": _PURE | {"agents", "containment", "running", "stores", "system"},
    "planning": _PURE
    | {"agents", "config", "containment", "credentials", "gateway", "running", "runs", "spending", "stores", "system"}
    | {"transports"},
    "loop": _PURE | {"planning", "running", "runs", "stores", "system", "transports"},
    "compare": _PURE | {"loop", "planning", "reporters", "running", "runs", "stores", "system"},
    "blueprints": _PURE | {"config", "loop", "planning", "reporters", "runs", "stores", "system"},
    "client": _PURE
    | {
        "agents",
        "blueprints",
        "gateway",
        "loop",
        "planning",
        "reporters",
        "running",
        "runs",
        "spending",
        "stores",
        "system",
    },
    "testing": _PURE | {"agents", "reporters", "stores", "system"},
    "api": _PURE
    | {"agents", "blueprints", "loop", "planning", "reporters", "running", "runs", "stores", "system", "transports"},
    "server": _PURE | {"client", "planning", "runs", "stores", "system"},
    "cli": _PURE
    | {"agents", "config", "file_tools", "planning", "reporters", "running", "runs", "spending", "stores", "system"}
    | {"blueprints", "client", "compare", "loop", "server", "testing"},
}
PURE = {"protocol", "contracts", "framing", "redaction", "folds", "dialects", "drivers"}
_IO_MODULES = {"asyncio", "anyio", "socket", "subprocess", "select", "shutil", "sqlite3", "http"}
_IO_CALLS = {"open", "print", "input"}
# A program of its own that is shipped with a driver: it does the I/O of another process.
_HOST = "sdk_host"


# Where a provider, a protocol or a folder has the name of an agent.
_NAMESAKES = {
    "drivers/goose/providers.py": "xai",
    "drivers/pi/__init__.py": "xai",
    "drivers/qwen/providers.py": "gemini",
    "drivers/opencode/__init__.py": "claude",
}


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def list_imports(path: Path) -> frozenset[str]:
    """Every module that a file imports anywhere in it, relative imports resolved."""
    package = ["inspan", *path.relative_to(SOURCE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(part for part in (base, node.module or "") if part)
            found |= {f"{name}.{alias.name}" for alias in node.names} | {name}
    return frozenset(found)


def module_name(path: Path) -> str:
    parts = ["inspan", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def list_imported_rooms(path: Path) -> set[str]:
    inner = {name.split(".")[1] for name in list_imports(path) if name.startswith("inspan.")}
    return {name for name in inner if name in ALLOWED} - {room_of(path)}


def test_every_room_has_a_row_in_the_table() -> None:
    rooms = {room_of(path) for path in modules()} - {"__init__", "__main__"}
    assert rooms <= ALLOWED.keys()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_its_row_allows(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert list_imported_rooms(path) <= ALLOWED[room]


def test_no_package_imports_itself_by_way_of_another() -> None:
    edges = {room: set[str]() for room in ALLOWED}
    for path in modules():
        if room_of(path) in edges:
            edges[room_of(path)] |= list_imported_rooms(path)
    assert _find_cycles(edges) == set()


def test_no_module_imports_itself_by_way_of_another() -> None:
    # The package itself names all that is public, for type checkers alone.
    paths = {module_name(path): path for path in modules() if path != SOURCE / "__init__.py"}
    edges = {name: _list_imported_modules(path, paths.keys()) - {name} for name, path in paths.items()}
    assert _find_cycles(edges) == set()


def _list_imported_modules(path: Path, known: Collection[str]) -> set[str]:
    """As `list_imports`, but a module that is imported from its package counts alone, not its package too."""
    named = list_imports(path) & set(known)
    return {name for name in named if not any(other.rpartition(".")[0] == name for other in named)}


def _find_cycles(edges: dict[str, set[str]]) -> set[str]:
    """What is left when all was taken away that needs nothing of the rest, or that nothing of the rest needs."""
    left = {name: set(needs) for name, needs in edges.items()}
    while True:
        needed = set[str]().union(*left.values())
        kept = {name: needs & left.keys() for name, needs in left.items() if needs & left.keys() and name in needed}
        if kept.keys() == left.keys():
            return set(left)
        left = kept


def test_an_import_inside_a_function_has_its_reason_beside_it() -> None:
    bare = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for path in modules()
        for node, lines in _imports_in_functions(path)
        if not any("#" in line for line in lines)
    ]
    assert bare == []


def _imports_in_functions(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, list[str]]]:
    """Each with the lines in which its reason may stand: its own, and those right above its block of imports."""
    lines, found = path.read_text().splitlines(), list[tuple[ast.Import | ast.ImportFrom, list[str]]]()
    for function in ast.walk(parse(path)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    first = node.lineno - 1
                    while re.match(r"\s*((import|from)\b|#)", lines[first - 1]):
                        first -= 1
                    found.append((node, lines[first : node.end_lineno]))
    return found


def test_a_host_process_is_imported_by_nobody_and_imports_nothing_of_ours() -> None:
    hosts = [path for path in modules() if path.stem == _HOST]
    assert len(hosts) == 2
    assert [path for path in modules() if any(name.endswith(f".{_HOST}") for name in list_imports(path))] == []
    assert [name for path in hosts for name in list_imports(path) if name.startswith("inspan")] == []


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if room_of(path) in PURE and path.stem != _HOST],
    ids=lambda path: path.stem,
)
def test_a_pure_room_neither_waits_nor_does_io(path: Path) -> None:
    tree = parse(path)
    waits = [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncFor)]
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not waits
    assert not {name.split(".")[0] for name in list_imports(path)} & _IO_MODULES
    assert not calls & _IO_CALLS


def test_no_agent_is_named_outside_its_driver() -> None:
    names = {driver.name for driver in load_drivers() if not driver.built_in and not driver.family}
    # With a dash behind it, it is a family of models.
    word = re.compile(rf"\b({'|'.join(sorted(names))})\b(?!-\w)", re.IGNORECASE)
    named: list[str] = []
    for path in modules():
        own = path.relative_to(SOURCE / "drivers").parts[0].removesuffix(".py") if room_of(path) == "drivers" else ""
        own = {own.replace("_", "-"), _NAMESAKES.get(str(path.relative_to(SOURCE)), "")}
        for token in _tokens(path):
            named += [
                f"{path.relative_to(SOURCE)}:{token.start[0]}: {match}"
                for match in word.findall(token.string)
                if match.lower() not in own
            ]
    assert named == []


def _tokens(path: Path) -> list[tokenize.TokenInfo]:
    with tokenize.open(path) as file:
        return list(tokenize.generate_tokens(file.readline))


def test_the_package_has_no_stray_files() -> None:
    parts = {".py", ".md", ".toml"}
    # The built page is data: that it is what its source builds to is checked by `make web-check`.
    page = SOURCE / "web"
    found = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found = [path for path in found if page not in path.parents]
    assert [str(path.relative_to(SOURCE)) for path in found if path.suffix not in parts] == ["py.typed"]


def test_every_driver_is_found_by_its_file_name() -> None:
    entries = [
        path for path in (SOURCE / "drivers").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    stems = [path.stem for path in entries if path.stem != "__init__"]
    assert [driver.name for driver in load_drivers()] == sorted(stem.replace("_", "-") for stem in stems)


def test_exactly_one_driver_is_the_default() -> None:
    assert len([driver for driver in load_drivers() if driver.default]) == 1


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(inspan.__all__) == [
        "AgentNode",
        "AgentResult",
        "AgentRunner",
        "AgentSandbox",
        "AgentSession",
        "ApplyNode",
        "BASE_ALLOWED_TOOLS",
        "Blueprint",
        "BlueprintReport",
        "Budget",
        "CheckNode",
        "Client",
        "CommandNode",
        "CompletionClient",
        "Cost",
        "Decision",
        "Event",
        "ExecResult",
        "FinishedTurn",
        "Input",
        "InspanError",
        "Limits",
        "LoopPolicy",
        "LoopResult",
        "McpServer",
        "OutputPiece",
        "PermissionRequest",
        "PersonNode",
        "Price",
        "Rates",
        "Record",
        "Repeat",
        "Reporter",
        "Run",
        "RunEnded",
        "RunInfo",
        "RunRecord",
        "SessionState",
        "Task",
        "Tool",
        "ToolCall",
        "ToolContext",
        "ToolError",
        "UndoResult",
        "Usage",
        "WatchdogLimits",
        "allow",
        "apply_run",
        "attach_session",
        "create_agent_runner",
        "create_console_reporter",
        "declare_tool",
        "deny",
        "find_run",
        "follow",
        "open_sandbox",
        "open_session",
        "run",
        "run_blueprint",
        "run_loop",
        "run_sync",
        "start",
        "tool",
        "undo_run",
        "validate_environment",
        "wrap_agent_as_completion_client",
    ]
    assert all(getattr(inspan, name) is not None for name in inspan.__all__)


_DECODING = re.compile(r"msgspec\.(convert|(json|msgpack)\.(decode|Decoder))")
# What msgspec knows without looking into a class.
_PLAIN_TYPES = {"Any", "Json", "Raw", "_Json", "bytes", "dict", "float", "int", "list", "msgspec", "object", "str"}


def test_whatever_is_decoded_names_a_type_that_is_known_whole() -> None:
    bare = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for path in modules()
        if path.stem not in (_HOST, "known_types")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and _DECODING.fullmatch(ast.unparse(node.func))
        for kind in _list_kinds(node)
        if not ast.unparse(kind).startswith("know_type(") and not _list_names(kind) <= _PLAIN_TYPES
    ]
    assert bare == []


def _list_kinds(call: ast.Call) -> list[ast.expr]:
    """The type that is given to a decoder, by its place or by name."""
    place = {"convert": 1, "Decoder": 0}.get(ast.unparse(call.func).rpartition(".")[2], len(call.args))
    return [*call.args[place : place + 1], *(each.value for each in call.keywords if each.arg == "type")]


def _list_names(node: ast.expr) -> set[str]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


_WATCH_IMPORT = """
import sys
def watch(event, arguments):
    if event in ("os.mkdir", "os.putenv", "os.rename", "os.remove", "os.posix_spawn", "socket.bind"):
        raise SystemExit(f"importing did {event} {arguments}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise SystemExit(f"importing wrote {arguments}")
class Environment(dict):
    def __getitem__(self, name, default=None): raise SystemExit(f"importing read the variable {name}")
    get = __getitem__
import os
true, os.environ = os.environ, Environment()
sys.dont_write_bytecode = True
sys.addaudithook(watch)
import inspan
os.environ = true  # The libraries that our modules import may read it; they may write nothing.
loaded = {name for name in sys.modules if name.startswith("inspan.")}
assert not loaded, loaded
for name in sys.argv[1:]:
    __import__(name)
"""


def test_importing_the_package_does_nothing() -> None:
    names = [
        ".".join(("inspan", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in modules()
        if path.stem not in ("__init__", "__main__")
    ]
    done = subprocess.run(
        [sys.executable, "-c", _WATCH_IMPORT, *names], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
