"""The command line of one run of Goose; its settings go by variables, and by a file beside the user's."""

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.contracts.driver import Endpoint, Launch, LaunchContext
from inspan.contracts.mcp_secrets import holds_secret
from inspan.contracts.output_cap import max_output_tokens
from inspan.contracts.prompt_fallbacks import MAX_ARGUMENT_BYTES
from inspan.protocol.task import McpServer, Task

from .providers import PROVIDER_SETUPS
from .resume import RESUME_SCRIPT, is_goose_id, session_argv

_SERVER_START_S = 10
_RUN_IN_FOLDER = 'cd "$0" && exec "$@"'


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    files: dict[str, bytes] = {}
    env = _build_environment(task, context)
    argv = ["run", "--quiet", "--output-format", "stream-json", "--instructions", "-", *_resume_argv(context)]
    argv += [
        *_provider_argv(task, context, env=env),
        *_mode_argv(task),
        *_instruction_argv(task, context, env=env, files=files),
    ]
    if task.limits.max_turns is not None:
        argv += ["--max-turns", str(task.limits.max_turns)]
    if task.mode == "exec":
        argv += _server_argv(task, context, env=env, files=files)
    argv += task.options
    return Launch(argv=_program_argv(task, context, argv), env=env, files=files, stdin=_build_prompt(task).encode())


def _build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    """What it would do on the side. It cannot be kept from trying a failed call three times more, but from waiting."""
    env = {
        "GOOSE_MODE": "chat" if task.mode == "complete" else "auto",
        "GOOSE_DISABLE_SESSION_NAMING": "true",
        "GOOSE_PROVIDER_SKIP_BACKOFF": "true",
    }
    if task.effort:
        env["GOOSE_THINKING_EFFORT"] = task.effort
    if limit := max_output_tokens(task):
        # It asks for room for up to 128,000 tokens of answer in every call, and a budget would set all of it aside.
        env["GOOSE_MAX_TOKENS"] = str(limit)
    if context.config:
        env |= {"GOOSE_DISABLE_KEYRING": "true", "GOOSE_TELEMETRY_OFF": "true"}
    return env


def _provider_argv(task: Task, context: LaunchContext, *, env: dict[str, str]) -> list[str]:
    """Provider and model, where they are not left to the user's own settings.

    By options, since a session that goes on would keep its old model else, with its effort and its limit. Only one
    that inspan did not begin keeps them, unless a model is named.
    """
    prefix = f"{context.provider}/"
    chosen = task.model.startswith(prefix) or context.endpoint or context.config or context.has_key
    road = PROVIDER_SETUPS.get(context.provider)
    if not chosen or road is None:
        return ["--model", task.model] if task.model else []
    model = task.model.removeprefix(prefix) or road.default_model
    if context.endpoint:
        # The user's settings for subagents would lead elsewhere.
        env |= {"GOOSE_SUBAGENT_PROVIDER": context.provider, "GOOSE_SUBAGENT_MODEL": model, "GOOSE_TOOLSHIM": "false"}
        env |= {**road.to_environment(context.endpoint.url, model), **_token_environment(context.endpoint)}
    if not task.model and is_goose_id(context.resume):
        env |= {"GOOSE_PROVIDER": context.provider, "GOOSE_MODEL": model}
        return []
    return ["--provider", context.provider, "--model", model]


def _token_environment(endpoint: Endpoint) -> dict[str, str]:
    return {endpoint.variable: endpoint.token} if endpoint.variable else {}


def _resume_argv(context: LaunchContext) -> list[str]:
    if context.session_id:
        return [f"--name={context.session_id}", *(["--resume"] if context.resume else [])]
    return ["--resume", *session_argv(context.resume)] if context.resume else []


def _mode_argv(task: Task) -> list[str]:
    """Which tools a new session has; an old one has those that it had. In its mode `chat` none of them is run."""
    tools = {
        "exec": [],
        "review": ["--no-profile", "--with-builtin", "developer,analyze"],
        "complete": ["--no-profile"],
    }
    return tools[task.mode]


