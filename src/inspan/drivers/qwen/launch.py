"""The command line of one run of Qwen Code, and the settings that stand above everybody else's."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.mcp_secrets import MaskedServers, mask_mcp_secrets, to_placeholders, wrap_in_shell
from inspan.contracts.output_cap import max_output_tokens
from inspan.contracts.prompt_fallbacks import MAX_ARGUMENT_BYTES, escape_slash_command
from inspan.contracts.tool_grants import (
    READ_ONLY_ENV,
    is_unrestricted,
    list_granted_tools,
    offers_everything,
    split_pattern,
)
from inspan.errors import Unsupported
from inspan.protocol.task import McpServer, Task

from .providers import PROTOCOLS, PROVIDERS, WireProtocol
from .tools import READERS, SHELL, to_own_name, to_own_pattern, tools_except

_SERVER_START_MS = 10_000
_SETTINGS_VERSION = 4
# Its shell is offered only where a rule allows something of it; what else it may run is its own list of readers.
_SHELL_OFFER = f"{SHELL}(true)"
# That rule is one about all commands that begin so, `true $(touch x)` among them.
_SHELL_OFFER_ALONE = f"{SHELL}(true *)"
# A pattern allows whatever a command that fits it has another one put into its words (0.24.4).
_SUBSTITUTIONS = (f"{SHELL}(*$*)", f"{SHELL}(*`*)")
# A module that its Node loads first.
_PRELOAD = "preload.mjs"
_HEAD = """\
import { syncBuiltinESMExports } from "node:module"
delete process.env.NODE_OPTIONS // Of no concern to the programs that its tools run.
"""
# A project's `.env` may name a proxy, which would be asked for loopback, too: the
# gateway's host joins those that the user reaches without one. By ACP that file even replaces what is set (0.24.4), so
# that what leads to the gateway is held.
_PRELOAD_SOURCE = """\
const listed = process.env.no_proxy || process.env.NO_PROXY
process.env.no_proxy = process.env.NO_PROXY = listed ? `${listed},127.0.0.1` : "127.0.0.1"
const held = new Set(["no_proxy", "NO_PROXY", ...NAMES])
process.env = new Proxy(process.env, {
  set: (env, name, value) => held.has(name) || Reflect.set(env, name, value),
  deleteProperty: (env, name) => held.has(name) || Reflect.deleteProperty(env, name),
})
"""
# A project that is not trusted may not be worked in without questions, and `--safe-mode` leaves out its instructions
# too (0.24.4). So its settings, which start servers and hooks, are not found, nor its variables until the first call.
_HIDDEN_SETTINGS = """\
import fs from "node:fs"
import path from "node:path"
let starting = true
const { existsSync, readFileSync } = fs, { fetch } = globalThis
const hides = (file) => {
  const whole = path.resolve(String(file))
  if (whole.startsWith(path.resolve(process.env.QWEN_HOME) + path.sep)) return false
  const [name, folder] = whole.split(path.sep).reverse()
  return (name === "settings.json" && folder === ".qwen") || name === ".mcp.json" || (name === ".env" && starting)
}
fs.existsSync = (file) => !hides(file) && existsSync(file)
fs.readFileSync = (file, ...rest) => {
  if (hides(file)) throw Object.assign(new Error(`ENOENT: no such file, open '${file}'`), { code: "ENOENT" })
  return readFileSync(file, ...rest)
}
globalThis.fetch = (...request) => {
  starting = false
  return fetch(...request)
}
"""
_TAIL = "syncBuiltinESMExports()\n"


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    hidden = mask_mcp_secrets(task.mcp_servers, context.secrets)
    images = context.attachment_files
    files = {f"{context.scratch}/settings.json": msgspec.json.encode(_build_settings(task, context, hidden)), **images}
    if preload := _preload(task, context):
        files[f"{context.scratch}/{_PRELOAD}"] = preload.encode()
    argv = [context.program, "--output-format", "stream-json", *_permission_argv(task)]
    argv += [*_session_argv(task, context), *_choice_argv(task, context)]
    argv += [f"--add-dir={folder}" for folder in (*task.extra_dirs, *([context.scratch] if images else []))]
    if task.mcp_servers and not is_unrestricted(task):
        path = f"{context.scratch}/mcp.json"
        files[path] = msgspec.json.encode({"mcpServers": _shell_server_configs(task, hidden.servers)})
        argv.append(f"--mcp-config={path}")
    if task.system_prompt:
        files[f"{context.scratch}/system-prompt.md"] = task.system_prompt.encode()
    env = {**_build_environment(task, context), **_gateway_environment(context), **hidden.variables}
    return Launch(argv=(*argv, *task.options), env=env, files=files, stdin=_build_prompt(task, list(images)).encode())


def _preload(task: Task, context: LaunchContext) -> str:
    """What it is kept from, whoever wants it; empty where that is nothing."""
    names = msgspec.json.encode(list(_gateway_environment(context))).decode()
    held = _PRELOAD_SOURCE.replace("NAMES", names) if context.endpoint else ""
    hidden = _HIDDEN_SETTINGS if context.config and is_unrestricted(task) else ""
    return f"{_HEAD}{held}{hidden}{_TAIL}" if held or hidden else ""


def _permission_argv(task: Task) -> list[str]:
    """What each mode may do. `--safe-mode` leaves out everybody's rules, hooks and servers but those given here."""
    denied = [to_own_pattern(tool) for tool in task.disallowed_tools]
    if is_unrestricted(task):
        return ["--approval-mode=yolo", *(f"--exclude-tools={tool}" for tool in denied)]
    if task.ask and offers_everything(task):
        return ["--approval-mode=default", "--safe-mode", *(f"--exclude-tools={tool}" for tool in denied)]
    extra = [to_own_pattern(tool) for tool in list_granted_tools(task)]
    allowed = [_SHELL_OFFER, *extra] if task.mode == "review" else extra
    if task.ask:
        allowed = []  # The rules of the run answer what it asks.
    held = [_SHELL_OFFER_ALONE] if task.mode == "review" else []
    if any(split_pattern(tool)[1] and to_own_name(tool) == SHELL for tool in extra) and not task.ask:
        held += _SUBSTITUTIONS
    offered = [*(READERS if task.mode == "review" else ()), *map(to_own_name, extra)]
    return [
        "--approval-mode=default",
        "--safe-mode",
        *(f"--allowed-tools={tool}" for tool in allowed),
        *(f"--exclude-tools={tool}" for tool in (*tools_except(offered), *held, *denied)),
    ]


