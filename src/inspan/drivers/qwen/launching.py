"""The command line of one run of Qwen Code, and the settings that stand above everybody else's."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.budgeted import largest_answer
from inspan.contracts.driver import Launch, Place
from inspan.contracts.granting import READING, is_free
from inspan.contracts.servers import Veiled, expanded, veiled
from inspan.contracts.wording import LONGEST_ARGUMENT, prompt_of
from inspan.errors import Unsupported
from inspan.protocol.task import McpServer, Task

from .providers import PROTOCOLS, WAYS, Protocol
from .tools import READERS, SHELL, all_but, own_name, own_pattern

_SERVER_START_MS = 10_000
_SETTINGS_VERSION = 4
# Its shell is offered only where a rule allows something of it; what else it may run is its own list of readers.
_SHELL_ON_OFFER = f"{SHELL}(true)"
# A module that its Node loads first. A project's `.env` may name a proxy, which would be asked for loopback, too: the
# gateway's host joins those that the user reaches without one. By ACP that file even replaces what is set (0.24.4), so
# that what leads to the gateway is held.
_PRELOAD = "preload.mjs"
_HELD_VARIABLES = """\
import { syncBuiltinESMExports } from "node:module"
delete process.env.NODE_OPTIONS // Of no concern to the programs that its tools run.
const listed = process.env.no_proxy || process.env.NO_PROXY
process.env.no_proxy = process.env.NO_PROXY = listed ? `${listed},127.0.0.1` : "127.0.0.1"
const held = new Set(["no_proxy", "NO_PROXY", ...NAMES])
process.env = new Proxy(process.env, {
  set: (env, name, value) => held.has(name) || Reflect.set(env, name, value),
  deleteProperty: (env, name) => held.has(name) || Reflect.deleteProperty(env, name),
})
syncBuiltinESMExports()
"""


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    hidden = veiled(task.mcp_servers)
    images = place.attached
    files = {f"{place.scratch}/settings.json": msgspec.json.encode(_settings(task, place, hidden)), **images}
    if place.endpoint:
        names = msgspec.json.encode(list(_way_in(place))).decode()
        files[f"{place.scratch}/{_PRELOAD}"] = _HELD_VARIABLES.replace("NAMES", names).encode()
    argv = [place.program, "--output-format", "stream-json", *_permissions(task)]
    argv += [*_session(task, place), *_choices(task, place)]
    argv += [f"--add-dir={folder}" for folder in (*task.extra_dirs, *([place.scratch] if images else []))]
    if task.mcp_servers and not is_free(task):
        path = f"{place.scratch}/mcp.json"
        files[path] = msgspec.json.encode({"mcpServers": _held_servers(hidden.servers)})
        argv.append(f"--mcp-config={path}")
    if task.system_prompt:
        files[f"{place.scratch}/system-prompt.md"] = task.system_prompt.encode()
    env = {**_environment(task, place), **_way_in(place), **hidden.variables}
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=_prompt(task, list(images)).encode())


def _permissions(task: Task) -> list[str]:
    """What each mode may do. `--safe-mode` leaves out everybody's rules, hooks and servers but those given here."""
    denied = [own_pattern(tool) for tool in task.disallowed_tools]
    if is_free(task):
        return ["--approval-mode=yolo", *(f"--exclude-tools={tool}" for tool in denied)]
    extra = [own_pattern(tool) for tool in task.allowed_tools or ()]
    allowed = [_SHELL_ON_OFFER, *extra] if task.mode == "review" else extra
    offered = [*(READERS if task.mode == "review" else ()), *map(own_name, extra)]
    return [
        "--approval-mode=default",
        "--safe-mode",
        *(f"--allowed-tools={tool}" for tool in allowed),
        *(f"--exclude-tools={tool}" for tool in (*all_but(offered), *denied)),
    ]


def _session(task: Task, place: Place) -> list[str]:
    """A fork cannot be given an id: the two options together are an error (0.24.4)."""
    if place.resume:
        return ["--resume", place.resume, *(["--fork-session"] if task.fork else [])]
    return ["--session-id", place.session_id] if place.session_id else []


def _choices(task: Task, place: Place) -> list[str]:
    asked = task.model.startswith(f"{place.way}/") if place.way else False
    given = {
        "--auth-type": _protocol(place).name if place.endpoint or place.config or asked else "",
        "--model": _model(task, place),
        "--max-session-turns": "" if task.limits.max_turns is None else str(task.limits.max_turns),
        "--append-system-prompt": "" if _appends_in_words(task) else task.append_system_prompt,
    }
    words = [f"{flag}={value}" for flag, value in given.items() if value]
    return [*words, *(["--include-partial-messages"] if task.partial else [])]


def _protocol(place: Place) -> Protocol:
    return PROTOCOLS[place.way or WAYS[0].name]


def _model(task: Task, place: Place) -> str:
    return task.model.removeprefix(f"{place.way}/") if place.way else task.model


def _appends_in_words(task: Task) -> bool:
    """Its option has no file."""
    return len(task.append_system_prompt.encode()) > LONGEST_ARGUMENT


