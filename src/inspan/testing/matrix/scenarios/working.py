"""What an agent does with its tools."""

import os
import shutil
import sys
from typing import Any

from inspan.testing import tool_server

from ..cell import must, same
from ..ground import Ground, Story
from ..scenario import scenario

_LONG = 5_000_000


@scenario("a shell command")
def shell(ground: Ground) -> None:
    story = ground.run(
        '[[call]]\nrun = "echo from-the-shell; echo written > by-shell.txt"\n'
        '[[call]]\nexpect = "from-the-shell"\nsay = "Done."\n'
    )
    story.is_done()
    same("file", (ground.work / "by-shell.txt").read_text(), "written\n")
    started, completed, executed = _each(story, "tool_started", "tool_completed", "command_executed")
    same("ids", {started["id"], completed["id"], executed["id"]}, {started["id"]})
    must("echo from-the-shell" in executed["command"], f"the command was told as {executed['command']!r}")
    must("from-the-shell" in completed["output"], f"the output was told as {completed['output']!r}")
    same("exit code of the command", executed.get("exit_code"), 0)


@scenario("a file is written")
def write(ground: Ground) -> None:
    story = ground.run('[[call]]\nwrite = {path = "new.txt", content = "one\\ntwo\\n"}\n[[call]]\nsay = "Done."\n')
    story.is_done()
    path = ground.work / "new.txt"
    must(path.exists(), f"no file was written; the tool said {_outputs(story)}")
    same("file", path.read_text(), "one\ntwo\n")
    same("told changes", _changes(story), [(str(path), "added")])


@scenario("a file is edited")
def edit(ground: Ground) -> None:
    story = ground.run(
        '[[call]]\nwrite = {path = "new.txt", content = "one\\ntwo\\n"}\n'
        '[[call]]\nedit = {path = "new.txt", old = "two", new = "three"}\n[[call]]\nsay = "Done."\n'
    )
    story.is_done()
    path = ground.work / "new.txt"
    must(path.exists(), f"no file was written; the tool said {_outputs(story)}")
    must(path.read_text() == "one\nthree\n", f"the file holds {path.read_text()!r}; the tool said {_outputs(story)}")
    same("told changes", _changes(story), [(str(path), "added"), (str(path), "modified")])
    same("files changed", story.ended["files_changed"], [str(path)])


@scenario("a command that fails")
def failing_command(ground: Ground) -> None:
    story = ground.run('[[call]]\nrun = "echo oh-no; exit 3"\n[[call]]\nexpect = "oh-no"\nsay = "It failed."\n')
    story.is_done()
    (executed,) = _each(story, "command_executed")
    same("exit code of the command", executed.get("exit_code"), 3)
    ended = story.of("tool_failed", "tool_completed")
    same("ends of the tool", [event["kind"] for event in ended], ["tool_failed"])
    must("oh-no" in ended[0]["output"], f"the output was told as {ended[0]['output']!r}")


@scenario("a tool that prints 5 MB")
def long_output(ground: Ground) -> None:
    command = f"python3 -c 'print(chr(120) * {_LONG})'"
    story = ground.run(f'[[call]]\nrun = "{command}"\n[[call]]\nsay = "Done."\n')
    story.is_done()
    same("texts", story.texts, ["Done."])
    ends = story.of("tool_completed", "tool_failed")
    same("ends of the tool", len(ends), 1)
    must(ends[0].get("output"), "nothing was told of the output")


@scenario("a tool of a server of the user's")
def extra_tools(ground: Ground) -> None:
    # In the working folder, and by the interpreter behind a virtual environment: a box may hide where both lie.
    script = shutil.copy(tool_server.__file__, ground.work)
    story = ground.run(
        '[[call]]\nuse = {tool = "echo", server = "tool-box", input = {text = "hello"}}\n'
        '[[call]]\nexpect = "echo: hello"\nsay = "Done."\n',
        "--mcp",
        f"tool-box={os.path.realpath(sys.executable)} {script}",
    )
    story.is_done()
    outputs = [event["output"] for event in story.of("tool_completed")]
    must(any("echo: hello" in output for output in outputs), f"the tool's output was told as {outputs}")


def _each(story: Story, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds, of which there must be one each."""
    found = {kind: story.of(kind) for kind in kinds}
    same("events", {kind: len(events) for kind, events in found.items()}, dict.fromkeys(kinds, 1))
    return [found[kind][0] for kind in kinds]


def _changes(story: Story) -> list[tuple[str, str]]:
    return [(event["path"], event["change"]) for event in story.of("file_changed")]


def _outputs(story: Story) -> list[str]:
    return [event.get("output", "")[:200] for event in story.of("tool_completed", "tool_failed")]
