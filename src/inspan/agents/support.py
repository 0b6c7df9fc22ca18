"""Whether an agent has what a task asks for: refused before anything starts, never left out in silence."""

from collections.abc import Callable, Mapping

from inspan.contracts.driver import Capabilities, Driver
from inspan.errors import BadInput, Unsupported
from inspan.protocol.task import Task

# Field of the task → whether it is asked for. The capability of the same name says whether the agent has it.
_REQUESTED: dict[str, Callable[[Task], bool]] = {
    "allowed_tools": lambda task: task.mode == "exec" and task.allowed_tools is not None,
    "disallowed_tools": lambda task: bool(task.disallowed_tools),
    "extra_dirs": lambda task: bool(task.extra_dirs),
    "resume": lambda task: bool(task.resume),
    "fork": lambda task: task.fork,
    "exec": lambda task: task.mode == "exec",
    "review": lambda task: task.mode == "review",
    "complete": lambda task: task.mode == "complete",
}
_FIELDS = {"exec": "mode", "review": "mode", "complete": "mode"}
_STEPS = {
    "base_url": "Name its address with --base-url https://HOST/v1.",
    "model": "Name one with --model, as the server calls it.",
}


def check_support(task: Task, driver: Driver) -> None:
    """Raises `Unsupported` for the first thing asked for that this agent cannot do."""
    capabilities = driver.capabilities
    for name, asked in _REQUESTED.items():
        if asked(task) and getattr(capabilities, name) == "no":
            field = _FIELDS.get(name, name)
            raise _unsupported_error(field, getattr(task, field), driver, capabilities.notes.get(name, ""))
    if task.mode != "exec" and capabilities.allowed_tools == "no":
        for tool in task.allowed_tools or ():
            if not tool.startswith(capabilities.grants or ("\0",)):
                raise _unsupported_error("allowed_tools", tool, driver, capabilities.notes.get("allowed_tools", ""))
    if task.effort and task.effort not in capabilities.efforts:
        known = f"Use one of {', '.join(capabilities.efforts)}." if capabilities.efforts else ""
        raise _unsupported_error("effort", task.effort, driver, known)
    if task.limits.max_turns is not None and capabilities.max_turns == "no" and task.model_from == "direct":
        raise _unsupported_error("max_turns", task.limits.max_turns, driver, capabilities.notes.get("max_turns", ""))
    _check_servers(task, capabilities, driver)
    if task.tools and not capabilities.mcp:
        raise _unsupported_error("tools", [tool.name for tool in task.tools], driver, "It takes no MCP servers.")
    if task.tools and task.model_from == "direct":
        step = "Leave --direct out: the agent reaches them through the run's gateway."
        raise BadInput("tools", [tool.name for tool in task.tools], "there is no gateway.", next_step=step)
    if driver.program.hosted:
        from inspan.dialects.http_request import check_options  # Start-up time: few agents are an API.

        check_options(task)
    if driver.program.hosted and task.mode == "review" and not task.attachments:
        step = "Give it what it should review with --attach FILE, as often as there are files."
        raise BadInput("attachments", [], f"{driver.title} sees no files but those.", next_step=step)


def check_needs(task: Task, driver: Driver, env: Mapping[str, str]) -> None:
    """Raises `BadInput` for what this agent cannot know by itself; a model that is played needs none of it."""
    if task.model_from.startswith(("script:", "replay:")):
        return
    own = {**env, **task.env}
    known = {"base_url": any(own.get(name) for name in driver.provider.base_url_variables)}
    for field in driver.access.required_fields:
        if not getattr(task, field) and not known.get(field):
            raise BadInput(field, "", f"{driver.title} has no default for it.", next_step=_STEPS[field])


def _check_servers(task: Task, capabilities: Capabilities, driver: Driver) -> None:
    if task.mode == "complete" and task.mcp_servers and not _allows_mcp_tools(task):
        raise BadInput(
            "mcp_servers",
            list(task.mcp_servers),
            "a completion has no tools, unless they are allowed.",
            next_step="Allow theirs with --allow-tool mcp__NAME, or leave the servers out.",
        )
    for name, server in task.mcp_servers.items():
        kind = "stdio" if server.command else "http"
        if kind not in capabilities.mcp:
            raise _unsupported_error(f"mcp_servers {name}", kind, driver, _describe_mcp(capabilities))


def _allows_mcp_tools(task: Task) -> bool:
    return any(tool.startswith("mcp__") for tool in task.allowed_tools or ())


def _describe_mcp(capabilities: Capabilities) -> str:
    return f"It takes servers by {' and '.join(capabilities.mcp)}." if capabilities.mcp else ""


def _unsupported_error(field: str, value: object, driver: Driver, words: str) -> Unsupported:
    step = words or "`inspan agents --json` shows what it can do; leave this out or choose another agent."
    return Unsupported(field, value, f"{driver.title} does not support this.", next_step=step)
