"""The command line of one run of Pi: flags by mode and profile, and the files that they name."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from inspan.contracts.driver import Launch, LaunchContext, WireName
from inspan.contracts.mcp_secrets import mask_mcp_secrets, to_placeholders
from inspan.contracts.output_cap import max_output_tokens
from inspan.contracts.tool_grants import (
    READ_ONLY_ENV,
    acts_unasked,
    asks_first,
    list_granted_tools,
    offers_everything,
    split_pattern,
)
from inspan.protocol.task import McpServer, Task

from .extension import build_extension

SKILLS = (".pi/skills", ".agents/skills")
EFFORTS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
# Names of tools as they are known to all agents → Pi's own.
_TOOLS = {
    "Read": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "write",
    "Bash": "bash",
    "Grep": "grep",
    "Glob": "find",
    "LS": "ls",
}
# Its `grep` and `find` want programs that it would load from the network; the shell has both.
_READERS = ("read", "bash", "ls")
_ONLY_READING = ("read", "grep", "find", "ls")
# In which header each wire carries its key: one that stands in the user's `auth.json` would else be sent (1.5.0).
_HEADERS: dict[WireName, tuple[str, str]] = {
    "messages": ("x-api-key", ""),
    "responses": ("authorization", "Bearer "),
    "chat": ("authorization", "Bearer "),
    "generate": ("x-goog-api-key", ""),
}


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    usual = build_launch(task, context, ("--print", "--mode", "json"))
    attached = {f"{context.scratch}/attachment-{index}": each.data for index, each in enumerate(context.attachments)}
    return msgspec.structs.replace(
        usual,
        argv=(*usual.argv, *(f"@{name}" for name in attached)),
        files={**usual.files, **attached},
        stdin=task.prompt.encode(),
    )


def build_launch(task: Task, context: LaunchContext, head: Sequence[str]) -> Launch:
    """What all ways into Pi have in common, behind their own first words: neither the prompt nor what is attached."""
    path = f"{context.scratch}/extension.mjs"
    hidden = mask_mcp_secrets(_select_servers(task), context.secrets)
    files = {path: _build_run_extension(task, context, hidden.servers)}
    argv = [context.program, *head, "--extension", path]
    argv += [
        *_mode_argv(task),
        *_source_argv(task, context),
        *_session_argv(task, context),
        *_choice_argv(task, context),
    ]
    for flag, name, text in (
        ("--system-prompt", "system-prompt.md", task.system_prompt),
        ("--append-system-prompt", "appended-prompt.md", task.append_system_prompt),
    ):
        if text:
            files[f"{context.scratch}/{name}"] = text.encode()
            argv += [flag, f"{context.scratch}/{name}"]
    argv += task.options
    env = {**_build_environment(task, context), **hidden.variables}
    return Launch(argv=tuple(argv), env=env, files=files)


def list_unquestioned(task: Task) -> tuple[str, ...]:
    """Pi's names of the tools that are used without a question, unless a pattern of `ask` is about the call."""
    if "before_tool" in task.hooks:
        return ()
    whole = {_to_own_name(tool) for tool in task.allowed_tools or () if not _pattern_of(tool)}
    if task.mode == "exec" and task.allowed_tools is not None:
        return tuple(name for name in _ONLY_READING if name in whole)
    granted = _READERS if task.mode == "review" and "*" not in task.ask else ()
    return tuple(dict.fromkeys((*_ONLY_READING, *granted)))


def _mode_argv(task: Task) -> list[str]:
    """The tools on offer: one that is not offered cannot be called either ("Tool write not found", 0.87 and 1.5)."""
    denied = [_to_own_name(tool) for tool in task.disallowed_tools if not _pattern_of(tool)]
    words = ["--exclude-tools", ",".join(denied)] if denied else []
    if acts_unasked(task):
        return words
    # Another extension could change a call after it was allowed.
    words += ["--no-extensions", *(["--extension", "builtin:mcp"] if _select_servers(task) else [])]
    if offers_everything(task):
        return words
    offered = [*(_READERS if task.mode == "review" else ()), *map(_to_own_name, list_granted_tools(task))]
    return [*words, "--tools", ",".join(dict.fromkeys(offered))] if offered else [*words, "--no-tools"]


