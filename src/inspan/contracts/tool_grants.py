"""What a task lets its agent use, in the words that all agents share: `Read`, `Bash(git *)`, `mcp__server__tool`."""

from collections.abc import Iterable

from inspan.protocol.task import Task

# For the commands of a run that only reads: else `git status`, which only reads as well, writes a fresh index.
READ_ONLY_ENV = {"GIT_OPTIONAL_LOCKS": "0"}
_MCP_PREFIX = "mcp__"


def asks_first(task: Task) -> bool:
    """Whether the agent asks before it uses a tool: a rule, a person or a hook answers."""
    return bool(task.ask) or "before_tool" in task.hooks


def is_unrestricted(task: Task) -> bool:
    """Whether the agent may do everything, unasked; else nobody's settings may add to what it may do."""
    return task.mode == "exec" and task.allowed_tools is None and not task.ask


def acts_unasked(task: Task) -> bool:
    """Whether the agent may do everything, and asks nobody first, not even a hook."""
    return is_unrestricted(task) and not asks_first(task)


def offers_everything(task: Task) -> bool:
    """Whether no tool is left out, since all are allowed or can be asked about."""
    return task.mode == "exec" and (task.allowed_tools is None or "*" in task.ask)


def list_granted_tools(task: Task) -> tuple[str, ...]:
    """What may be used, at least once somebody has said yes: only `exec` is widened by what is asked about."""
    return (*(task.allowed_tools or ()), *(task.ask if task.mode == "exec" else ()))


def list_unasked_tools(task: Task, readers: Iterable[str]) -> tuple[str, ...]:
    """Which of these tools, which only read, need no question: none that `ask` names, and of a list those on it. A hook
    hears of all."""
    if "before_tool" in task.hooks:
        return ()
    named = {split_pattern(tool)[0] for tool in task.ask}
    listed = task.allowed_tools if task.mode == "exec" else None
    return tuple(tool for tool in readers if tool not in named and (listed is None or tool in listed))


def split_pattern(tool: str) -> tuple[str, str]:
    """The tool and what of it is meant: `Bash` and `git *` for `Bash(git *)`, nothing for all of it."""
    name, _, pattern = tool.partition("(")
    return name, pattern.removesuffix(")")


def split_mcp_tool(tool: str) -> tuple[str, str] | None:
    """The server and its tool, without a name for all of them: `mcp__server`; None for a tool of the agent's own."""
    if not tool.startswith(_MCP_PREFIX):
        return None
    server, _, name = tool.removeprefix(_MCP_PREFIX).partition("__")
    return server, "" if name == "*" else name
