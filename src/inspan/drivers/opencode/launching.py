"""The command line of OpenCode and the settings that go with it, which stand above a project's and the user's."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.contracts.granting import is_free
from inspan.protocol.task import McpServer, Task

from .permissions import rules
from .plugin import source

_AGENT = "inspan"
_SERVER_START_MS = 10_000
# What its library for a provider adds to an address: the rest of the path must stand in the address itself.
_PATHS = {"anthropic": "/v1", "google": "/v1beta"}
# These would lead a command that runs it again, or that looks for settings of its own, to the wrong place.
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "OPENCODE_TEST_HOME")
_HIDDEN = ("OPENCODE_CONFIG_CONTENT",)
# With these two it takes its plugins' library for installed, and asks no registry for it before the first turn.
_INSTALLED = {
    "package-lock.json": msgspec.json.encode({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}),
    "node_modules/.installed": b"",
}


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [place.program, "run", "--format", "json", "--thinking", "--auto"]
    # Without a title it asks the model for one in a call of its own; with an empty one the prompt's head becomes it.
    argv += ["--session", place.resume] if place.resume else ["--title="]
    argv += ["--fork"] if place.resume and task.fork else []
    argv += ["--model", _model(task, place)] if task.model else []
    argv += ["--variant", task.effort] if task.effort else []
    argv += ["--agent", _AGENT] if _has_own_agent(task) else []
    # With `=`, for it takes every word after it as another one.
    argv += [f"--file={path}" for path in place.attached]
    files = {**_files(task, place), **place.attached}
    env = {
        "OPENCODE_CONFIG_CONTENT": written(_settings(task, place), scratch=place.scratch),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        # A library for its search box: 5.5 MB in TMPDIR that nobody deletes (1.18.33).
        "OPENCODE_DISABLE_FFF": "1",
        **_folders(place),
    }
    if place.endpoint and place.endpoint.variable:
        env[place.endpoint.variable] = place.endpoint.token
    if not is_free(task):
        env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=task.prompt.encode())


def _model(task: Task, place: Place) -> str:
    return task.model if not place.way or task.model.startswith(f"{place.way}/") else f"{place.way}/{task.model}"


def _folders(place: Place) -> dict[str, str]:
    """Where everything of its own lies in the profile `clean`; HOME stays, for the commands that it runs."""
    if not place.config:
        return {}
    return {
        "XDG_DATA_HOME": place.config,
        "XDG_CONFIG_HOME": f"{place.config}/settings",
        "XDG_STATE_HOME": f"{place.config}/state",
        "XDG_CACHE_HOME": place.cache or f"{place.config}/cache",
        # Where it looks for `.opencode`, skills and memory files of the user; commands do not look at it.
        "OPENCODE_TEST_HOME": f"{place.config}/home",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def _files(task: Task, place: Place) -> dict[str, bytes]:
    hidden = (*_HIDDEN, *_FOLDERS) if place.config else _HIDDEN
    files = {f"{place.scratch}/inspan.js": source(partial=task.partial, hidden=hidden)}
    if task.system_prompt:
        files[f"{place.scratch}/system-prompt.md"] = task.system_prompt.encode()
    if task.append_system_prompt:
        files[f"{place.scratch}/appended-prompt.md"] = task.append_system_prompt.encode()
    if place.config:
        files |= {f"{place.config}/settings/opencode/{name}": content for name, content in _INSTALLED.items()}
    return files


def _has_own_agent(task: Task) -> bool:
    return bool(task.system_prompt or rules(task))


def _settings(task: Task, place: Place) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "plugin": [f"file://{quote(place.scratch)}/inspan.js"],
        "instructions": _instructions(task, place),
        "mcp": {name: _server(server) for name, server in _servers(task).items()},
        "provider": _provider(task, place),
        "share": "disabled" if place.config else "",
    }
    if place.endpoint:
        # Others need no key of the user's: a model of theirs would lead past the gateway.
        settings |= {"enabled_providers": [place.way], "disabled_providers": []}
    if _has_own_agent(task):
        own: dict[str, Any] = {"mode": "primary", "permission": rules(task)}
        if task.system_prompt:
            own["prompt"] = f"{{file:{place.scratch}/system-prompt.md}}"
        settings["agent"] = {_AGENT: own}
    return {key: value for key, value in settings.items() if value or key == "disabled_providers"}


def _instructions(task: Task, place: Place) -> list[str]:
    """Files beside the prompt; the project's own goes with its settings where these are left out, and is named."""
    found = [] if is_free(task) else [f"{place.cwd}/AGENTS.md"]
    return [*found, f"{place.scratch}/appended-prompt.md"] if task.append_system_prompt else found


def _provider(task: Task, place: Place) -> dict[str, Any]:
    """The provider at the gateway's address. The model is named, so that one newer than its own list is taken too."""
    if not place.endpoint:
        return {}
    options = {"baseURL": f"{place.endpoint.url}{_PATHS.get(place.way, '')}", "apiKey": place.endpoint.token}
    models = {_model(task, place).removeprefix(f"{place.way}/"): _abilities(place)} if task.model else {}
    return {place.way: {"options": options, "models": models}}


def _abilities(place: Place) -> dict[str, Any]:
    """That it can see is claimed for the model: to one that it does not know it would show nothing."""
    if not place.attachments:
        return {}
    return {"attachment": True, "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]}}


def _servers(task: Task) -> Mapping[str, McpServer]:
    return {} if task.mode == "complete" and not task.allowed_tools else task.mcp_servers


def _server(server: McpServer) -> dict[str, Any]:
    usual = {"enabled": True, "timeout": _SERVER_START_MS}
    if server.command:
        return {"type": "local", "command": [server.command, *server.args], "environment": server.env, **usual}
    return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, **usual}


def written(settings: dict[str, Any], *, scratch: str) -> str:
    """Settings as JSON, in which only our own files are put in place of their names: else anybody's text might be."""
    text = msgspec.json.encode(settings).decode()
    return re.sub(rf"\{{(env:|file:(?!{re.escape(scratch)}/))", r"\\u007b\1", text)
