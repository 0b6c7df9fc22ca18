"""The command line of OpenCode and the settings that go with it, which stand above a project's and the user's."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.tool_grants import acts_unasked
from inspan.protocol.task import McpServer, Task

from .permissions import build_rules
from .plugin import build_plugin

_AGENT = "inspan"
_SERVER_START_MS = 10_000
# What its library for a provider adds to an address: the rest of the path must stand in the address itself.
_PATHS = {"anthropic": "/v1", "google": "/v1beta"}
# These would lead a command that runs it again, or that looks for settings of its own, to the wrong place.
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "OPENCODE_TEST_HOME")
_HIDDEN = ("OPENCODE_CONFIG_CONTENT",)
# With these two it takes its plugins' library for installed, and asks no registry for it before the first turn.
_INSTALL_MARKS = {
    "package-lock.json": msgspec.json.encode({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}),
    "node_modules/.installed": b"",
}


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [context.program, "run", "--format", "json", "--thinking", "--auto"]
    # Without a title it asks the model for one in a call of its own; with an empty one the prompt's head becomes it.
    argv += ["--session", context.resume] if context.resume else ["--title="]
    argv += ["--fork"] if context.resume and task.fork else []
    argv += ["--model", _model_name(task, context)] if task.model else []
    argv += ["--variant", task.effort] if task.effort else []
    argv += ["--agent", _AGENT] if _has_own_agent(task) else []
    # With `=`, for it takes every word after it as another one.
    argv += [f"--file={path}" for path in context.attachment_files]
    files = {**_build_files(task, context), **context.attachment_files}
    env = {
        "OPENCODE_CONFIG_CONTENT": encode_settings(_build_settings(task, context), scratch=context.scratch),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        # A library for its search box: 5.5 MB in TMPDIR that nobody deletes (1.18.33).
        "OPENCODE_DISABLE_FFF": "1",
        **_folder_environment(context),
    }
    if context.endpoint and context.endpoint.variable:
        env[context.endpoint.variable] = context.endpoint.token
    if not _obeys_project(task, context):
        env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=task.prompt.encode())


def _obeys_project(task: Task, context: LaunchContext) -> bool:
    """A project's settings start servers, and its plugins and tools are run before the first turn."""
    return acts_unasked(task) and not context.config


def _model_name(task: Task, context: LaunchContext) -> str:
    return (
        task.model
        if not context.provider or task.model.startswith(f"{context.provider}/")
        else f"{context.provider}/{task.model}"
    )


def _folder_environment(context: LaunchContext) -> dict[str, str]:
    """Where everything of its own lies in the profile `clean`; HOME stays, for the commands that it runs."""
    if not context.config:
        return {}
    return {
        "XDG_DATA_HOME": context.config,
        "XDG_CONFIG_HOME": f"{context.config}/settings",
        "XDG_STATE_HOME": f"{context.config}/state",
        "XDG_CACHE_HOME": context.cache or f"{context.config}/cache",
        # Where it looks for `.opencode`, skills and memory files of the user; commands do not look at it.
        "OPENCODE_TEST_HOME": f"{context.config}/home",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def _build_files(task: Task, context: LaunchContext) -> dict[str, bytes]:
    hidden = (*_HIDDEN, *_FOLDERS) if context.config else _HIDDEN
    files = {f"{context.scratch}/inspan.js": build_plugin(partial=task.partial, hidden=hidden)}
    if task.system_prompt:
        files[f"{context.scratch}/system-prompt.md"] = task.system_prompt.encode()
    if task.append_system_prompt:
        files[f"{context.scratch}/appended-prompt.md"] = task.append_system_prompt.encode()
    if context.config:
        files |= {f"{context.config}/settings/opencode/{name}": content for name, content in _INSTALL_MARKS.items()}
    return files


def _has_own_agent(task: Task) -> bool:
    return bool(task.system_prompt or build_rules(task))


def _build_settings(task: Task, context: LaunchContext) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "plugin": [f"file://{quote(context.scratch)}/inspan.js"],
        "instructions": _instruction_files(task, context),
        "mcp": {name: _server_config(server) for name, server in _select_servers(task).items()},
        "provider": _provider_settings(task, context),
        "share": "disabled" if context.config else "",
    }
    if context.endpoint or context.base_url:
        # Others need no key of the user's: a model of theirs would lead past the gateway, or to another address.
        settings |= {"enabled_providers": [context.provider], "disabled_providers": []}
    if _has_own_agent(task):
        own: dict[str, Any] = {"mode": "primary", "permission": build_rules(task)}
        if task.system_prompt:
            own["prompt"] = f"{{file:{context.scratch}/system-prompt.md}}"
        settings["agent"] = {_AGENT: own}
    return {key: value for key, value in settings.items() if value or key == "disabled_providers"}


def _instruction_files(task: Task, context: LaunchContext) -> list[str]:
    """Files beside the prompt; the project's own goes with its settings where these are left out, and is named."""
    found = [] if _obeys_project(task, context) else [f"{context.cwd}/AGENTS.md"]
    return [*found, f"{context.scratch}/appended-prompt.md"] if task.append_system_prompt else found


def _provider_settings(task: Task, context: LaunchContext) -> dict[str, Any]:
    """The provider at the gateway's address, or at the run's own.

    The model is named, so that one newer than its own list is taken too.
    """
    url = context.endpoint.url if context.endpoint else context.base_url
    if not url:
        return {}
    options = {"baseURL": f"{url}{_PATHS.get(context.provider, '')}"}
    if context.endpoint:
        options["apiKey"] = context.endpoint.token
    models = (
        {_model_name(task, context).removeprefix(f"{context.provider}/"): _model_abilities(context)}
        if task.model
        else {}
    )
    return {context.provider: {"options": options, "models": models}}


def _model_abilities(context: LaunchContext) -> dict[str, Any]:
    """That it can see is claimed for the model: to one that it does not know it would show nothing."""
    if not context.attachments:
        return {}
    return {"attachment": True, "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]}}


def _select_servers(task: Task) -> Mapping[str, McpServer]:
    return {} if task.mode == "complete" and not task.allowed_tools else task.mcp_servers


def _server_config(server: McpServer) -> dict[str, Any]:
    usual = {"enabled": True, "timeout": _SERVER_START_MS}
    if server.command:
        return {"type": "local", "command": [server.command, *server.args], "environment": server.env, **usual}
    return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, **usual}


def encode_settings(settings: dict[str, Any], *, scratch: str) -> str:
    """Settings as JSON, in which only our own files are put in place of their names: else anybody's text might be."""
    text = msgspec.json.encode(settings).decode()
    return re.sub(rf"\{{(env:|file:(?!{re.escape(scratch)}/))", r"\\u007b\1", text)
