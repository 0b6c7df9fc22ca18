"""How Codex is started."""

import os.path
from binascii import b2a_base64
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.mcp_secrets import find_variable, mask_mcp_secrets, wrap_in_shell
from inspan.contracts.prompt_fallbacks import MAX_ARGUMENT_BYTES, schema_instruction
from inspan.contracts.tool_grants import asks_first
from inspan.protocol.task import McpServer, Task

TOKEN_VARIABLE = "INSPAN_RUN_TOKEN"
KEY_VARIABLE = "CODEX_API_KEY"
_SERVER_START_S = 10


# Each leaves one kind of tool out of what is offered to the model; together they leave none, but for models that call
# tools from JavaScript: those keep `exec` and `wait`, and no function to call in it (0.163). As settings, since a
# feature that an older version does not know is an error as an option.
_NO_TOOLS = (
    "-c",
    "features.goals=false",
    "-c",
    "features.sleep_tool=false",
    "-c",
    "agents.enabled=false",
    "-c",
    'web_search="disabled"',
    "-c",
    "tools.experimental_request_user_input={enabled=false}",
)
# What its provider refuses in a schema, and where a schema has names of the user's own.
_UNSUPPORTED_KEYWORDS = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "default"}
    | {"dependentRequired", "dependentSchemas", "patternProperties"}
)
_SCHEMA_MAPS = ("properties", "$defs", "definitions")
# Allow rules and hooks of the user or a trusted project run commands outside of its sandbox.
_READ_ONLY = ("-s", "read-only", "--ignore-rules")
# Without its sandbox it notes in its settings that the project is trusted, and starts the servers of the project's. It
# reads no AGENTS.md of a folder that is expressly not trusted, but of one that nobody has spoken of (0.163).
_ONLY_INSTRUCTIONS = ("--ignore-user-config", "--ignore-rules", "-c", "features.hooks=false")


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it.

    Every option stands before `resume`: one `-c` behind it throws away all that stood before (0.163).
    """
    images = {f"{context.scratch}/image-{index}": each.data for index, each in enumerate(context.attachments)}
    # With `=`, for an image takes every word after it as another one.
    argv = [context.program, "exec", "--json", *(f"--image={path}" for path in images)]
    argv += ["--skip-git-repo-check", *_mode_argv(task, context), *provider_argv(context)]
    env = build_environment(task, context)
    words, files = _instruction_options(task, context)
    argv += [*quiet_argv(context), *words, *server_argv(task, context, env)]
    argv += [word for folder in task.extra_dirs for word in ("--add-dir", folder)]
    argv += [*task.options, *(["fork" if task.fork else "resume", context.resume] if context.resume else [])]
    return Launch(argv=(*argv, "-"), env=env, files=images | files, stdin=_build_prompt(task, context).encode())


def build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    """Its variables: the run's token, and what its sandbox and a mode without tools need."""
    env = {TOKEN_VARIABLE: context.endpoint.token} if context.endpoint and context.endpoint.variable else {}
    if task.mode != "exec":
        # The only place that its read-only sandbox leaves writable, and gone after each command: tests need one.
        env["TMPDIR"] = "/dev/shm"
    if takes_no_tools(task):
        env["CODEX_EXEC_SERVER_URL"] = "none"  # Without a place to run them, no tool that touches the machine is left.
    return env


def quiet_argv(context: LaunchContext) -> tuple[str, ...]:
    """What keeps it to itself in a config folder of its own."""
    if not context.config:
        return ()
    # Each of the two alone still looks up hosts and delays the exit by 5 s (0.163).
    quiet = ("--disable", "plugins", "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false")
    # Skills are looked for below HOME too, wherever its own folder is.
    return (*quiet, "-c", "skills.include_instructions=false")


