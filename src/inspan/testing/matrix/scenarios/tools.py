"""What an agent does with its tools."""

import os
import shlex
import shutil
import sys
from typing import Any

from inspan.testing import tool_server
from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment, RunTrace
from inspan.testing.matrix.scenario import scenario

_LONG = 5_000_000


@scenario("a shell command")
def shell(cell_env: CellEnvironment) -> None:
    story = cell_env.run(
        '[[call]]\nrun = "echo from-the-shell; echo written > by-shell.txt"\n'
        '[[call]]\nexpect = "from-the-shell"\nsay = "Done."\n'
    )
    story.require_completed()
    require_equal("file", (cell_env.work / "by-shell.txt").read_text(), "written\n")
    started, completed, executed = _require_one_each(story, "tool_started", "tool_completed", "command_executed")
    require_equal("ids", {started["id"], completed["id"], executed["id"]}, {started["id"]})
    require("echo from-the-shell" in executed["command"], f"the command was reported as {executed['command']!r}")
    require("from-the-shell" in completed["output"], f"the output was reported as {completed['output']!r}")
    require_equal("exit code of the command", executed.get("exit_code"), 0)


@scenario("a file is written")
def write(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\nwrite = {path = "new.txt", content = "one\\ntwo\\n"}\n[[call]]\nsay = "Done."\n')
    story.require_completed()
    path = cell_env.work / "new.txt"
    require(path.exists(), f"no file was written; the tool said {_outputs(story)}")
    require_equal("file", path.read_text(), "one\ntwo\n")
    require_equal("reported changes", _changes(story), [(str(path), "added")])


@scenario("a file is edited")
def edit(cell_env: CellEnvironment) -> None:
    story = cell_env.run(
        '[[call]]\nwrite = {path = "new.txt", content = "one\\ntwo\\n"}\n'
        '[[call]]\nedit = {path = "new.txt", old = "two", new = "three"}\n[[call]]\nsay = "Done."\n'
    )
    story.require_completed()
    path = cell_env.work / "new.txt"
    require(path.exists(), f"no file was written; the tool said {_outputs(story)}")
    require(path.read_text() == "one\nthree\n", f"the file holds {path.read_text()!r}; the tool said {_outputs(story)}")
    require_equal("reported changes", _changes(story), [(str(path), "added"), (str(path), "modified")])
    require_equal("files changed", story.ended["files_changed"], [str(path)])


@scenario("a command that fails")
def failing_command(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\nrun = "echo oh-no; exit 3"\n[[call]]\nexpect = "oh-no"\nsay = "It failed."\n')
    story.require_completed()
    (executed,) = _require_one_each(story, "command_executed")
    require_equal("exit code of the command", executed.get("exit_code"), 3)
    ended = story.select_events("tool_failed", "tool_completed")
    require_equal("ends of the tool", [event["kind"] for event in ended], ["tool_failed"])
    require("oh-no" in ended[0]["output"], f"the output was reported as {ended[0]['output']!r}")


@scenario("a tool that prints 5 MB")
def long_output(cell_env: CellEnvironment) -> None:
    command = f"python3 -c 'print(chr(120) * {_LONG})'"
    story = cell_env.run(f'[[call]]\nrun = "{command}"\n[[call]]\nsay = "Done."\n')
    story.require_completed()
    require_equal("texts", story.texts, ["Done."])
    ends = story.select_events("tool_completed", "tool_failed")
    require_equal("ends of the tool", len(ends), 1)
    require(ends[0].get("output"), "nothing was reported of the output")


@scenario("a tool of a server of the user's")
def extra_tools(cell_env: CellEnvironment) -> None:
    # In the working folder, and by the interpreter behind a virtual environment: a box may hide where both lie.
    script = shutil.copy(tool_server.__file__, cell_env.work)
    story = cell_env.run(
        '[[call]]\nuse = {tool = "echo", server = "tool-box", input = {text = "hello"}}\n'
        '[[call]]\nexpect = "echo: hello"\nsay = "Done."\n',
        "--mcp",
        f"tool-box={shlex.join([os.path.realpath(sys.executable), str(script)])}",
    )
    story.require_completed()
    outputs = [event["output"] for event in story.select_events("tool_completed")]
    require(any("echo: hello" in output for output in outputs), f"the tool's output was reported as {outputs}")


def _require_one_each(story: RunTrace, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds, of which there must be one each."""
    found = {kind: story.select_events(kind) for kind in kinds}
    require_equal("events", {kind: len(events) for kind, events in found.items()}, dict.fromkeys(kinds, 1))
    return [found[kind][0] for kind in kinds]


def _changes(story: RunTrace) -> list[tuple[str, str]]:
    return [(event["path"], event["change"]) for event in story.select_events("file_changed")]


def _outputs(story: RunTrace) -> list[str]:
    return [event.get("output", "")[:200] for event in story.select_events("tool_completed", "tool_failed")]
