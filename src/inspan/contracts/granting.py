"""What a task lets its agent use, in the words that all agents share: `Read`, `Bash(git *)`, `mcp__server__tool`."""

from inspan.protocol.task import Task

# For the commands of a run that only reads: else `git status`, which only reads as well, writes a fresh index.
READING = {"GIT_OPTIONAL_LOCKS": "0"}
_OF_A_SERVER = "mcp__"


def is_free(task: Task) -> bool:
    """Whether the agent may do everything; else nobody's settings may add to what it may do."""
    return task.mode == "exec" and task.allowed_tools is None


def parted(tool: str) -> tuple[str, str]:
    """The tool and what of it is meant: `Bash` and `git *` for `Bash(git *)`, nothing for all of it."""
    name, _, pattern = tool.partition("(")
    return name, pattern.removesuffix(")")


def of_server(tool: str) -> tuple[str, str] | None:
    """The server and its tool, without a name for all of them: `mcp__server`; None for a tool of the agent's own."""
    if not tool.startswith(_OF_A_SERVER):
        return None
    server, _, name = tool.removeprefix(_OF_A_SERVER).partition("__")
    return server, "" if name == "*" else name