def _instruction_options(task: Task, context: LaunchContext) -> tuple[list[str], dict[str, bytes]]:
    """Model, effort, instructions and schema, as options and the files that they name."""
    words, files = prompt_argv(task, context)
    argv = [*(["-m", task.model] if task.model else []), *words]
    if task.append_system_prompt and not _appends_to_prompt(task, context):
        argv += ["-c", f"developer_instructions={to_toml_string(task.append_system_prompt)}"]
    if task.output_schema is not None and is_strict(task.output_schema):
        path = f"{context.scratch}/schema.json"
        files[path] = msgspec.json.encode(task.output_schema)
        argv += ["--output-schema", path]
    return argv, files


def prompt_argv(task: Task, context: LaunchContext) -> tuple[list[str], dict[str, bytes]]:
    """Effort and system prompt as settings, and the file that is named in them."""
    argv, files = list[str](), dict[str, bytes]()
    if task.effort:
        argv += ["-c", f"model_reasoning_effort={to_toml_string(task.effort)}"]
    if task.system_prompt:
        path = f"{context.scratch}/instructions.md"
        files[path] = task.system_prompt.encode()
        argv += ["-c", f"model_instructions_file={to_toml_string(path)}"]
    return argv, files


def _appends_to_prompt(task: Task, context: LaunchContext) -> bool:
    """Its option holds at the start of a thread alone, and has no file."""
    return bool(context.resume) or len(task.append_system_prompt.encode()) > MAX_ARGUMENT_BYTES


def _build_prompt(task: Task, context: LaunchContext) -> str:
    """The prompt, and what it has no option for: new instructions in an old thread, a schema that is not strict."""
    parts = [
        task.append_system_prompt if _appends_to_prompt(task, context) else "",
        task.prompt,
        schema_instruction(task.output_schema)
        if task.output_schema is not None and not is_strict(task.output_schema)
        else "",
    ]
    return "\n\n".join(part for part in parts if part)


def is_strict(schema: dict[str, Any]) -> bool:
    """Whether the provider takes this schema: an object, with every object in it closed and every property required."""
    return schema.get("type") == "object" and _is_closed(schema)


def _is_closed(part: object) -> bool:
    if isinstance(part, list):
        return all(_is_closed(each) for each in cast(list[object], part))
    if not isinstance(part, dict):
        return True
    known = cast(dict[str, Any], part)
    if known.get("type") == "object" or "properties" in known:
        names = set(cast(dict[str, Any], known.get("properties", {})))
        if known.get("additionalProperties") is not False or set(known.get("required", ())) != names:
            return False
    named = [each for key in _SCHEMA_MAPS for each in cast(dict[str, Any], known.get(key, {})).values()]
    rest = [value for key, value in known.items() if key not in (*_SCHEMA_MAPS, "enum", "const")]
    return not known.keys() & _UNSUPPORTED_KEYWORDS and all(map(_is_closed, [*named, *rest]))


def _mode_argv(task: Task, context: LaunchContext) -> tuple[str, ...]:
    if task.mode == "exec":
        return ("--dangerously-bypass-approvals-and-sandbox", *(_ONLY_INSTRUCTIONS if context.config else ()))
    return (*_READ_ONLY, *distrust_argv(task, context))


def distrust_argv(task: Task, context: LaunchContext) -> tuple[str, ...]:
    """What a mode that only reads leaves out: the project's own settings, and all tools where there are to be none."""
    held = ("-c", "features.hooks=false", "-c", f"projects={{{_untrust_folders(context.cwd)}}}")
    return (*held, *_NO_TOOLS) if takes_no_tools(task) else held


def _untrust_folders(cwd: str) -> str:
    """Trust taken back, the parents' too: servers in a trusted project's settings would run outside of its sandbox."""
    folders = [cwd]
    while folders[-1] != (parent := os.path.dirname(folders[-1])):
        folders.append(parent)
    return ",".join(f'{to_toml_string(folder)}={{trust_level="untrusted"}}' for folder in folders)


def takes_no_tools(task: Task) -> bool:
    return task.mode == "complete" and not task.allowed_tools