def _instruction_argv(task: Task, context: LaunchContext, *, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Its own prompt can be replaced by a template in a file; what is to be added to it has to be an argument."""
    if task.system_prompt:
        path = f"{context.scratch}/system-prompt.md"
        files[path] = task.system_prompt.replace("{", "{{'{'}}").encode()
        env["GOOSE_SYSTEM_PROMPT_FILE_PATH"] = path
    return ["--system", task.append_system_prompt] if task.append_system_prompt and not _is_too_long(task) else []


def _is_too_long(task: Task) -> bool:
    return len(task.append_system_prompt.encode()) > MAX_ARGUMENT_BYTES


def _build_prompt(task: Task) -> str:
    return f"{task.append_system_prompt}\n\n{task.prompt}" if _is_too_long(task) else task.prompt


def _server_argv(task: Task, context: LaunchContext, *, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Servers that are commands by an option, which works for old sessions too; the others need a file of settings."""
    for name, server in task.mcp_servers.items():
        env.update({_secret_variable(name, key): value for key, value in {**server.env, **server.headers}.items()})
        env.update({_secret_variable(name, key): word for key, word in _hidden(server, context).items()})
    servers = task.mcp_servers.items()
    extensions: dict[str, Any] = {name: _http_extension(name, each) for name, each in servers if each.url}
    if context.config:
        # They are looked for in the folders of other agents below HOME, wherever its own is.
        extensions["skills"] = {"type": "platform", "name": "skills", "description": "", "enabled": False}
    if extensions:
        path = f"{context.scratch}/extensions.yaml"
        files[path] = msgspec.json.encode({"extensions": extensions})
        env["GOOSE_ADDITIONAL_CONFIG_FILES"] = path
    return [
        word
        for name, each in servers
        if each.command
        for word in ("--with-extension", _stdio_extension(name, each, _hidden(each, context)))
    ]


def _secret_variable(server: str, key: str) -> str:
    """Where a server finds its secret, under a name that is no other's: an old session starts its servers again."""
    # In capitals: that is how it looks for a secret in its environment, whatever the name that it was given.
    return f"INSPAN_MCP_{server.encode().hex()}_{key.encode().hex()}".upper()


def _http_extension(name: str, server: McpServer) -> dict[str, Any]:
    headers = {header: f"${{{_secret_variable(name, header)}}}" for header in server.headers}
    known = {"type": "streamable_http", "name": name, "description": "", "enabled": True}
    keys = [_secret_variable(name, header) for header in server.headers]
    return {**known, "uri": server.url, "headers": headers, "env_keys": keys, "timeout": _SERVER_START_S}


def _hidden(server: McpServer, context: LaunchContext) -> dict[str, str]:
    """The arguments that hold a secret, by their places."""
    return {str(at): word for at, word in enumerate(server.args, 1) if holds_secret(word, context.secrets)}


def _stdio_extension(name: str, server: McpServer, hidden: Mapping[str, str]) -> str:
    """A server as a line of words. Its variables come by other names: a shell gives them theirs and becomes it."""
    words = [server.command, *("hidden" if str(at) in hidden else word for at, word in enumerate(server.args, 1))]
    own = "".join(f'export {variable}="${_secret_variable(name, variable)}"; ' for variable in server.env)
    if own or hidden:
        given = [_secret_variable(name, str(at)) if str(at) in hidden else str(at) for at in range(1, len(words))]
        all_words = " ".join(f'"${{{each}}}"' for each in given) if hidden else '"$@"'
        words = ["/bin/sh", "-c", f'{own}exec "$0" {all_words}', *words]
    return f"{name}:{shlex.join(words)}"


def _program_argv(task: Task, context: LaunchContext, argv: list[str]) -> tuple[str, ...]:
    program = (context.program, *argv)
    if context.resume:
        session = (*session_argv(context.resume), f"{context.scratch}/session.json", context.session_id)
        program = ("/bin/sh", "-c", RESUME_SCRIPT, context.program, *session, *argv)
    return run_in_scratch(context, program) if task.mode == "complete" else program


def run_in_scratch(context: LaunchContext, argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line outside of the project: its plugins' hooks are run in every mode, and an answer needs none."""
    return ("/bin/sh", "-c", _RUN_IN_FOLDER, context.scratch, *argv)
