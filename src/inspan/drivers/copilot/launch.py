"""The command line, environment and files of one run of `copilot`, prompt by stdin."""

import msgspec

from inspan.contracts.driver import Endpoint, Launch, LaunchContext, WireName
from inspan.contracts.mcp_secrets import mask_mcp_secrets, to_placeholders
from inspan.contracts.output_cap import max_output_tokens
from inspan.contracts.tool_grants import READ_ONLY_ENV, is_unrestricted
from inspan.protocol.task import McpServer, Task

from .tools import permission_argv

# The names of the ways, and the model that each is asked for where the task names none: it has no default of its own.
DEFAULT_MODELS = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5", "compatible": ""}
_WIRES: dict[WireName, dict[str, str]] = {
    "messages": {"COPILOT_PROVIDER_TYPE": "anthropic"},
    "responses": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"},
    "chat": {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"},
}
_TELEMETRY_FLAG_SINCE = (1, 0, 102)
# By these, a user lets projects run what they bring, trusted or not.
_PROJECT_VARIABLES = tuple(
    f"GITHUB_COPILOT_PROMPT_MODE_{what}" for what in ("REPO_HOOKS", "WORKSPACE_MCP", "EXTENSIONS")
)
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


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [context.program, "--output-format", "json", "--no-ask-user", "--no-auto-update"]
    files: dict[str, bytes] = {}
    env = _build_environment(task, context)
    argv += [*_session_argv(task, context), *permission_argv(task), *_choice_argv(task, context)]
    argv += _plugin_argv(context, files)
    argv += _server_argv(task, context, env, files)
    argv += _image_argv(context, files)
    env |= _instruction_environment(task, context, files)
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=task.prompt.encode())


def work_folder(task: Task, context: LaunchContext) -> str:
    """Where it works: without tools not in the project, of which hooks and servers would run if the user trusts it."""
    return context.scratch if task.mode == "complete" and not task.allowed_tools else context.cwd


def _session_argv(task: Task, context: LaunchContext) -> list[str]:
    """A session that goes on would change into the folder where it began."""
    where = work_folder(task, context)
    words = ["-C", where] if context.resume or where != context.cwd else []
    if context.resume:
        return [f"--resume={context.resume}", *words]
    return [*(["--session-id", context.session_id] if context.session_id else []), *words]


def _choice_argv(task: Task, context: LaunchContext) -> list[str]:
    words = ["--reasoning-effort", task.effort] if task.effort else []
    if model := _model_name(task, context):
        words += ["--model", model]
    if context.config:
        words.append("--disable-builtin-mcps")
    if context.config and not context.endpoint and context.version >= _TELEMETRY_FLAG_SINCE:
        words.append("--disable-client-telemetry")
    return [*words, *(word for folder in task.extra_dirs for word in ("--add-dir", folder))]


def _model_name(task: Task, context: LaunchContext) -> str:
    way, _, model = task.model.partition("/")
    named = model if way in DEFAULT_MODELS and model else task.model
    return named or (DEFAULT_MODELS.get(context.provider, "") if context.endpoint else "")


def _build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    env = {"COPILOT_AUTO_UPDATE": "false", **_TELEMETRY}
    if not is_unrestricted(task):
        env["COPILOT_ALLOW_ALL"] = "false"  # A user's own would allow every tool, in every mode.
    if context.config or not is_unrestricted(task):
        env |= dict.fromkeys(_PROJECT_VARIABLES, "false")
    if task.mode != "exec":
        env |= READ_ONLY_ENV
    if context.cache:
        env["COPILOT_CACHE_HOME"] = context.cache  # It unpacks itself there, 235 MB.
    if limit := max_output_tokens(task):
        # It asks for room for 128,000 tokens of answer in every call (1.0.102), and a budget would set all of it aside.
        env["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(limit)
    return env | (_provider_environment(context.endpoint, context.wire) if context.endpoint else {})


def _provider_environment(endpoint: Endpoint, wire: WireName) -> dict[str, str]:
    """Its own way to a provider other than GitHub. Offline, it asks GitHub for nothing at all."""
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": endpoint.url,
        "COPILOT_PROVIDER_API_KEY": endpoint.token,
        **_WIRES[wire],
    }


def _plugin_argv(context: LaunchContext, files: dict[str, bytes]) -> list[str]:
    """A plugin beside the user's own, which carries the hook."""
    described = {"name": "inspan", "version": "1.0.0", "hooks": "hooks.json"}
    files[f"{context.scratch}/plugin.json"] = msgspec.json.encode(described)
    files[f"{context.scratch}/hooks.json"] = msgspec.json.encode({"version": 1, "hooks": _HOOKS})
    return ["--plugin-dir", context.scratch]


def _server_argv(task: Task, context: LaunchContext, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Its file of servers, in which variables stand for their secrets: the program puts the values in.

    An address must be one before that (1.0.102), so that a secret in it stands in the file.
    """
    if not task.mcp_servers:
        return []
    hidden = mask_mcp_secrets(task.mcp_servers, context.secrets)
    env.update(hidden.variables)
    path = f"{context.scratch}/mcp.json"
    written = {name: _server_config(server, task.mcp_servers[name].url) for name, server in hidden.servers.items()}
    files[path] = msgspec.json.encode({"mcpServers": written})
    return ["--additional-mcp-config", f"@{path}"]


def _server_config(server: McpServer, url: str) -> dict[str, object]:
    """All of its tools, from the start: else it may keep them back until the model has searched for them."""
    whole = {"tools": ["*"], "deferTools": "never"}
    if url:
        return {"type": "http", "url": url, "headers": to_placeholders(server.headers), **whole}
    return {
        "type": "local",
        "command": server.command,
        "args": server.args,
        "env": to_placeholders(server.env),
        **whole,
    }


def _image_argv(context: LaunchContext, files: dict[str, bytes]) -> list[str]:
    """It goes by the end of a name."""
    files.update(context.attachment_files)
    return [word for path in context.attachment_files for word in ("--attachment", path)]


def _instruction_environment(task: Task, context: LaunchContext, files: dict[str, bytes]) -> dict[str, str]:
    """Instructions beside the project's own, which become a part of its system prompt."""
    if not task.append_system_prompt:
        return {}
    text = f'---\napplyTo: "**"\n---\n{task.append_system_prompt}\n'
    files[f"{context.scratch}/inspan.instructions.md"] = text.encode()
    return {"COPILOT_CUSTOM_INSTRUCTIONS_DIRS": context.scratch}
