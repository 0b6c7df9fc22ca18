"""What a task lets its agent use, read the same way for all agents."""

import pytest

from inspan.contracts.tool_grants import is_unrestricted, split_mcp_tool, split_pattern
from inspan.protocol.task import Mode, Task


@pytest.mark.parametrize(
    ("mode", "allowed", "free"),
    [("exec", None, True), ("exec", (), False), ("exec", ("Read",), False), ("review", None, False)],
)
def test_only_exec_without_a_list_is_free(mode: Mode, allowed: tuple[str, ...] | None, free: bool) -> None:
    assert is_unrestricted(Task(prompt="", cwd="/", mode=mode, allowed_tools=allowed)) is free


@pytest.mark.parametrize(
    ("tool", "parts"),
    [
        ("Read", ("Read", "")),
        ("Bash(git *)", ("Bash", "git *")),
        ("Bash(echo (a))", ("Bash", "echo (a)")),
        ("mcp__box__echo", ("mcp__box__echo", "")),
    ],
)
def test_a_tool_is_parted_from_what_is_meant_of_it(tool: str, parts: tuple[str, str]) -> None:
    assert split_pattern(tool) == parts


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ("mcp__box__echo", ("box", "echo")),
        ("mcp__box__read__all", ("box", "read__all")),
        ("mcp__box", ("box", "")),
        ("mcp__box__*", ("box", "")),
        ("Bash", None),
    ],
)
def test_a_tool_of_a_server_names_both(tool: str, named: tuple[str, str] | None) -> None:
    assert split_mcp_tool(tool) == named
