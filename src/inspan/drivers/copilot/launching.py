"""The command line, environment and files of one run of `copilot`, prompt by stdin."""

import msgspec

from inspan.contracts.driver import Endpoint, Launch, Place, Wire
from inspan.contracts.granting import READING, is_free
from inspan.contracts.servers import expanded, veiled
from inspan.protocol.task import McpServer, Task

from .tools import permissions

# The names of the ways, and the model that each is asked for where the task names none: it has no default of its own.
MODELS = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5", "compatible": ""}
_WIRES: dict[Wire, dict[str, str]] = {
    "messages": {"COPILOT_PROVIDER_TYPE": "anthropic"},
    "responses": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"},
    "chat": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"},
}
_QUIET = (1, 0, 102)
# By these, a user lets projects run what they bring, trusted or not.
_OF_PROJECTS = tuple(f"GITHUB_COPILOT_PROMPT_MODE_{what}" for what in ("REPO_HOOKS", "WORKSPACE_MCP", "EXTENSIONS"))
# It tries a failed call five more times, for up to a minute, and has no setting for that (1.0.102). Its hook for errors
# is heard before it tries again, what a hook answers is not: so the hook ends it.
_HOOK = """grep -q '"errorContext":"model_call"' && kill -TERM "$PPID" """.strip()
_HOOKS = {"errorOccurred": [{"type": "command", "bash": _HOOK, "timeoutSec": 5}]}

# Its stream tells no tokens. What it measures does, a line for each call; written to stdout, these lines would stand in
# the middle of longer ones (1.0.102). The last ones take back what a user's own variables for such measures may say.
_TELEMETRY = {
    "COPILOT_OTEL_ENABLED": "true",
    "COPILOT_OTEL_EXPORTER_TYPE": "file",
    "COPILOT_OTEL_FILE_EXPORTER_PATH": "/dev/fd/2",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "false",
    "OTEL_SDK_DISABLED": "false",
    "OTEL_TRACES_SAMPLER": "always_on",
}


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [place.program, "--output-format", "json", "--no-ask-user", "--no-auto-update"]
    files: dict[str, bytes] = {}
    env = _environment(task, place)
    argv += [*_session(task, place), *permissions(task), *_choices(task, place)]
    argv += _plugin(place, files)
    argv += _servers(task, place, env, files)
    argv += _images(place, files)
    env |= _instructions(task, place, files)
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=task.prompt.encode())


def folder(task: Task, place: Place) -> str:
    """Where it works: without tools not in the project, of which hooks and servers would run if the user trusts it."""
    return place.scratch if task.mode == "complete" and not task.allowed_tools else place.cwd


def _session(task: Task, place: Place) -> list[str]:
    """A session that goes on would change into the folder where it began."""
    where = folder(task, place)
    words = ["-C", where] if place.resume or where != place.cwd else []
    if place.resume:
        return [f"--resume={place.resume}", *words]
    return [*(["--session-id", place.session_id] if place.session_id else []), *words]


def _choices(task: Task, place: Place) -> list[str]:
    words = ["--reasoning-effort", task.effort] if task.effort else []
    if model := _model(task, place):
        words += ["--model", model]
    if place.config:
        words.append("--disable-builtin-mcps")
    if place.config and not place.endpoint and place.version >= _QUIET:
        words.append("--disable-client-telemetry")
    return [*words, *(word for folder in task.extra_dirs for word in ("--add-dir", folder))]


def _model(task: Task, place: Place) -> str:
    way, _, model = task.model.partition("/")
    named = model if way in MODELS and model else task.model
    return named or (MODELS.get(place.way, "") if place.endpoint else "")


def _environment(task: Task, place: Place) -> dict[str, str]:
    env = {"COPILOT_AUTO_UPDATE": "false", **_TELEMETRY}
    if not is_free(task):
        env["COPILOT_ALLOW_ALL"] = "false"  # A user's own would allow every tool, in every mode.
    if place.config or not is_free(task):
        env |= dict.fromkeys(_OF_PROJECTS, "false")
    if task.mode != "exec":
        env |= READING
    if place.cache:
        env["COPILOT_CACHE_HOME"] = place.cache  # It unpacks itself there, 235 MB.
    return env | (_provider(place.endpoint, place.wire) if place.endpoint else {})


def _provider(endpoint: Endpoint, wire: Wire) -> dict[str, str]:
    """Its own way to a provider other than GitHub. Offline, it asks GitHub for nothing at all."""
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": endpoint.url,
        "COPILOT_PROVIDER_API_KEY": endpoint.token,
        **_WIRES[wire],
    }


def _plugin(place: Place, files: dict[str, bytes]) -> list[str]:
    """A plugin beside the user's own, which carries the hook."""
    described = {"name": "inspan", "version": "1.0.0", "hooks": "hooks.json"}
    files[f"{place.scratch}/plugin.json"] = msgspec.json.encode(described)
    files[f"{place.scratch}/hooks.json"] = msgspec.json.encode({"version": 1, "hooks": _HOOKS})
    return ["--plugin-dir", place.scratch]


def _servers(task: Task, place: Place, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Its file of servers, in which variables stand for their secrets: the program puts the values in."""
    if not task.mcp_servers:
        return []
    hidden = veiled(task.mcp_servers)
    env.update(hidden.variables)
    path = f"{place.scratch}/mcp.json"
    written = {name: _server(server) for name, server in hidden.servers.items()}
    files[path] = msgspec.json.encode({"mcpServers": written})
    return ["--additional-mcp-config", f"@{path}"]


def _server(server: McpServer) -> dict[str, object]:
    """All of its tools, from the start: else it may keep them back until the model has searched for them."""
    whole = {"tools": ["*"], "deferTools": "never"}
    if server.url:
        return {"type": "http", "url": server.url, "headers": expanded(server.headers), **whole}
    return {"type": "local", "command": server.command, "args": server.args, "env": expanded(server.env), **whole}


def _images(place: Place, files: dict[str, bytes]) -> list[str]:
    """It goes by the end of a name."""
    files.update(place.attached)
    return [word for path in place.attached for word in ("--attachment", path)]


def _instructions(task: Task, place: Place, files: dict[str, bytes]) -> dict[str, str]:
    """Instructions beside the project's own, which become a part of its system prompt."""
    if not task.append_system_prompt:
        return {}
    text = f'---\napplyTo: "**"\n---\n{task.append_system_prompt}\n'
    files[f"{place.scratch}/inspan.instructions.md"] = text.encode()
    return {"COPILOT_CUSTOM_INSTRUCTIONS_DIRS": place.scratch}