def _prompt(task: Task, images: list[str]) -> str:
    """The prompt, with what it has no other way for."""
    named = [f"@{path.replace(' ', chr(92) + ' ')}" for path in images]
    parts = [task.append_system_prompt if _appends_in_words(task) else "", prompt_of(task), *named]
    return "\n\n".join(part for part in parts if part)


def _settings(task: Task, place: Place, hidden: Veiled) -> dict[str, Any]:
    """Settings that stand above a project's and the user's, which could lead past the gateway or loosen a mode."""
    generation: dict[str, Any] = {"maxRetries": 0}
    if place.attachments:
        generation["modalities"] = {"image": True}  # Else it drops images for models that it does not know.
    settings: dict[str, Any] = {
        "$version": _SETTINGS_VERSION,
        "general": {"enableAutoUpdate": False},
        # In a folder that is not trusted it reads nothing of the project's, but starts no servers of tools either.
        "security": {"folderTrust": {"enabled": not is_free(task) and not task.mcp_servers}},
        "model": {"generationConfig": generation, **({"reasoningEffort": task.effort} if task.effort else {})},
        **_providers(task, place),
    }
    if place.config:
        settings["privacy"] = {"usageStatisticsEnabled": False}
        settings["telemetry"] = {"enabled": False}
        settings["memory"] = dict.fromkeys(
            ("enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"), False
        )
    if task.mcp_servers and is_free(task):
        settings["mcpServers"] = {name: _server(server) for name, server in hidden.servers.items()}
    return settings


def _providers(task: Task, place: Place) -> dict[str, Any]:
    """The model's provider in place of all that anybody has set: one of them would win over options and variables."""
    if place.endpoint:
        # A proxy in anybody's settings would be asked for loopback, too.
        provider = _provider(task, place, url=place.endpoint.url, key=place.endpoint.variable)
        return {"modelProviders": provider, "proxy": ""}
    way = next((way for way in WAYS if way.name == place.way and not way.base_url_variables), None)
    if way is None or not _model(task, place):
        return {}
    return {"modelProviders": _provider(task, place, url=way.base_url, key=way.credentials[0])}


def _provider(task: Task, place: Place, *, url: str, key: str) -> dict[str, Any]:
    """A model that nobody named has none: variables lead it."""
    model = _model(task, place)
    if not model:
        return {}
    return {_protocol(place).name: [{"id": model, "name": model, "baseUrl": url, "envKey": key}]}


def _server(server: McpServer) -> dict[str, Any]:
    """A server as its settings have it, with variables in place of secrets: the program puts the values in."""
    if server.url:
        found: dict[str, Any] = {"httpUrl": server.url, "headers": expanded(server.headers)}
    else:
        found = {"command": server.command, "args": server.args, "env": expanded(server.env)}
    return {**found, "discoveryTimeoutMs": _SERVER_START_MS}


def _held_servers(servers: Mapping[str, McpServer]) -> dict[str, Any]:
    """Servers where no settings are read. In the file for them variables stay as they are (0.24.4), so that a shell
    gives the values their names and becomes the server."""
    return {name: _held_server(name, server) for name, server in servers.items()}


def _held_server(name: str, server: McpServer) -> dict[str, Any]:
    if server.headers:
        problem = "Qwen Code takes headers of servers in mode exec alone, and there without a list of tools."
        step = "Leave the headers out, or the mode."
        raise Unsupported(f"mcp_servers {name}", list(server.headers), problem, next_step=step)
    if not server.env:
        return _server(server)
    named = "".join(f'export {key}="${variable}"; ' for key, variable in server.env.items())
    words = ("-c", f'{named}exec "$0" "$@"', server.command, *server.args)
    return _server(McpServer(command="/bin/sh", args=words))


def _way_in(place: Place) -> dict[str, str]:
    """The gateway in the variables of the chosen protocol, for models that nobody named."""
    if place.endpoint is None:
        return {}
    protocol = _protocol(place)
    found = {protocol.key: place.endpoint.token, place.endpoint.variable: place.endpoint.token}
    return {**found, protocol.address: place.endpoint.url} if protocol.address else found


def _environment(task: Task, place: Place) -> dict[str, str]:
    env = {
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{place.scratch}/settings.json",
        "QWEN_CODE_NO_RELAUNCH": "1",  # Else it works in a child that outlives it.
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_DISABLE_AUTO_TITLE": "1",
    }
    if place.config:
        env["QWEN_TELEMETRY_ENABLED"] = "false"  # Above settings: a project's `.env` could send the prompt anywhere.
    if place.endpoint:
        env["NODE_OPTIONS"] = f"--import=file://{quote(place.scratch)}/{_PRELOAD}"
    if task.system_prompt:
        env["QWEN_SYSTEM_MD"] = f"{place.scratch}/system-prompt.md"
    if not is_free(task):
        env["QWEN_CODE_TRUSTED_FOLDERS_PATH"] = f"{place.scratch}/trusted-folders.json"
        env |= READING
    if limit := largest_answer(task):
        # It asks again with room for 64,000 tokens where an answer does not fit, and a budget would set those aside.
        env["QWEN_CODE_MAX_OUTPUT_TOKENS"] = str(limit)
    return env