def _source_argv(task: Task, context: LaunchContext) -> list[str]:
    """Whose settings and resources apply.

    The workspace's skills are always there: without a terminal Pi leaves out all of a project that nobody has trusted,
    without a word. In the profile clean those below HOME are left out, which it reads wherever its own folder is.
    """
    words = ["--no-approve"] if context.config or not acts_unasked(task) else []
    words += ["--no-skills"] if context.config else []
    return [*words, *(word for folder in SKILLS for word in ("--skill", f"{context.cwd}/{folder}"))]


def _session_argv(task: Task, context: LaunchContext) -> list[str]:
    """A session that is resumed must be there: by `--session-id`, Pi would begin one that is not."""
    words = [] if not context.resume else ["--fork" if task.fork else "--session", context.resume]
    return [*words, *(["--session-id", context.session_id] if context.session_id else [])]


def _choice_argv(task: Task, context: LaunchContext) -> list[str]:
    # Behind a gateway a name alone is looked for at the provider that the gateway stands for.
    prefixed = "/" in task.model or not context.endpoint or not context.provider
    given = {
        "--model": task.model if prefixed or not task.model else f"{context.provider}/{task.model}",
        "--thinking": task.effort,
    }
    return [word for flag, value in given.items() if value for word in (flag, value)]


def _build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    env = {"PI_SKIP_VERSION_CHECK": "1", "JITI_FS_CACHE": "false"}  # Else each run leaves a file in TMPDIR/jiti.
    if context.endpoint and context.endpoint.variable:
        env[context.endpoint.variable] = context.endpoint.token
    if context.config:
        env |= {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
        # A project's settings can name another place for sessions, trusted or not.
        env["PI_CODING_AGENT_SESSION_DIR"] = f"{context.config}/sessions/all"
    if task.mode != "exec":
        env |= READ_ONLY_ENV
    return env


def _build_run_extension(task: Task, context: LaunchContext, servers: Mapping[str, McpServer]) -> bytes:
    endpoint = context.endpoint
    name, scheme = _HEADERS[context.wire]
    run: dict[str, object] = {
        "provider": context.provider if endpoint else "",
        "url": endpoint.url if endpoint else "",
        "headers": {name: f"{scheme}${endpoint.variable}"} if endpoint and endpoint.variable else {},
        "servers": {name: _server_config(server) for name, server in servers.items()},
        "allowed": _allow_rules(task),
        "denied": _group_patterns(task.disallowed_tools),
    }
    if limit := max_output_tokens(task):
        run["largestAnswer"] = limit
    if asks_first(task):
        named = {_to_own_name(tool) for tool in task.ask}
        run["unasked"] = [name for name in list_unquestioned(task) if name not in named]
    return build_extension(run)


def _select_servers(task: Task) -> dict[str, McpServer]:
    """In `exec` all MCP servers, else those of which a tool is allowed."""
    allowed = None if offers_everything(task) else [*map(_to_own_name, list_granted_tools(task))]
    return {
        name: server
        for name, server in task.mcp_servers.items()
        if allowed is None or any(tool.startswith(_to_own_name(f"mcp__{name}").removesuffix("*")) for tool in allowed)
    }


def _server_config(server: McpServer) -> dict[str, object]:
    if server.url:
        return {"url": server.url, "headers": to_placeholders(server.headers)}
    return {"command": server.command, "args": server.args, "env": to_placeholders(server.env)}


def _to_own_name(tool: str) -> str:
    """Pi's name for a tool: `Bash(git *)` is about `bash`; a server's name alone stands for all of its tools."""
    name, _ = split_pattern(tool)
    if not name.startswith("mcp__"):
        return _TOOLS.get(name, name)
    plain = "".join(letter if letter.isalnum() or letter in "_*" else "_" for letter in name)
    return plain if "__" in plain.removeprefix("mcp__") else f"{plain}__*"


def _pattern_of(tool: str) -> str:
    """What a tool is allowed or denied for."""
    return split_pattern(tool)[1]


def _group_patterns(tools: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tool in tools:
        if pattern := _pattern_of(tool):
            found.setdefault(_to_own_name(tool), []).append(pattern)
    return found


def _allow_rules(task: Task) -> dict[str, list[str]]:
    """The rules of those tools that are allowed for something only, and that nobody is asked about."""
    if offers_everything(task):
        return {}
    tools = task.allowed_tools or ()
    whole = {_to_own_name(tool) for tool in tools if not _pattern_of(tool)}
    whole |= {*_READERS} if task.mode == "review" else set()
    whole |= {_to_own_name(tool) for tool in task.ask} if task.mode == "exec" else set()
    return {name: patterns for name, patterns in _group_patterns(tools).items() if name not in whole}
