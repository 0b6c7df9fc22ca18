"""A step finds the tool that can do it, with the arguments that this tool wants."""

import json
import subprocess
from pathlib import Path

import pytest

from inspan.gateway.scripts.patches import build_update_patch
from inspan.gateway.scripts.scenario import Edit, Use, Write
from inspan.gateway.scripts.tool_choice import Step, choose_answer_tool, choose_tool
from inspan.gateway.upstream import Tool, ToolKind
from inspan.gateway.wires.wire import ToolUse

WRITE = Write(path="a.txt", content="one\ntwo\n")
EDIT = Edit(path="a.txt", old="b", new="B")
ADD_PATCH = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"
UPDATE_PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n a\n-b\n+B\n c\n*** End Patch"


def make_tool(name: str, *fields: str, kind: ToolKind = "function", type_: str = "string") -> Tool:
    return Tool(name=name, kind=kind, fields=dict.fromkeys(fields, type_))


@pytest.mark.parametrize(
    ("step", "tool", "arguments"),
    [
        ("ls", make_tool("Bash", "command", "description"), {"command": "ls", "description": "Run a command"}),
        ("ls", make_tool("exec_command", "cmd"), {"cmd": "ls", "yield_time_ms": 30000}),
        ("ls", make_tool("run_shell_command", "command"), {"command": "ls"}),
        ("ls", make_tool("shell", "command", type_="array"), {"command": ["bash", "-lc", "ls"]}),
        ("ls", make_tool("shell", "command"), {"command": "ls"}),
        ("ls", make_tool("execute_command", "command"), {"command": "ls"}),
        (WRITE, make_tool("Write", "file_path", "content"), {"file_path": "/w/a.txt", "content": "one\ntwo\n"}),
        (WRITE, make_tool("write", "filePath", "content"), {"filePath": "/w/a.txt", "content": "one\ntwo\n"}),
        (WRITE, make_tool("create", "path", "file_text"), {"path": "/w/a.txt", "file_text": "one\ntwo\n"}),
        (WRITE, make_tool("apply_patch", "input"), {"input": ADD_PATCH}),
        (
            EDIT,
            make_tool("Edit", "file_path", "old_string", "new_string"),
            {"file_path": "/w/a.txt", "old_string": "b", "new_string": "B"},
        ),
        (
            EDIT,
            make_tool("replace", "file_path", "instruction", "old_string", "new_string"),
            {"file_path": "/w/a.txt", "old_string": "b", "new_string": "B", "instruction": "Edit a file"},
        ),
        (
            EDIT,
            make_tool("edit", "path", "edits", type_="array"),
            {"path": "/w/a.txt", "edits": [{"oldText": "b", "newText": "B"}]},
        ),
        (
            EDIT,
            make_tool("edit", "path", "oldText", "newText"),
            {"path": "/w/a.txt", "oldText": "b", "newText": "B"},
        ),
    ],
)
def test_a_function_gets_its_own_arguments(step: Step, tool: Tool, arguments: dict[str, object]) -> None:
    assert choose_tool(step, [tool], cwd=Path("/w")) == ToolUse(name=tool.name, arguments=arguments)


@pytest.mark.parametrize(("step", "patch"), [(WRITE, ADD_PATCH), (EDIT, UPDATE_PATCH)])
def test_a_file_is_patched_where_there_is_a_patch_tool(tmp_path: Path, step: Step, patch: str) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    tools = [make_tool("exec_command", "cmd"), make_tool("apply_patch", kind="custom")]
    assert choose_tool(step, tools, cwd=tmp_path) == ToolUse(name="apply_patch", kind="custom", text=patch)


def test_where_tools_sit_behind_javascript_a_program_is_written() -> None:
    tools = [Tool(name="exec", kind="custom", namespace="functions")]
    use = choose_tool(WRITE, tools, cwd=Path("/w"))
    assert use == ToolUse(
        name="exec",
        kind="custom",
        namespace="functions",
        text=f"text(await tools.apply_patch({json.dumps(ADD_PATCH)}));",
    )


@pytest.mark.parametrize(
    ("step", "result"),
    [
        (Write(path="new dir/it's.txt", content="a 'b'\n$c"), ("new dir/it's.txt", "a 'b'\n$c")),
        (Edit(path="old.txt", old="'b'", new='"$B"'), ("old.txt", 'a "$B" c')),
    ],
)
def test_with_a_shell_alone_the_file_is_changed_by_a_command(
    tmp_path: Path, step: Step, result: tuple[str, str]
) -> None:
    (tmp_path / "old.txt").write_text("a 'b' c")
    use = choose_tool(step, [make_tool("bash", "command")], cwd=tmp_path)
    assert use is not None
    assert use.arguments is not None
    subprocess.run(["bash", "-c", str(use.arguments["command"])], cwd=tmp_path, timeout=120, check=True)
    assert (tmp_path / result[0]).read_text() == result[1]


def test_a_tool_of_another_kind_does_not_fit() -> None:
    assert choose_tool("ls", [make_tool("exec", "input"), make_tool("Bash", kind="custom")], cwd=Path("/w")) is None


