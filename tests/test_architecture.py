"""The architecture as a test: the direction of imports, the purity of the pure rooms, and who may name an agent."""

import ast
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import inspan
from inspan.engine.registry import drivers

SOURCE = Path(inspan.__file__).parent

_WORDS = {"protocol", "errors"}
_TERMS = _WORDS | {"contracts"}
# Room → the rooms it may import. A room that is not here is an error: give it a row first.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "protocol": set(),
    "contracts": _WORDS,
    "framing": _TERMS,
    "redaction": _TERMS,
    "folds": _TERMS,
    "reporters": _TERMS | {"redaction", "folds"},
    "dialects": _TERMS | {"framing"},
    "drivers": _TERMS | {"framing", "dialects"},
    "transports": _TERMS | {"framing", "redaction"},
    "sandboxes": _TERMS,
    "config": _TERMS,
    "gateway": _TERMS | {"framing", "redaction"},
    "stores": _TERMS | {"framing", "redaction"},
    "engine": _TERMS
    | {"framing", "redaction", "folds", "dialects", "drivers", "transports", "sandboxes", "gateway", "stores"}
    | {"config", "reporters"},
    "api": _TERMS | {"engine", "folds", "stores", "reporters", "config"},
    "cli": _TERMS | {"engine", "folds", "stores", "config", "reporters", "testing"},
    "testing": _TERMS | {"engine", "folds", "stores", "reporters"},
}
PURE = {"protocol", "contracts", "framing", "redaction", "folds", "dialects", "drivers"}
_IO_MODULES = {"asyncio", "anyio", "socket", "subprocess", "select", "shutil", "sqlite3", "http"}
_IO_CALLS = {"open", "print", "input"}


# Where a provider, a protocol or a folder has the name of an agent.
_NAMESAKES = {
    "drivers/goose/providers.py": "xai",
    "drivers/pi/__init__.py": "xai",
    "drivers/qwen/providers.py": "gemini",
    "drivers/opencode/__init__.py": "claude",
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module that a file imports anywhere in it, relative imports resolved."""
    package = ["inspan", *path.relative_to(SOURCE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(part for part in (base, node.module or "") if part)
            found |= {f"{name}.{alias.name}" for alias in node.names} | {name}
    return found


def rooms_imported(path: Path) -> set[str]:
    inner = {name.split(".")[1] for name in imported(path) if name.startswith("inspan.")}
    return {name for name in inner if name in ALLOWED} - {room_of(path)}


def test_every_room_has_a_row_in_the_table() -> None:
    rooms = {room_of(path) for path in modules()} - {"__init__", "__main__"}
    assert rooms <= ALLOWED.keys()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_its_row_allows(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert rooms_imported(path) <= ALLOWED[room]


def test_rooms_do_not_import_in_a_circle() -> None:
    edges = {room: set[str]() for room in ALLOWED}
    for path in modules():
        if room_of(path) in edges:
            edges[room_of(path)] |= rooms_imported(path)
    left = dict(edges)
    while free := {room for room, needs in left.items() if not needs & left.keys()}:
        left = {room: needs for room, needs in left.items() if room not in free}
    assert left == {}


@pytest.mark.parametrize("path", [path for path in modules() if room_of(path) in PURE], ids=lambda path: path.stem)
def test_a_pure_room_neither_waits_nor_does_io(path: Path) -> None:
    tree = ast.parse(path.read_text())
    waits = [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncFor)]
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not waits
    assert not {name.split(".")[0] for name in imported(path)} & _IO_MODULES
    assert not calls & _IO_CALLS


def test_no_agent_is_named_outside_its_driver() -> None:
    names = {driver.name for driver in drivers() if not driver.built_in and not driver.family}
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


def test_every_driver_is_found_by_its_file_name() -> None:
    entries = [
        path for path in (SOURCE / "drivers").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    stems = [path.stem for path in entries if path.stem != "__init__"]
    assert [driver.name for driver in drivers()] == sorted(stem.replace("_", "-") for stem in stems)


def test_exactly_one_driver_is_the_default() -> None:
    assert len([driver for driver in drivers() if driver.default]) == 1


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(inspan.__all__) == [
        "AgentSession",
        "BASE_ALLOWED_TOOLS",
        "Budget",
        "CompletionClient",
        "Event",
        "InspanError",
        "Limits",
        "McpServer",
        "Price",
        "Rates",
        "Reporter",
        "Result",
        "Run",
        "RunEnded",
        "Runner",
        "Task",
        "Usage",
        "find_run",
        "follow",
        "run",
        "run_sync",
        "runner",
        "start",
        "validate_environment",
    ]
    assert all(getattr(inspan, name) is not None for name in inspan.__all__)


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
        [sys.executable, "-c", _WATCH_IMPORT, *names], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
