"""The command line of one run of Pi: flags by mode and profile, and the files that they name."""

from collections.abc import Iterable, Mapping, Sequence

from inspan.contracts.driver import Launch, Place, Wire
from inspan.contracts.granting import READING, is_free, parted
from inspan.contracts.servers import expanded, veiled
from inspan.protocol.task import McpServer, Task

from .extension import extension

SKILLS = (".pi/skills", ".agents/skills")
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
# In which header each wire carries its key: one that stands in the user's `auth.json` would else be sent (1.5.0).
_HEADERS: dict[Wire, tuple[str, str]] = {
    "messages": ("x-api-key", ""),
    "responses": ("authorization", "Bearer "),
    "chat": ("authorization", "Bearer "),
    "generate": ("x-goog-api-key", ""),
}


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    path = f"{place.scratch}/extension.mjs"
    hidden = veiled(_servers(task))
    files = {path: _extension(task, place, hidden.servers)}
    argv = [place.program, "--print", "--mode", "json", "--extension", path]
    argv += [*_mode(task), *_sources(task, place), *_session(task, place), *_choices(task, place)]
    for flag, name, text in (
        ("--system-prompt", "system-prompt.md", task.system_prompt),
        ("--append-system-prompt", "appended-prompt.md", task.append_system_prompt),
    ):
        if text:
            files[f"{place.scratch}/{name}"] = text.encode()
            argv += [flag, f"{place.scratch}/{name}"]
    argv += task.options
    for index, each in enumerate(place.attachments):
        name = f"{place.scratch}/attachment-{index}"
        files[name] = each.data
        argv.append(f"@{name}")
    env = {**_environment(task, place), **hidden.variables}
    return Launch(argv=tuple(argv), env=env, files=files, stdin=task.prompt.encode())


def _mode(task: Task) -> list[str]:
    """The tools on offer: one that is not offered cannot be called either ("Tool write not found", 0.87 and 1.5)."""
    denied = [_own(tool) for tool in task.disallowed_tools if not _pattern(tool)]
    words = ["--exclude-tools", ",".join(denied)] if denied else []
    if is_free(task):
        return words
    words += ["--no-extensions", *(["--extension", "builtin:mcp"] if _servers(task) else [])]
    offered = [*(_READERS if task.mode == "review" else ()), *map(_own, task.allowed_tools or ())]
    return [*words, "--tools", ",".join(dict.fromkeys(offered))] if offered else [*words, "--no-tools"]


def _sources(task: Task, place: Place) -> list[str]:
    """Whose settings and resources apply.

    The workspace's skills are always there: without a terminal Pi leaves out all of a project that nobody has trusted,
    without a word. In the profile clean those below HOME are left out, which it reads wherever its own folder is.
    """
    words = ["--no-approve"] if place.config or not is_free(task) else []
    words += ["--no-skills"] if place.config else []
    return [*words, *(word for folder in SKILLS for word in ("--skill", f"{place.cwd}/{folder}"))]


def _session(task: Task, place: Place) -> list[str]:
    """A session that is resumed must be there: by `--session-id`, Pi would begin one that is not."""
    words = [] if not place.resume else ["--fork" if task.fork else "--session", place.resume]
    return [*words, *(["--session-id", place.session_id] if place.session_id else [])]


def _choices(task: Task, place: Place) -> list[str]:
    # Behind a gateway a name alone is looked for at the provider that the gateway stands for.
    prefixed = "/" in task.model or not place.endpoint or not place.way
    given = {
        "--model": task.model if prefixed or not task.model else f"{place.way}/{task.model}",
        "--thinking": task.effort,
    }
    return [word for flag, value in given.items() if value for word in (flag, value)]


def _environment(task: Task, place: Place) -> dict[str, str]:
    env = {"PI_SKIP_VERSION_CHECK": "1", "JITI_FS_CACHE": "false"}  # Else each run leaves a file in TMPDIR/jiti.
    if place.endpoint and place.endpoint.variable:
        env[place.endpoint.variable] = place.endpoint.token
    if place.config:
        env |= {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
        # A project's settings can name another place for sessions, trusted or not.
        env["PI_CODING_AGENT_SESSION_DIR"] = f"{place.config}/sessions/all"
    if task.mode != "exec":
        env |= READING
    return env


def _extension(task: Task, place: Place, servers: Mapping[str, McpServer]) -> bytes:
    endpoint = place.endpoint
    name, scheme = _HEADERS[place.wire]
    return extension(
        {
            "provider": place.way if endpoint else "",
            "url": endpoint.url if endpoint else "",
            "headers": {name: f"{scheme}${endpoint.variable}"} if endpoint and endpoint.variable else {},
            "servers": {name: _server(server) for name, server in servers.items()},
            "allowed": _allowed(task.allowed_tools or (), always=_READERS if task.mode == "review" else ()),
            "denied": _patterns(task.disallowed_tools),
        }
    )


def _servers(task: Task) -> dict[str, McpServer]:
    """In `exec` all servers of tools, else those of which a tool is allowed."""
    allowed = None if is_free(task) else [*map(_own, task.allowed_tools or ())]
    return {
        name: server
        for name, server in task.mcp_servers.items()
        if allowed is None or any(tool.startswith(_own(f"mcp__{name}").removesuffix("*")) for tool in allowed)
    }


def _server(server: McpServer) -> dict[str, object]:
    if server.url:
        return {"url": server.url, "headers": expanded(server.headers)}
    return {"command": server.command, "args": server.args, "env": expanded(server.env)}


def _own(tool: str) -> str:
    """Pi's name for a tool: `Bash(git *)` is about `bash`; a server's name alone stands for all of its tools."""
    name, _ = parted(tool)
    if not name.startswith("mcp__"):
        return _TOOLS.get(name, name)
    plain = "".join(letter if letter.isalnum() or letter in "_*" else "_" for letter in name)
    return plain if "__" in plain.removeprefix("mcp__") else f"{plain}__*"


def _pattern(tool: str) -> str:
    """What a tool is allowed or denied for."""
    return parted(tool)[1]


def _patterns(tools: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tool in tools:
        if pattern := _pattern(tool):
            found.setdefault(_own(tool), []).append(pattern)
    return found


def _allowed(tools: Sequence[str], *, always: Sequence[str]) -> dict[str, list[str]]:
    """The rules of those tools that are allowed for something only."""
    whole = {*always, *(_own(tool) for tool in tools if not _pattern(tool))}
    return {name: patterns for name, patterns in _patterns(tools).items() if name not in whole}