@pytest.mark.parametrize(
    ("text", "old", "new", "hunk"),
    [
        ("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "5", "five", " 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8"),
        ("a word here\n", "word", "two\nlines", "-a word here\n+a two\n+lines here"),
        ("a\nb\n", "b\n", "", " a\n-b"),
        ("a\nb", "b", "b\nc", " a\n b\n+c"),
        ("a\n", "nowhere", "x", "-nowhere\n+x"),
    ],
)
def test_an_edit_is_widened_to_whole_lines_with_some_around(text: str, old: str, new: str, hunk: str) -> None:
    patch = build_update_patch("f", old=old, new=new, text=text)
    assert patch == f"*** Begin Patch\n*** Update File: f\n@@\n{hunk}\n*** End Patch"


LOOK = Use(tool="Look", input={"at": "me"})
ECHO = Use(tool="mcp__box__echo", input={"text": "hi"})
SCRIPT = Tool(name="exec", kind="custom", namespace="functions")


@pytest.mark.parametrize(
    ("step", "tools", "use"),
    [
        (LOOK, [], ToolUse(name="Look", arguments={"at": "me"})),
        (LOOK, [make_tool("Look", "at")], ToolUse(name="Look", arguments={"at": "me"})),
        (
            Use(tool="clocknow"),
            [Tool(name="now", namespace="clock")],
            ToolUse(name="now", namespace="clock", arguments={}),
        ),
        (ECHO, [], ToolUse(name="mcp__box__echo", arguments={"text": "hi"})),
        (ECHO, [make_tool("mcp__box__echo", "text")], ToolUse(name="mcp__box__echo", arguments={"text": "hi"})),
        # Tools of servers that are not declared but can be searched for are called by server and name.
        (
            ECHO,
            [make_tool("list_mcp_resources")],
            ToolUse(name="echo", namespace="mcp__box", arguments={"text": "hi"}),
        ),
        (
            ECHO,
            [SCRIPT],
            ToolUse(
                name="exec",
                kind="custom",
                namespace="functions",
                text='text(JSON.stringify(await tools.mcp__box__echo({"text":"hi"})));',
            ),
        ),
    ],
    ids=["unknown", "offered", "in-a-namespace", "server", "server-offered", "server-searched", "javascript"],
)
def test_a_tool_is_called_by_its_name(step: Use, tools: list[Tool], use: ToolUse) -> None:
    assert choose_tool(step, tools, cwd=Path("/w")) == use


SERVED = Use(tool="echo", server="tool-box", input={"text": "hi"})


@pytest.mark.parametrize(
    "name",
    [
        "mcp__tool-box__echo",
        "mcp_tool-box_echo",
        "tool-box__echo",
        "tool-box_echo",
        "tool-box-echo",
        "mcp__tool_box__echo",
    ],
)
def test_a_tool_of_a_server_is_found_by_whatever_name_an_agent_gives_it(name: str) -> None:
    use = choose_tool(SERVED, [make_tool("echo", "text"), make_tool(name, "text")], cwd=Path("/w"))
    assert use == ToolUse(name=name, arguments={"text": "hi"})


def test_a_tool_of_a_server_is_found_in_a_namespace() -> None:
    tool = Tool(name="echo", namespace="mcp__tool_box__")
    assert choose_tool(SERVED, [tool], cwd=Path("/w")) == ToolUse(
        name="echo", namespace="mcp__tool_box__", arguments={"text": "hi"}
    )


@pytest.mark.parametrize("other", ["mcp__tool-box-2__echo", "mcp__my-tool-box__echo", "mcp__tool-box__loud_echo"])
def test_a_server_or_tool_with_a_longer_name_is_not_taken_for_it(other: str) -> None:
    offers = [make_tool(other), make_tool("mcp__tool-box__echo"), make_tool(other + "_")]
    use = choose_tool(SERVED, offers, cwd=Path("/w"))
    assert use and use.name == "mcp__tool-box__echo"


@pytest.mark.parametrize("name", ["mcp__echo__tool-box", "echo", "tool-box", "mcp__toolbox__echo"])
def test_a_tool_of_a_server_that_is_not_on_offer_is_called_by_its_usual_name(name: str) -> None:
    use = choose_tool(SERVED, [make_tool(name)], cwd=Path("/w"))
    assert use == ToolUse(name="mcp__tool-box__echo", arguments={"text": "hi"})


def test_a_tool_of_a_server_that_must_be_searched_for_has_a_plain_name() -> None:
    searched = choose_tool(SERVED, [make_tool("list_mcp_resources")], cwd=Path("/w"))
    assert searched == ToolUse(name="echo", namespace="mcp__tool_box", arguments={"text": "hi"})
    coded = choose_tool(SERVED, [SCRIPT], cwd=Path("/w"))
    assert coded and "tools.mcp__tool_box__echo(" in (coded.text or "")


def test_an_answer_has_a_tool_of_its_own_or_none() -> None:
    tool = make_tool("StructuredOutput", "n")
    assert choose_answer_tool({"n": 1}, [make_tool("Bash"), tool]) == ToolUse(
        name="StructuredOutput", arguments={"n": 1}
    )
    assert choose_answer_tool({"n": 1}, [make_tool("Bash")]) is None