def server_argv(task: Task, context: LaunchContext, env: dict[str, str]) -> list[str]:
    """Servers as its config has them; one that does not start would be left out without a word, unless required."""
    if takes_no_tools(task):
        return []
    given = {name: _without_login(server) for name, server in task.mcp_servers.items()}
    hidden = mask_mcp_secrets(
        {name: msgspec.structs.replace(server, url="") for name, server in given.items()}, context.secrets
    )
    env.update(hidden.variables)
    argv: list[str] = []
    for name, server in hidden.servers.items():
        reached = _server_table(server, url=given[name].url)
        table = f"{reached},required=true,startup_timeout_sec={_SERVER_START_S},{_approval_settings(name, task)}"
        argv += ["-c", f"mcp_servers.{name}={{{table}}}"]
    return argv


def _without_login(server: McpServer) -> McpServer:
    """A server whose name and password stand in its address has them in a header, as they would be sent."""
    parts = urlsplit(server.url)
    login, at, host = parts.netloc.rpartition("@")
    if not at or "authorization" in map(str.lower, server.headers):
        return server
    basic = b2a_base64(unquote(login).encode(), newline=False).decode()
    url = urlunsplit(parts._replace(netloc=host))
    return msgspec.structs.replace(server, url=url, headers={**server.headers, "Authorization": f"Basic {basic}"})


def _server_table(server: McpServer, *, url: str) -> str:
    """How one is reached. Its variables come by other names: a shell gives them theirs and becomes the server.

    Of an address no part can come by a variable (0.163), so that one with a secret stands on the command line.
    """
    if url:
        headers = ",".join(
            f"{to_toml_string(name)}={to_toml_string(variable)}" for name, variable in server.headers.items()
        )
        return f"url={to_toml_string(url)},env_http_headers={{{headers}}}"
    command, words = wrap_in_shell(server)
    variables = [*server.env.values(), *filter(None, map(find_variable, server.args))]
    return f"command={to_toml_string(command)},args={to_toml_list(words)},env_vars={to_toml_list(variables)}"


def _approval_settings(name: str, task: Task) -> str:
    """Which of a server's tools may be called: in `exec` all, else those allowed; the others are not offered.

    Where somebody is to be asked, it asks about each: rules then answer for those that are allowed.
    """
    tools = [tool for tool in task.allowed_tools or () if tool == f"mcp__{name}" or tool.startswith(f"mcp__{name}__")]
    allowed = f'default_tools_approval_mode="{"prompt" if asks_first(task) else "approve"}"'
    if task.mode == "exec" or {f"mcp__{name}", f"mcp__{name}__*"} & set(tools):
        return allowed
    if not tools:
        return 'default_tools_approval_mode="prompt"'
    only = to_toml_list(tool.removeprefix(f"mcp__{name}__") for tool in tools)
    return f"{allowed},enabled_tools={only}"


def to_toml_list(words: Iterable[str]) -> str:
    return f"[{','.join(map(to_toml_string, words))}]"


def to_toml_string(text: str) -> str:
    """A TOML string; JSON's spelling of one is TOML's too, but for the character that JSON leaves as it is."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def provider_argv(context: LaunchContext) -> tuple[str, ...]:
    known = build_provider(context)
    if not known:
        return ()
    table = ",".join(f"{name}={_to_toml_value(value)}" for name, value in known.items())
    return ("-c", 'model_provider="inspan"', "-c", f"model_providers.inspan={{{table}}}")


def build_provider(context: LaunchContext) -> dict[str, str | bool | int]:
    """A provider of its own making at the gateway's address, or at the run's own; empty for its usual one.

    It follows no variable for an address (0.163).
    """
    url = context.endpoint.url if context.endpoint else context.base_url
    if not url:
        return {}
    variable = (
        (TOKEN_VARIABLE if context.endpoint.variable else "")
        if context.endpoint
        else (KEY_VARIABLE if context.has_key else "")
    )
    way_in: dict[str, str | bool] = {"env_key": variable} if variable else {"requires_openai_auth": True}
    # Its own retries are off: whoever started the run decides whether to try again.
    retries = {"request_max_retries": 0, "stream_max_retries": 0, "stream_idle_timeout_ms": 3600000}
    return {"name": "inspan", "base_url": url, **way_in, "wire_api": "responses", **retries}


def _to_toml_value(value: str | bool | int) -> str:
    return to_toml_string(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
