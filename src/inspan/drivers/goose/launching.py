"""The command line of one run of Goose; its settings go by variables, and by a file beside the user's."""

import shlex
from typing import Any

import msgspec

from inspan.contracts.budgeted import largest_answer
from inspan.contracts.driver import Endpoint, Launch, Place
from inspan.contracts.wording import LONGEST_ARGUMENT
from inspan.protocol.task import McpServer, Task

from .going_on import GO_ON, is_foreign, named
from .providers import ROADS

_SERVER_START_S = 10
_ELSEWHERE = 'cd "$0" && exec "$@"'


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    files: dict[str, bytes] = {}
    env = _habits(task, place)
    argv = ["run", "--quiet", "--output-format", "stream-json", "--instructions", "-", *_session(place)]
    argv += [*_road(task, place, env=env), *_mode(task), *_instructions(task, place, env=env, files=files)]
    if task.limits.max_turns is not None:
        argv += ["--max-turns", str(task.limits.max_turns)]
    if task.mode == "exec":
        argv += _servers(task, place, env=env, files=files)
    argv += task.options
    return Launch(argv=_started(task, place, argv), env=env, files=files, stdin=_prompt(task).encode())


def _habits(task: Task, place: Place) -> dict[str, str]:
    """What it would do on the side. It cannot be kept from trying a failed call three times more, but from waiting."""
    env = {
        "GOOSE_MODE": "chat" if task.mode == "complete" else "auto",
        "GOOSE_DISABLE_SESSION_NAMING": "true",
        "GOOSE_PROVIDER_SKIP_BACKOFF": "true",
    }
    if task.effort:
        env["GOOSE_THINKING_EFFORT"] = task.effort
    if limit := largest_answer(task):
        # It asks for room for up to 128,000 tokens of answer in every call, and a budget would set all of it aside.
        env["GOOSE_MAX_TOKENS"] = str(limit)
    if place.config:
        env |= {"GOOSE_DISABLE_KEYRING": "true", "GOOSE_TELEMETRY_OFF": "true"}
    return env


def _road(task: Task, place: Place, *, env: dict[str, str]) -> list[str]:
    """Provider and model, where they are not left to the user's own settings.

    By options, since a session that goes on would keep its old model else, with its effort and its limit. Only one
    that inspan did not begin keeps them, unless a model is named.
    """
    prefix = f"{place.way}/"
    chosen = task.model.startswith(prefix) or place.endpoint or place.config or place.has_key
    road = ROADS.get(place.way)
    if not chosen or road is None:
        return ["--model", task.model] if task.model else []
    model = task.model.removeprefix(prefix) or road.model
    if place.endpoint:
        # The user's settings for subagents would lead elsewhere.
        env |= {"GOOSE_SUBAGENT_PROVIDER": place.way, "GOOSE_SUBAGENT_MODEL": model, "GOOSE_TOOLSHIM": "false"}
        env |= {**road.to(place.endpoint.url, model), **_token(place.endpoint)}
    if not task.model and is_foreign(place.resume):
        env |= {"GOOSE_PROVIDER": place.way, "GOOSE_MODEL": model}
        return []
    return ["--provider", place.way, "--model", model]


def _token(endpoint: Endpoint) -> dict[str, str]:
    return {endpoint.variable: endpoint.token} if endpoint.variable else {}


def _session(place: Place) -> list[str]:
    if place.session_id:
        return [f"--name={place.session_id}", *(["--resume"] if place.resume else [])]
    return ["--resume", *named(place.resume)] if place.resume else []


def _mode(task: Task) -> list[str]:
    """Which tools a new session has; an old one has those that it had. In its mode `chat` none of them is run."""
    tools = {
        "exec": [],
        "review": ["--no-profile", "--with-builtin", "developer,analyze"],
        "complete": ["--no-profile"],
    }
    return tools[task.mode]


def _instructions(task: Task, place: Place, *, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Its own prompt can be replaced by a template in a file; what is to be added to it has to be an argument."""
    if task.system_prompt:
        path = f"{place.scratch}/system-prompt.md"
        files[path] = task.system_prompt.replace("{", "{{'{'}}").encode()
        env["GOOSE_SYSTEM_PROMPT_FILE_PATH"] = path
    return ["--system", task.append_system_prompt] if task.append_system_prompt and not _is_too_long(task) else []


def _is_too_long(task: Task) -> bool:
    return len(task.append_system_prompt.encode()) > LONGEST_ARGUMENT


def _prompt(task: Task) -> str:
    return f"{task.append_system_prompt}\n\n{task.prompt}" if _is_too_long(task) else task.prompt


def _servers(task: Task, place: Place, *, env: dict[str, str], files: dict[str, bytes]) -> list[str]:
    """Servers that are commands by an option, which works for old sessions too; the others need a file of settings."""
    for name, server in task.mcp_servers.items():
        env.update({_variable(name, key): value for key, value in {**server.env, **server.headers}.items()})
    servers = task.mcp_servers.items()
    extensions: dict[str, Any] = {name: _web(name, each) for name, each in servers if each.url}
    if place.config:
        # They are looked for in the folders of other agents below HOME, wherever its own is.
        extensions["skills"] = {"type": "platform", "name": "skills", "description": "", "enabled": False}
    if extensions:
        path = f"{place.scratch}/extensions.yaml"
        files[path] = msgspec.json.encode({"extensions": extensions})
        env["GOOSE_ADDITIONAL_CONFIG_FILES"] = path
    return [word for name, each in servers if each.command for word in ("--with-extension", _command(name, each))]


def _variable(server: str, key: str) -> str:
    """Where a server finds its secret, under a name that is no other's: an old session starts its servers again."""
    return f"INSPAN_MCP_{server.encode().hex()}_{key.encode().hex()}"


def _web(name: str, server: McpServer) -> dict[str, Any]:
    headers = {header: f"${{{_variable(name, header)}}}" for header in server.headers}
    known = {"type": "streamable_http", "name": name, "description": "", "enabled": True}
    keys = [_variable(name, header) for header in server.headers]
    return {**known, "uri": server.url, "headers": headers, "env_keys": keys, "timeout": _SERVER_START_S}


def _command(name: str, server: McpServer) -> str:
    """A server as a line of words. Its variables come by other names: a shell gives them theirs and becomes it."""
    words = [server.command, *server.args]
    if server.env:
        own = "".join(f'export {variable}="${_variable(name, variable)}"; ' for variable in server.env)
        words = ["/bin/sh", "-c", f'{own}exec "$0" "$@"', *words]
    return f"{name}:{shlex.join(words)}"


def _started(task: Task, place: Place, argv: list[str]) -> tuple[str, ...]:
    program = (place.program, *argv)
    if place.resume:
        session = (*named(place.resume), f"{place.scratch}/session.json", place.session_id)
        program = ("/bin/sh", "-c", GO_ON, place.program, *session, *argv)
    return elsewhere(place, program) if task.mode == "complete" else program


def elsewhere(place: Place, argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command line outside of the project: its plugins' hooks are run in every mode, and an answer needs none."""
    return ("/bin/sh", "-c", _ELSEWHERE, place.scratch, *argv)
