"""The command line of Gemini CLI and the files beside it: settings where the run has its own, rules, instructions."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.driver import Endpoint, Launch, Place
from inspan.contracts.granting import is_free
from inspan.contracts.servers import expanded, veiled
from inspan.contracts.wording import prompt_of
from inspan.errors import BadInput
from inspan.protocol.task import McpServer, Task

from .policy import rules
from .preload import SOURCE

# What stands behind is cut off without a word (0.61).
_LONGEST_PROMPT = 8 * 1024 * 1024
_NO_SERVER = "inspan-none"
_NO_EXTENSION = "none"
# Left to itself it asks a small model first which one to use: one more call for every prompt.
_MODEL = "pro"
_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
EFFORTS = tuple(_BUDGETS)


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    _refuse_what_needs_settings(task, place)
    attached = place.attached
    preload = f"{place.scratch}/preload.mjs"
    files = {**attached, preload: SOURCE.encode()}
    env = {
        "NODE_OPTIONS": f"--import=file://{quote(preload)}",
        # Else it starts itself once more, and the first of the two ignores every signal.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        **(_led_to(place.endpoint) if place.endpoint else {}),
    }
    argv = [place.program, "--output-format", "stream-json", *_permissions(task, place, files, env)]
    argv += [*_session(task, place), *(["--model", task.model] if task.model else [])]
    if task.system_prompt:
        env["GEMINI_SYSTEM_MD"] = f"{place.scratch}/system-prompt.md"
        files[env["GEMINI_SYSTEM_MD"]] = task.system_prompt.encode()
    if place.config:
        # A project's settings could send the prompt anywhere, and no variable switches that off (0.61).
        env["GEMINI_TELEMETRY_OUTFILE"] = "/dev/null"
        files[f"{place.config}/.gemini/settings.json"] = _settings(task, env)
    argv += [*_folders(task, place, attached), *task.options]
    return Launch(argv=tuple(argv), env=env, files=files, stdin=_prompt(task, attached))


def _refuse_what_needs_settings(task: Task, place: Place) -> None:
    """Some things can be said in its settings file alone, and in the profile `user` that file is the user's."""
    if place.config:
        return
    for field, value in (("mcp_servers", list(task.mcp_servers)), ("effort", task.effort)):
        if value:
            raise BadInput(
                field,
                value,
                "Gemini CLI takes this from its settings file alone, and in the profile user that file is yours.",
                next_step="Use --profile clean, or write it into your own settings.",
            )


def _led_to(endpoint: Endpoint) -> dict[str, str]:
    """Every address that any way of its own to log in would use: none leads past the gateway."""
    names: list[str] = ["GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"]
    led = dict.fromkeys(names, endpoint.url)
    return {**led, endpoint.variable: endpoint.token} if endpoint.variable else led


def _permissions(task: Task, place: Place, files: dict[str, bytes], env: dict[str, str]) -> list[str]:
    """What it may do, and whose settings it reads.

    A folder that is trusted by the flag alone is trusted too late for its settings and hooks to be read (0.61).
    """
    argv = ["--approval-mode", "yolo" if is_free(task) else "default"]
    if is_free(task):
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    else:
        argv += ["--skip-trust", "--extensions", _NO_EXTENSION]
        argv += [word for name in task.mcp_servers or (_NO_SERVER,) for word in ("--allowed-mcp-server-names", name)]
    if written := rules(task):
        path = f"{place.scratch}/policy.toml"
        files[path] = written
        # It leaves out the first where the machine has rules of its own.
        argv += ["--admin-policy", path, "--policy", path]
    return argv


def _session(task: Task, place: Place) -> list[str]:
    if place.resume:
        return ["--session-file" if task.fork else "--resume", place.resume]
    return ["--session-id", place.session_id] if place.session_id else []


def _folders(task: Task, place: Place, attached: Mapping[str, bytes]) -> list[str]:
    """Folders beside the working folder; that of the attached files is one, for it reads nothing from elsewhere."""
    for folder in task.extra_dirs:
        if "," in folder:
            raise BadInput(
                "extra_dirs",
                folder,
                "Gemini CLI takes a comma for the end of a folder's name.",
                next_step="Rename it, or give it by a link.",
            )
    folders = (*task.extra_dirs, *([place.scratch] if attached else []))
    return [word for folder in folders for word in ("--include-directories", folder)]


def _prompt(task: Task, attached: Mapping[str, bytes]) -> bytes:
    """The prompt, with the files that it names by `@`."""
    prompt = "\n\n".join([prompt_of(task), *(f"@{path}" for path in attached)]).encode()
    if len(prompt) > _LONGEST_PROMPT:
        raise BadInput(
            "prompt",
            f"{len(prompt)} bytes",
            f"Gemini CLI reads no more than {_LONGEST_PROMPT}.",
            next_step="Put it into a file of the working folder and name that.",
        )
    return prompt


def _settings(task: Task, env: dict[str, str]) -> bytes:
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
        "mcpServers": _servers(task, env),
    }
    if task.effort:
        thinking = {"thinkingConfig": _thinking(task.effort, task.model)}
        override = {"match": {"overrideScope": "core"}, "modelConfig": {"generateContentConfig": thinking}}
        settings["modelConfigs"] = {"customOverrides": [override]}
    return msgspec.json.encode(settings)


def _thinking(effort: str, model: str) -> dict[str, object]:
    """Models before the third generation take a number of tokens, later ones a level."""
    if model.startswith(("gemini-1", "gemini-2")):
        return {"thinkingBudget": _BUDGETS[effort]}
    return {"thinkingLevel": effort.upper()}


def _servers(task: Task, env: dict[str, str]) -> dict[str, dict[str, object]]:
    """Servers as its settings have them. A `$` begins a variable there: a word that has one comes by a variable."""
    hidden = veiled(task.mcp_servers)
    env.update(hidden.variables)

    def literal(word: str) -> str:
        if "$" not in word:
            return word
        name = f"INSPAN_WORD_{len(env)}"
        env[name] = word
        return f"${{{name}}}"

    return {name: _server(server, literal) for name, server in hidden.servers.items()}


def _server(server: McpServer, literal: Callable[[str], str]) -> dict[str, object]:
    if server.url:
        return {"httpUrl": literal(server.url), "headers": expanded(server.headers)}
    return {
        "command": literal(server.command),
        "args": [literal(word) for word in server.args],
        "env": expanded(server.env),
    }