def _session_argv(task: Task, context: LaunchContext) -> list[str]:
    """A fork cannot be given an id: the two options together are an error (0.24.4)."""
    if context.resume:
        return ["--resume", context.resume, *(["--fork-session"] if task.fork else [])]
    return ["--session-id", context.session_id] if context.session_id else []


def _choice_argv(task: Task, context: LaunchContext) -> list[str]:
    asked = task.model.startswith(f"{context.provider}/") if context.provider else False
    given = {
        "--auth-type": _find_protocol(context).name if context.endpoint or context.config or asked else "",
        "--model": _model_name(task, context),
        "--max-session-turns": "" if task.limits.max_turns is None else str(task.limits.max_turns),
        "--append-system-prompt": "" if _appends_to_prompt(task) else task.append_system_prompt,
    }
    words = [f"{flag}={value}" for flag, value in given.items() if value]
    return [*words, *(["--include-partial-messages"] if task.partial else [])]


def _find_protocol(context: LaunchContext) -> WireProtocol:
    return PROTOCOLS[context.provider or PROVIDERS[0].name]


def _model_name(task: Task, context: LaunchContext) -> str:
    return task.model.removeprefix(f"{context.provider}/") if context.provider else task.model


def _appends_to_prompt(task: Task) -> bool:
    """Its option has no file."""
    return len(task.append_system_prompt.encode()) > MAX_ARGUMENT_BYTES


def _build_prompt(task: Task, images: list[str]) -> str:
    """The prompt, with what it has no other way for."""
    named = [f"@{path.replace(' ', chr(92) + ' ')}" for path in images]
    parts = [task.append_system_prompt if _appends_to_prompt(task) else "", escape_slash_command(task), *named]
    return "\n\n".join(part for part in parts if part)


