"""The rule book: denials first, then what was allowed for good, then questions, then what is allowed."""

from typing import Any

import msgspec
import pytest

from inspan.contracts.permissions import KeptApproval, Rulebook, Ruling, build_rulebook, subject_of
from inspan.protocol.task import Task

_BOOK = Rulebook(
    allow=("Bash(git *)", "Read", "mcp__docs"),
    deny=("Bash(rm *)", "WebFetch"),
    ask=("Bash(git push*)", "*"),
    kept=frozenset({KeptApproval(tool="Bash", subject="git push origin")}),
)


@pytest.mark.parametrize(
    ("tool", "given", "ruling"),
    [
        ("Bash", {"command": "git status"}, "allow"),
        ("shell", {"command": ["git", "status"]}, "allow"),
        ("Bash", {"command": "git push"}, "ask"),
        ("Bash", {"command": "git push origin"}, "allow"),
        ("Bash", {"command": "git push origin; rm x"}, "deny"),
        ("Bash", {"command": "git status && rm -r x"}, "deny"),
        ("Bash", {"command": "git status | sh"}, "ask"),
        ("Bash", {"command": "git status $(reboot)"}, "ask"),
        ("Bash", {"command": "git log > /etc/passwd"}, "ask"),
        ("Bash", {"command": "git status\nreboot"}, "ask"),
        ("Bash", {"command": "make"}, "ask"),
        ("Read", {"file_path": "/etc/passwd"}, "allow"),
        ("WebFetch", {"url": "https://x"}, "deny"),
        ("mcp__docs__search", {"query": "x"}, "allow"),
        ("mcp__docsy__search", {"query": "x"}, "ask"),
        ("Edit", {"file_path": "a.py"}, "ask"),
        ("odd", None, "ask"),
        ("odd", ["rm", "x"], "ask"),
    ],
)
def test_a_call_gets_its_ruling(tool: str, given: Any, ruling: Ruling) -> None:
    assert _BOOK.rule(tool, given) == ruling


@pytest.mark.parametrize(
    "command",
    [
        *("(rm x)", "{ rm x; }", "$(rm x)", "`rm x`", "cat <(rm x)", "if rm x; then :; fi", "f(){ rm x; }; f"),
        *("! rm x", "X=1 rm x", ">f rm x", "rm\tx", "rm>y", "'rm' x", "\\rm x", 'r""m x', "/bin/rm x", "r\\\nm x"),
        *("env rm x", "command rm x", "exec rm x", "time rm x", "timeout 5 rm x", "bash -c 'rm x'", "$'rm' x"),
        *('env -S"rm x"', "env --split-string='rm x'", f"env {' '.join(f'A{n}=1' for n in range(250))} rm x"),
        *("coproc rm x", "eval rm x", "  rm x", "a && rm x", "a || rm x", "a | rm x", "a & rm x"),
    ],
)
def test_a_rule_that_holds_back_finds_a_command_wherever_it_stands(command: str) -> None:
    asking = Rulebook(ask=("Bash(rm *)",), allow=("Bash",))
    denying = Rulebook(deny=("Bash(rm *)",))
    given = {"command": command}
    assert (asking.rule("Bash", given), denying.rule("Bash", given)) == ("ask", "deny")
    assert asking.rule("Bash", {"command": "ls -l alarm x"}) == "allow"


@pytest.mark.parametrize(
    ("mode", "allowed", "ruling"), [("exec", None, "allow"), ("exec", (), "deny"), ("review", None, "deny")]
)
def test_what_no_rule_is_about_follows_the_mode(mode: Any, allowed: Any, ruling: Ruling) -> None:
    task = Task(prompt="x", cwd="/", mode=mode, allowed_tools=allowed, ask=("Edit",))
    assert build_rulebook(task).rule("Bash", {"command": "make"}) == ruling


def test_a_call_without_a_command_or_path_is_known_by_all_of_its_input() -> None:
    assert subject_of({"b": 1, "a": [2]}) == subject_of({"a": [2], "b": 1}) == '{"a":[2],"b":1}'
    assert subject_of(None) == ""


@pytest.mark.parametrize(
    ("tool", "given", "subject"),
    [
        ("Bash", {"command": "make", "description": "Builds it", "timeout": 5}, "make"),
        ("Bash", {"command": "make", "cwd": "/work"}, "make"),
        ("Write", {"file_path": "a.py", "content": "x"}, "a.py"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True}, "a.py"),
        ("shell", {"command": "make", "cwd": "/work"}, "make"),
        ("exec_command", {"cmd": "make"}, '{"cmd":"make"}'),
        ("apply_patch", {"file_path": "a.py\nb.py", "diff": "+x"}, "a.py\nb.py"),
        ("write", {"path": "a.py", "file_path": "a.py", "content": "x"}, "a.py"),
        ("write", {"filePath": "a.py", "filepath": "a.py", "diff": "+x", "content": "x"}, "a.py"),
        ("edit", {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]}, "a.py"),
        ("run_shell_command", {"command": "make", "description": "Builds it"}, "make"),
        ("replace", {"file_path": "a.py", "old_string": "x", "new_string": "y", "instruction": "y for x"}, "a.py"),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y", "replaceAll": False}, "a.py"),
        ("WebFetch", {"url": "https://a.example", "prompt": "what is it?"}, "https://a.example"),
        ("Bash", {"command": "make", "cwd": "/other"}, '{"command":"make","cwd":"/other"}'),
        ("Bash", {"command": ["make", "all"]}, '{"command":["make","all"]}'),
        ("Bash", {"command": "{ make; }"}, '{"command":"{ make; }"}'),
        ("Bash", {"command": "make", "dangerouslyDisableSandbox": True}, None),
        ("write", {"path": "a.py", "file_path": "b.py", "content": "x"}, '{"file_path":"b.py","path":"a.py"}'),
        ("odd", {"command": "make"}, '{"command":"make"}'),
        ("odd", None, ""),
        ("odd", "make", '"make"'),
    ],
)
def test_what_is_allowed_for_good_is_a_command_or_a_file_whatever_is_written(
    tool: str, given: Any, subject: str | None
) -> None:
    kept = Rulebook(cwd="/work").keep(tool, given)
    assert kept.tool == tool
    assert kept.subject == (subject if subject is not None else msgspec.json.encode(given, order="sorted").decode())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"query": "accounts", "action": "list"}, {"query": "accounts", "action": "delete_all"}),
        ({"url": "http://api", "method": "GET"}, {"url": "http://api", "method": "DELETE"}),
        ({"path": "/srv", "action": "read"}, {"path": "/srv", "action": "delete", "recursive": True}),
        ({"path": "/srv"}, {"command": "/srv"}),
        ({"command": ["a b"]}, {"command": ["a", "b"]}),
    ],
)
@pytest.mark.parametrize("tool", ["mcp__ops__call", "Bash", "Write", "Read", "WebFetch"])
def test_what_was_allowed_for_good_allows_nothing_else(tool: str, first: Any, second: Any) -> None:
    asking = Rulebook(ask=("*",))
    book = Rulebook(ask=("*",), kept=frozenset({asking.keep(tool, first)}))
    assert (book.rule(tool, first), book.rule(tool, second)) == ("allow", "ask")
