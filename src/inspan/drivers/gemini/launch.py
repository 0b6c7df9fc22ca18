"""The command line of Gemini CLI and the files beside it: settings where the run has its own, rules, instructions."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.driver import Endpoint, Launch, LaunchContext
from inspan.contracts.mcp_secrets import find_variable, mask_mcp_secrets, to_placeholders
from inspan.contracts.prompt_fallbacks import escape_slash_command
from inspan.contracts.tool_grants import acts_unasked
from inspan.errors import BadInput
from inspan.protocol.task import McpServer, Task

from .policy import build_rules
from .preload import SOURCE

# What stands behind is cut off without a word (0.61).
_MAX_PROMPT_BYTES = 8 * 1024 * 1024
_NO_SERVER = "inspan-none"
_NO_EXTENSION = "none"
# Left to itself it asks a small model first which one to use: one more call for every prompt.
_MODEL = "pro"
_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
EFFORTS = tuple(_BUDGETS)


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    _refuse_what_needs_settings(task, context)
    attached = context.attachment_files
    preload = f"{context.scratch}/preload.mjs"
    files = {**attached, preload: SOURCE.encode()}
    env = {
        "NODE_OPTIONS": f"--import=file://{quote(preload)}",
        # Else it starts itself once more, and the first of the two ignores every signal.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        **(_gateway_environment(context.endpoint) if context.endpoint else {}),
    }
    argv = [context.program, "--output-format", "stream-json", *_permission_argv(task, context, files, env)]
    argv += [*_session_argv(task, context), *(["--model", task.model] if task.model else [])]
    if task.system_prompt:
        env["GEMINI_SYSTEM_MD"] = f"{context.scratch}/system-prompt.md"
        files[env["GEMINI_SYSTEM_MD"]] = task.system_prompt.encode()
    if context.config:
        # A project's settings could send the prompt anywhere, and no variable switches that off (0.61).
        env["GEMINI_TELEMETRY_OUTFILE"] = "/dev/null"
        files[f"{context.config}/.gemini/settings.json"] = _encode_settings(task, context, env)
    argv += [*_folder_argv(task, context, attached), *task.options]
    return Launch(argv=tuple(argv), env=env, files=files, stdin=_build_prompt(task, attached))


def _refuse_what_needs_settings(task: Task, context: LaunchContext) -> None:
    """Some things can be said in its settings file alone, and in the profile `user` that file is the user's."""
    if context.config:
        return
    for field, value in (("mcp_servers", list(task.mcp_servers)), ("effort", task.effort)):
        if value:
            raise BadInput(
                field,
                value,
                "Gemini CLI takes this from its settings file alone, and in the profile user that file is yours.",
                next_step="Use --profile clean, or write it into your own settings.",
            )


def _gateway_environment(endpoint: Endpoint) -> dict[str, str]:
    """Every address that any way of its own to log in would use: none leads past the gateway."""
    names: list[str] = ["GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"]
    led = dict.fromkeys(names, endpoint.url)
    return {**led, endpoint.variable: endpoint.token} if endpoint.variable else led


def _permission_argv(task: Task, context: LaunchContext, files: dict[str, bytes], env: dict[str, str]) -> list[str]:
    """What it may do, and whose settings it reads.

    A folder that is trusted by the flag alone is trusted too late for its settings and hooks to be read (0.61).
    """
    argv = ["--approval-mode", "yolo" if acts_unasked(task) else "default"]
    if acts_unasked(task) and not context.config:
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    else:
        argv += ["--skip-trust", "--extensions", _NO_EXTENSION]
        argv += [word for name in task.mcp_servers or (_NO_SERVER,) for word in ("--allowed-mcp-server-names", name)]
    if written := build_rules(task):
        path = f"{context.scratch}/policy.toml"
        files[path] = written
        # It leaves out the first where the machine has rules of its own.
        argv += ["--admin-policy", path, "--policy", path]
    return argv


def _session_argv(task: Task, context: LaunchContext) -> list[str]:
    if context.resume:
        return ["--session-file" if task.fork else "--resume", context.resume]
    return ["--session-id", context.session_id] if context.session_id else []


def _folder_argv(task: Task, context: LaunchContext, attached: Mapping[str, bytes]) -> list[str]:
    """Folders beside the working folder; that of the attached files is one, for it reads nothing from elsewhere."""
    for folder in task.extra_dirs:
        if "," in folder:
            raise BadInput(
                "extra_dirs",
                folder,
                "Gemini CLI takes a comma for the end of a folder's name.",
                next_step="Rename it, or give it by a link.",
            )
    folders = (*task.extra_dirs, *([context.scratch] if attached else []))
    return [word for folder in folders for word in ("--include-directories", folder)]


def _build_prompt(task: Task, attached: Mapping[str, bytes]) -> bytes:
    """The prompt, with the files that it names by `@`."""
    prompt = "\n\n".join([escape_slash_command(task), *(f"@{path}" for path in attached)]).encode()
    if len(prompt) > _MAX_PROMPT_BYTES:
        raise BadInput(
            "prompt",
            f"{len(prompt)} bytes",
            f"Gemini CLI reads no more than {_MAX_PROMPT_BYTES}.",
            next_step="Put it into a file of the working folder and name that.",
        )
    return prompt


def _encode_settings(task: Task, context: LaunchContext, env: dict[str, str]) -> bytes:
    """Its settings in a folder of the session's own. Its retries are off: whoever started the run decides on those."""
    turns = task.limits.max_turns
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "maxAttempts": 1,
            "retryFetchErrors": False,
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "sessionRetention": {"enabled": False},
        },
        "privacy": {"usageStatisticsEnabled": False},
        "ui": {"showCompatibilityWarnings": False, "showHomeDirectoryWarning": False},
        "model": {"name": _MODEL, **({"maxSessionTurns": turns} if turns is not None else {})},
        "mcpServers": _server_configs(task, context, env),
    }
    if task.effort:
        thinking = {"thinkingConfig": _effort_config(task.effort, task.model)}
        override = {"match": {"overrideScope": "core"}, "modelConfig": {"generateContentConfig": thinking}}
        settings["modelConfigs"] = {"customOverrides": [override]}
    return msgspec.json.encode(settings)


def _effort_config(effort: str, model: str) -> dict[str, object]:
    """Models before the third generation take a number of tokens, later ones a level."""
    if model.startswith(("gemini-1", "gemini-2")):
        return {"thinkingBudget": _BUDGETS[effort]}
    return {"thinkingLevel": effort.upper()}


def _server_configs(task: Task, context: LaunchContext, env: dict[str, str]) -> dict[str, dict[str, object]]:
    """Servers as its settings have them. A `$` begins a variable there: a word that has one comes by a variable."""
    hidden = mask_mcp_secrets(task.mcp_servers, context.secrets)
    env.update(hidden.variables)

    def to_literal(word: str) -> str:
        if "$" not in word or find_variable(word):
            return word
        name = f"INSPAN_WORD_{len(env)}"
        env[name] = word
        return f"${{{name}}}"

    return {name: _server_config(server, to_literal) for name, server in hidden.servers.items()}


def _server_config(server: McpServer, to_literal: Callable[[str], str]) -> dict[str, object]:
    if server.url:
        return {"httpUrl": to_literal(server.url), "headers": to_placeholders(server.headers)}
    return {
        "command": to_literal(server.command),
        "args": [to_literal(word) for word in server.args],
        "env": to_placeholders(server.env),
    }
