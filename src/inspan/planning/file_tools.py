"""Whether an agent that was granted `inspan file-tools` could start it: tried as the agent would, before it is one."""

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from inspan.contracts.tool_grants import list_granted_tools, split_pattern
from inspan.errors import HelperUnusable
from inspan.protocol.task import Task
from inspan.system.programs import find_program, leads_through

_PROGRAM, _COMMAND = "inspan", "file-tools"
_VALUED = "--max-bytes"
_TRIAL = ("stat", ".")
_TRIAL_S = 20.0


def check_file_tools(task: Task, env: Mapping[str, str], *, avoid: Sequence[str] = ()) -> None:
    """Raises `HelperUnusable` where a grant or an MCP server names `inspan file-tools` and it cannot be started.

    One that lies in a folder to `avoid` is not tried: that would start it outside of the sandbox.
    """
    for field, words in _iter_lines(task):
        own = {**env, **task.env}
        program = words[0] if os.sep in words[0] else find_program(words[0], path=own.get("PATH", os.defpath))
        if not program:
            path = own.get("PATH", os.defpath)
            raise HelperUnusable(
                f"{field}: the agent could not start {words[0]!r}, which is not on its PATH ({path}).",
                next_step="Put the folder of inspan on PATH, or write its whole path in the grant.",
                tried=f"looking for {words[0]} on PATH",
            )
        if (root := _find_root(words)) and not leads_through(os.path.abspath(program), avoid):
            _try_out(field, [program, *words[1 : words.index(root) + 1], *_TRIAL], own)


def list_open_grants(task: Task) -> list[str]:
    """A warning for each grant that leaves ROOT to the agent."""
    return [
        f"{field} names no ROOT: the agent can choose any folder."
        for field, words in _iter_lines(task)
        if not _find_root(words)
    ]


def _iter_lines(task: Task) -> Iterator[tuple[str, list[str]]]:
    """Where it is granted, and the words of its line."""
    for tool in list_granted_tools(task):
        yield from _iter_line(f"allowed_tools {tool!r}", _split(split_pattern(tool)[1]))
    for name, server in task.mcp_servers.items():
        yield from _iter_line(f"mcp_servers {name!r}", [server.command, *server.args])


def _iter_line(field: str, words: list[str]) -> Iterator[tuple[str, list[str]]]:
    if words[1:2] == [_COMMAND] and os.path.basename(words[0]) == _PROGRAM:
        yield field, words


def _split(pattern: str) -> list[str]:
    try:
        return shlex.split(pattern.replace(":*", " *"))
    except ValueError:
        return pattern.split()


def _find_root(words: Sequence[str]) -> str:
    """The first word behind `file-tools` that is no option, where it is fixed."""
    rest = list(words[2:])
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] == _VALUED else 1]
    return rest[0] if rest and "*" not in rest[0] else ""


def _try_out(field: str, argv: list[str], env: Mapping[str, str]) -> None:
    tried = shlex.join(argv)
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_S, check=False
        )
        came_back = "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or "nothing"
    except subprocess.TimeoutExpired:
        came_back = f"no answer within {_TRIAL_S:g} s"
    except OSError as error:
        came_back = error.strerror or str(error)
    if came_back:
        raise HelperUnusable(
            f"{field}: `{tried}` does not work here: {came_back}",
            next_step="Run it yourself; then change the grant, or install this inspan where the agent finds it.",
            tried=tried,
            came_back=came_back,
        )
