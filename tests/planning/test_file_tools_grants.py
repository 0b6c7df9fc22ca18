"""A task that grants `inspan file-tools` is refused where its agent could not start it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inspan.errors import HelperUnusable
from inspan.planning.file_tools import check_file_tools, list_open_grants
from inspan.planning.validate import validate
from inspan.protocol.reasons import AGENT, exit_code_of_error
from inspan.protocol.task import McpServer, Task

Write = Callable[[str, str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for PATH with the command in it, as pip puts it there."""
    made = tmp_path / "bin"
    made.mkdir()
    program = made / "inspan"
    program.write_text(f"#!{sys.executable}\nfrom inspan.cli import main\nmain()\n")
    program.chmod(0o755)
    return made


def grant(root: object, *, program: str = "inspan", before: str = "") -> Task:
    pattern = f"Bash({program} file-tools {before}{root} *)"
    return Task(prompt="do it", cwd="/", agent="claude", allowed_tools=(pattern,))


def refuse(task: Task, path: Path | str) -> HelperUnusable:
    with pytest.raises(HelperUnusable) as caught:
        check_file_tools(task, {"PATH": str(path)})
    assert caught.value.next_step and caught.value.code == "helper_unusable"
    assert exit_code_of_error(caught.value) == AGENT
    return caught.value


def test_a_command_that_the_agent_can_start_is_let_pass(folder: Path, tmp_path: Path) -> None:
    for task in (
        grant(tmp_path),
        grant(tmp_path, before="--read-only --max-bytes 10 "),
        grant(tmp_path, program=str(folder / "inspan")),
        grant(f"'{tmp_path}'"),
        msgspec.structs.replace(grant(tmp_path), ask=("Bash(git *)", "*")),
    ):
        check_file_tools(task, {"PATH": str(folder)})


def test_a_command_that_is_not_on_the_agents_path_is_refused(tmp_path: Path) -> None:
    error = refuse(grant(tmp_path), "/nowhere")
    assert error.message == (
        f"allowed_tools 'Bash(inspan file-tools {tmp_path} *)': the agent could not start 'inspan', "
        "which is not on its PATH (/nowhere)."
    )
    assert (
        "could not start 'inspan'" in refuse(msgspec.structs.replace(grant(tmp_path), env={"PATH": "/x"}), "/").message
    )
    assert "No such file" in refuse(grant(tmp_path, program="/no/inspan"), "/").message


def test_a_root_that_is_none_is_refused(folder: Path, tmp_path: Path) -> None:
    assert "no such folder." in refuse(grant(tmp_path / "none"), folder).message
    assert "it is not a whole path." in refuse(grant("src"), folder).message
    assert "it holds the whole machine." in refuse(grant("/"), folder).message


@pytest.mark.parametrize("body", ["exit 3", "echo 'no such command' >&2; exit 2", "not-a-program"])
def test_a_program_that_is_another_is_refused(folder: Path, tmp_path: Path, body: str) -> None:
    (folder / "inspan").write_text(f"#!/bin/sh\n{body}\n")
    assert "does not work here: " in refuse(grant(tmp_path), f"{folder}:/usr/bin:/bin").message


def test_a_server_is_looked_at_too(folder: Path, tmp_path: Path) -> None:
    server = McpServer(command="inspan", args=("file-tools", str(tmp_path), "serve"))
    task = Task(prompt="do it", cwd="/", agent="codex", mcp_servers={"files": server})
    check_file_tools(task, {"PATH": str(folder)})
    assert refuse(task, "/nowhere").message.startswith("mcp_servers 'files': the agent could not start 'inspan'")


@pytest.mark.parametrize(
    "tool", ["Read", "Bash", "Bash(git file-tools *)", "Bash(file-tools *)", "Bash(inspan ps)", "Bash('"]
)
def test_other_grants_are_left_alone(tool: str) -> None:
    task = msgspec.structs.replace(grant("/x"), allowed_tools=(tool,))
    check_file_tools(task, {"PATH": "/nowhere"})
    assert list_open_grants(task) == []


@pytest.mark.parametrize("pattern", ["inspan file-tools *", "inspan file-tools:*", "inspan file-tools --read-only *"])
def test_a_grant_without_a_root_is_warned_of(folder: Path, pattern: str) -> None:
    task = msgspec.structs.replace(grant("/x"), allowed_tools=(f"Bash({pattern})",))
    check_file_tools(task, {"PATH": str(folder)})
    [warning] = list_open_grants(task)
    assert warning.endswith("names no ROOT: the agent can choose any folder.")


def test_the_environment_is_validated_with_it(folder: Path, tmp_path: Path, fake: Write) -> None:
    program = fake("claude", "print('2.1.325 (Claude Code)')\n")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "INSPAN_CLAUDE_BIN": program,
        "ANTHROPIC_API_KEY": "k" * 20,
    }
    task = msgspec.structs.replace(grant(tmp_path), cwd=str(tmp_path))
    found = validate(task, env={**env, "PATH": f"{folder}:{env['PATH']}"})
    assert not any("ROOT" in warning for warning in found.warnings)
    with pytest.raises(HelperUnusable):
        validate(task, env={**env, "PATH": "/usr/bin:/bin"})
    opened = msgspec.structs.replace(task, allowed_tools=("Bash(inspan file-tools *)",))
    found = validate(opened, env={**env, "PATH": f"{folder}:{env['PATH']}"})
    assert any("names no ROOT" in warning for warning in found.warnings)
