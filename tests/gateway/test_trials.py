"""What a tool may do is told by its arguments, and a call on trial really does it where it is carried out."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspan.contracts.journal import SHELL_OUTPUT, Ability, JournalEntry, OfferedTool, SkippedStep, read_journal
from inspan.gateway.scripts.scenario_file import load_scenario
from inspan.gateway.scripts.tool_choice import choose_tool
from inspan.gateway.scripts.tool_kinds import classify_built_in, classify_tool
from inspan.gateway.scripts.trials import build_trial
from inspan.gateway.upstream import Tool, ToolKind

from .scripted_gateway import ScriptedGateway, ask_body, path_of


def _tool(name: str, *fields: str, kind: ToolKind = "function", **schema: Any) -> Tool:
    properties = {field: {"type": "string"} for field in fields} | schema
    types = {field: declared.get("type", "") for field, declared in properties.items()}
    whole = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=name, kind=kind, fields=types, schema=whole if properties else {})


@pytest.mark.parametrize(
    ("tool", "does"),
    [
        (_tool("Bash", "command", "description"), "runs"),
        (_tool("fnord", "cmd"), "runs"),
        (_tool("fnord", "Command"), "runs"),
        (_tool("runInTerminal", "words"), "runs"),
        (_tool("developer__shell", "words"), "runs"),
        (_tool("python", "code"), "runs"),
        (_tool("exec", kind="custom"), "runs"),
        (_tool("fnord", kind="custom"), "runs"),
        (_tool("apply_patch", kind="custom"), "writes"),
        (_tool("Write", "file_path", "content"), "writes"),
        (_tool("fnord", "path", "file_text"), "writes"),
        (_tool("fnord", "filePath", "oldString", "newString"), "writes"),
        (_tool("delete_file", "path"), "writes"),
        (_tool("apply_patch", "input"), "writes"),
        (_tool("fnord", "patchText"), "writes"),
        (_tool("Read", "file_path"), "other"),
        (_tool("Grep", "pattern", "path"), "other"),
        (_tool("spawn_agent", "message"), "other"),
        (_tool("now"), "other"),
        (_tool("fnord", "words"), "unknown"),
    ],
)
def test_a_tool_may_do_what_its_arguments_or_its_name_say(tool: Tool, does: Ability) -> None:
    assert classify_tool(tool) == does


@pytest.mark.parametrize(
    ("name", "does"),
    [
        *((name, "provider") for name in ("web_search", "web_search_20250305", "googleSearch", "code_interpreter")),
        *((name, "runs") for name in ("local_shell", "shell", "bash_20250124", "computer_use_preview")),
        *((name, "writes") for name in ("apply_patch", "text_editor_20250728")),
        ("something_new", "unknown"),
    ],
)
def test_a_tool_that_is_named_by_its_type_alone_is_the_agents_own_unless_it_is_known(name: str, does: Ability) -> None:
    assert classify_built_in(name) == does


def _command(tool: Tool, folder: Path, *, aloud: bool) -> str:
    use = build_trial(tool, number=1, cwd=folder, with_output=aloud)
    if use.kind == "custom":
        return use.text
    assert use.arguments
    given = next(value for value in use.arguments.values() if "touch" in str(value))
    return shlex.join(given) if isinstance(given, list) else str(given)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize("aloud", [True, False])
@pytest.mark.parametrize(
    "tool",
    [
        _tool("Bash", "command"),
        _tool("fnord", "cmd", "why", timeout={"type": "integer", "minimum": 5}),
        _tool("fnord", command={"type": "array"}),
        _tool("fnord", "words", "more"),
        _tool("reader", "path_or_so"),
        _tool("fnord", kind="custom"),
    ],
)
def test_a_command_on_trial_leaves_its_trace_and_aloud_it_says_so(tmp_path: Path, tool: Tool, aloud: bool) -> None:
    folder = tmp_path / "a folder (with signs) 'n all"
    folder.mkdir()
    command = _command(tool, folder, aloud=aloud)
    assert SHELL_OUTPUT not in command
    # A login shell reads what its home says.
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env=env)
    assert [path.name for path in folder.iterdir()] == ["by-a-tool-on-trial-1.txt"]
    assert (SHELL_OUTPUT in done.stdout) == aloud


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (_tool("fnord", "path", "content"), {"path": "{cwd}/by-a-tool-on-trial-1.txt", "content": "tried\n"}),
        (
            _tool("fnord", "file_path", "old_string", "new_string"),
            {"file_path": "{cwd}/kept.txt", "old_string": "original", "new_string": "tried"},
        ),
        (
            _tool("fnord", "path", edits={"type": "array"}),
            {"path": "{cwd}/kept.txt", "edits": [{"oldText": "original", "newText": "tried"}]},
        ),
        (_tool("delete_file", "path"), {"path": "{cwd}/by-a-tool-on-trial-1.txt"}),
        (
            _tool("fetch_it", depth={"type": "integer"}, deep={"type": "boolean"}, kind_={"enum": ["a", "b"]}),
            {"depth": 1, "deep": False, "kind_": "a"},
        ),
    ],
)
def test_a_tool_on_trial_gets_arguments_that_fit_its_schema(
    tmp_path: Path, tool: Tool, arguments: dict[str, object]
) -> None:
    (tmp_path / "kept.txt").write_text("original words\n")
    use = build_trial(tool, number=1, cwd=tmp_path)
    assert use.arguments == json.loads(json.dumps(arguments).replace("{cwd}", str(tmp_path)))


def test_a_step_finds_a_shell_and_an_editor_of_any_name(tmp_path: Path) -> None:
    shell, writer = _tool("fnord", "cmd", "why"), _tool("scribble", "file", "text")
    run = choose_tool("ls", [writer, shell], cwd=tmp_path)
    assert run
    assert (run.name, run.arguments) == ("fnord", {"cmd": "ls", "why": "tried"})


TRIED = """
journal = "told.jsonl"
[[call]]
write = {path = "a", content = "b"}
optional = true
[[call]]
try_tools = "writing"
[[call]]
say = "done"
"""


def test_every_request_is_told_to_the_journal_with_what_was_skipped_and_why(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(TRIED)
    scenario = load_scenario(tmp_path / "scenario.toml")
    assert scenario.journal == str(tmp_path / "told.jsonl")
    with ScriptedGateway(TRIED.replace("told.jsonl", scenario.journal)) as stage:
        for _ in range(3):
            stage.ask("messages")
    assert read_journal((tmp_path / "told.jsonl").read_bytes()) == [
        JournalEntry(step=3, skipped=[SkippedStep(step=1, why="no tool on offer can write 'a'; offered: none")]),
        JournalEntry(step=0, refused="A request came after the last call: 'hi'."),
        JournalEntry(step=0, refused="A request came after the last call: 'hi'."),
    ]


def test_each_tool_is_tried_once_and_the_journal_has_what_was_on_offer(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    script = f'journal = "{path}"\n[[call]]\ntry_tools = "all"\n[[call]]\nsay = "done"\n'
    with ScriptedGateway(script) as stage:
        for _ in range(3):
            stage.ask("messages", tools=({"name": "fnord"}, {"name": "look"}))
    entries = read_journal(path.read_bytes())
    assert [entry.called for entry in entries] == [("", "fnord"), ("", "look"), None]
    assert [tool.name for tool in entries[0].offered] == ["fnord", "look"]
    assert stage.script.mismatch == ""


def test_a_journal_that_cannot_be_written_is_complained_of(tmp_path: Path) -> None:
    with ScriptedGateway(f'journal = "{tmp_path}"\n[[call]]\nsay = "done"\n') as stage:
        stage.ask("chat")
    assert stage.script.mismatch == "The journal of the scenario cannot be written: Is a directory."


def test_tools_that_were_tried_and_then_nothing_is_complained_of() -> None:
    with ScriptedGateway('[[call]]\ntry_tools = "all"\n[[call]]\nsay = "done"\n') as stage:
        stage.ask("messages", tools=({"name": "fnord"},))
    assert stage.script.mismatch == "Call 1 of 2 tried 1 tools, and nothing was asked for then."


@pytest.mark.parametrize(
    ("wire", "tool"),
    [("responses", "local_shell"), ("messages", "bash_20250124"), ("chat", "web_search")],
)
def test_a_tool_without_a_schema_is_told_too(tmp_path: Path, wire: str, tool: str) -> None:
    path = tmp_path / "told.jsonl"
    with ScriptedGateway(f'journal = "{path}"\n[[call]]\nsay = "done"\n') as stage:
        body = {**ask_body(wire, "hi", stream=True), "tools": [{"type": tool, "name": "it"}]}
        stage.send("POST", path_of(wire, stream=True), body=body)
    (entry,) = read_journal(path.read_bytes())
    assert entry.offered == [OfferedTool(name=tool, does=classify_built_in(tool), kind="built-in")]