def _build_settings(task: Task, context: LaunchContext, hidden: MaskedServers) -> dict[str, Any]:
    """Settings that stand above a project's and the user's, which could lead past the gateway or loosen a mode."""
    generation: dict[str, Any] = {"maxRetries": 0}
    if context.attachments:
        generation["modalities"] = {"image": True}  # Else it drops images for models that it does not know.
    settings: dict[str, Any] = {
        "$version": _SETTINGS_VERSION,
        "general": {"enableAutoUpdate": False},
        # In a folder that is not trusted it reads nothing of the project's, but starts no MCP servers either.
        "security": {"folderTrust": {"enabled": not is_unrestricted(task) and not task.mcp_servers}},
        "model": {"generationConfig": generation, **({"reasoningEffort": task.effort} if task.effort else {})},
        **_provider_settings(task, context),
    }
    if context.config:
        settings["privacy"] = {"usageStatisticsEnabled": False}
        settings["telemetry"] = {"enabled": False}
        settings["memory"] = dict.fromkeys(
            ("enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"), False
        )
    if task.mcp_servers and is_unrestricted(task):
        settings["mcpServers"] = {name: _server_config(server) for name, server in hidden.servers.items()}
    return settings


def _provider_settings(task: Task, context: LaunchContext) -> dict[str, Any]:
    """The model's provider in place of all that anybody has set: one of them would win over options and variables."""
    if context.endpoint:
        # A proxy in anybody's settings would be asked for loopback, too.
        provider = _model_provider(task, context, url=context.endpoint.url, key=context.endpoint.variable)
        return {"modelProviders": provider, "proxy": ""}
    way = next((way for way in PROVIDERS if way.name == context.provider and not way.base_url_variables), None)
    if way is None or not _model_name(task, context):
        return {}
    return {"modelProviders": _model_provider(task, context, url=way.base_url, key=way.credentials[0])}


def _model_provider(task: Task, context: LaunchContext, *, url: str, key: str) -> dict[str, Any]:
    """A model that nobody named has none: variables lead it."""
    model = _model_name(task, context)
    if not model:
        return {}
    return {_find_protocol(context).name: [{"id": model, "name": model, "baseUrl": url, "envKey": key}]}


def _server_config(server: McpServer) -> dict[str, Any]:
    """A server as its settings have it, with variables in place of secrets: the program puts the values in."""
    if server.url:
        found: dict[str, Any] = {"httpUrl": server.url, "headers": to_placeholders(server.headers)}
    else:
        found = {"command": server.command, "args": server.args, "env": to_placeholders(server.env)}
    return {**found, "discoveryTimeoutMs": _SERVER_START_MS}


def _shell_server_configs(task: Task, servers: Mapping[str, McpServer]) -> dict[str, Any]:
    """Servers where no settings are read. In the file for them variables stay as they are (0.24.4), so that a shell
    gives the values their names and becomes the server; an address stands there as it is."""
    plain = {name: msgspec.structs.replace(server, url=task.mcp_servers[name].url) for name, server in servers.items()}
    return {name: _shell_server_config(name, server) for name, server in plain.items()}


def _shell_server_config(name: str, server: McpServer) -> dict[str, Any]:
    if server.headers:
        problem = "Qwen Code takes headers of servers in mode exec alone, and there without a list of tools."
        step = "Leave the headers out, or the mode."
        raise Unsupported(f"mcp_servers {name}", list(server.headers), problem, next_step=step)
    if server.url:
        return _server_config(server)
    command, words = wrap_in_shell(server)
    return _server_config(McpServer(command=command, args=words))


def _gateway_environment(context: LaunchContext) -> dict[str, str]:
    """The gateway in the variables of the chosen protocol, for models that nobody named."""
    if context.endpoint is None:
        return {}
    protocol = _find_protocol(context)
    found = {protocol.key: context.endpoint.token, context.endpoint.variable: context.endpoint.token}
    return {**found, protocol.address: context.endpoint.url} if protocol.address else found


def _build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    env = {
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{context.scratch}/settings.json",
        "QWEN_CODE_NO_RELAUNCH": "1",  # Else it works in a child that outlives it.
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_DISABLE_AUTO_TITLE": "1",
    }
    if context.config:
        env["QWEN_TELEMETRY_ENABLED"] = "false"  # Above settings: a project's `.env` could send the prompt anywhere.
    if _preload(task, context):
        env["NODE_OPTIONS"] = f"--import=file://{quote(context.scratch)}/{_PRELOAD}"
    if task.system_prompt:
        env["QWEN_SYSTEM_MD"] = f"{context.scratch}/system-prompt.md"
    if not is_unrestricted(task):
        env["QWEN_CODE_TRUSTED_FOLDERS_PATH"] = f"{context.scratch}/trusted-folders.json"
        env |= READ_ONLY_ENV
    if limit := max_output_tokens(task):
        # It asks again with room for 64,000 tokens where an answer does not fit, and a budget would set those aside.
        env["QWEN_CODE_MAX_OUTPUT_TOKENS"] = str(limit)
    return env
