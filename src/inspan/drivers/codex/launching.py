"""How Codex is started."""

import os.path
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.contracts.servers import veiled
from inspan.contracts.wording import LONGEST_ARGUMENT, schema_words
from inspan.protocol.task import McpServer, Task

TOKEN = "INSPAN_RUN_TOKEN"
_SERVER_START_S = 10


# Each leaves one kind of tool out of what is offered to the model; together they leave none (0.163). As settings, since
# a feature that an older version does not know is an error as an option.
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
_NOT_TAKEN = frozenset(
    {"allOf", "oneOf", "not", "if", "then", "else", "default"}
    | {"dependentRequired", "dependentSchemas", "patternProperties"}
)
_NAMED = ("properties", "$defs", "definitions")
# Allow rules and hooks of the user or a trusted project run commands outside of its sandbox.
_READ_ONLY = ("-s", "read-only", "--ignore-rules", "-c", "features.hooks=false")


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it.

    Every option stands before `resume`: one `-c` behind it throws away all that stood before (0.163).
    """
    images = {f"{place.scratch}/image-{index}": each.data for index, each in enumerate(place.attachments)}
    # With `=`, for an image takes every word after it as another one.
    argv = [place.program, "exec", "--json", *(f"--image={path}" for path in images)]
    argv += ["--skip-git-repo-check", *_mode(task, place), *_provider(place)]
    env = {TOKEN: place.endpoint.token} if place.endpoint and place.endpoint.variable else {}
    if task.mode != "exec":
        # The only place that its read-only sandbox leaves writable, and gone after each command: tests need one.
        env["TMPDIR"] = "/dev/shm"
    if takes_no_tools(task):
        env["CODEX_EXEC_SERVER_URL"] = "none"  # Without a place to run them, no tool that touches the machine is left.
    if place.config:
        # Each of the two alone still looks up hosts and delays the exit by 5 s (0.163).
        argv += ["--disable", "plugins", "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false"]
        # Skills are looked for below HOME too, wherever its own folder is.
        argv += ["-c", "skills.include_instructions=false"]
    words, files = _said_to_it(task, place)
    argv += [*words, *_servers(task, env)]
    argv += [word for folder in task.extra_dirs for word in ("--add-dir", folder)]
    argv += [*task.options, *(["fork" if task.fork else "resume", place.resume] if place.resume else [])]
    return Launch(argv=(*argv, "-"), env=env, files=images | files, stdin=_prompt(task, place).encode())


def _said_to_it(task: Task, place: Place) -> tuple[list[str], dict[str, bytes]]:
    """Model, effort, instructions and schema, as options and the files that they name."""
    argv, files = ["-m", task.model] if task.model else [], dict[str, bytes]()
    if task.effort:
        argv += ["-c", f"model_reasoning_effort={_quoted(task.effort)}"]
    if task.system_prompt:
        path = f"{place.scratch}/instructions.md"
        files[path] = task.system_prompt.encode()
        argv += ["-c", f"model_instructions_file={_quoted(path)}"]
    if task.append_system_prompt and not _appends_in_words(task, place):
        argv += ["-c", f"developer_instructions={_quoted(task.append_system_prompt)}"]
    if task.output_schema is not None and is_strict(task.output_schema):
        path = f"{place.scratch}/schema.json"
        files[path] = msgspec.json.encode(task.output_schema)
        argv += ["--output-schema", path]
    return argv, files


def _appends_in_words(task: Task, place: Place) -> bool:
    """Its option holds at the start of a thread alone, and has no file."""
    return bool(place.resume) or len(task.append_system_prompt.encode()) > LONGEST_ARGUMENT


def _prompt(task: Task, place: Place) -> str:
    """The prompt, and what it has no option for: new instructions in an old thread, a schema that is not strict."""
    parts = [
        task.append_system_prompt if _appends_in_words(task, place) else "",
        task.prompt,
        schema_words(task.output_schema)
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
    named = [each for key in _NAMED for each in cast(dict[str, Any], known.get(key, {})).values()]
    rest = [value for key, value in known.items() if key not in (*_NAMED, "enum", "const")]
    return not known.keys() & _NOT_TAKEN and all(map(_is_closed, [*named, *rest]))


def _mode(task: Task, place: Place) -> tuple[str, ...]:
    if task.mode == "exec":
        return ("--dangerously-bypass-approvals-and-sandbox",)
    held = (*_READ_ONLY, "-c", f"projects={{{_untrusted(place.cwd)}}}")
    return (*held, *_NO_TOOLS) if takes_no_tools(task) else held


def _untrusted(cwd: str) -> str:
    """Trust taken back, the parents' too: servers in a trusted project's settings would run outside of its sandbox."""
    folders = [cwd]
    while folders[-1] != (parent := os.path.dirname(folders[-1])):
        folders.append(parent)
    return ",".join(f'{_quoted(folder)}={{trust_level="untrusted"}}' for folder in folders)


def takes_no_tools(task: Task) -> bool:
    return task.mode == "complete" and not task.allowed_tools


def _servers(task: Task, env: dict[str, str]) -> list[str]:
    """Servers as its config has them; one that does not start would be left out without a word, unless required."""
    if takes_no_tools(task):
        return []
    hidden = veiled(task.mcp_servers)
    env.update(hidden.variables)
    argv: list[str] = []
    for name, server in hidden.servers.items():
        table = f"{_server(server)},required=true,startup_timeout_sec={_SERVER_START_S},{_grant(name, task)}"
        argv += ["-c", f"mcp_servers.{name}={{{table}}}"]
    return argv


def _server(server: McpServer) -> str:
    """How one is reached. Its variables come by other names: a shell gives them theirs and becomes the server."""
    if server.url:
        headers = ",".join(f"{_quoted(name)}={_quoted(variable)}" for name, variable in server.headers.items())
        return f"url={_quoted(server.url)},env_http_headers={{{headers}}}"
    command, words = server.command, server.args
    if server.env:
        named = "".join(f'export {name}="${variable}"; ' for name, variable in server.env.items())
        command, words = "/bin/sh", ("-c", f'{named}exec "$0" "$@"', server.command, *server.args)
    return f"command={_quoted(command)},args={_listed(words)},env_vars={_listed(server.env.values())}"


def _grant(name: str, task: Task) -> str:
    """Which of a server's tools may be called: in `exec` all, else those allowed; the others are not offered."""
    tools = [tool for tool in task.allowed_tools or () if tool == f"mcp__{name}" or tool.startswith(f"mcp__{name}__")]
    if task.mode == "exec" or {f"mcp__{name}", f"mcp__{name}__*"} & set(tools):
        return 'default_tools_approval_mode="approve"'
    if not tools:
        return 'default_tools_approval_mode="prompt"'
    only = _listed(tool.removeprefix(f"mcp__{name}__") for tool in tools)
    return f'default_tools_approval_mode="approve",enabled_tools={only}'


def _listed(words: Iterable[str]) -> str:
    return f"[{','.join(map(_quoted, words))}]"


def _quoted(text: str) -> str:
    """A TOML string; JSON's spelling of one is TOML's too, but for the character that JSON leaves as it is."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def _provider(place: Place) -> tuple[str, ...]:
    if place.endpoint is None:
        return ()
    way_in = f'env_key="{TOKEN}"' if place.endpoint.variable else "requires_openai_auth=true"
    # Its own retries are off: whoever started the run decides whether to try again.
    provider = (
        f'{{name="inspan",base_url="{place.endpoint.url}",{way_in},wire_api="responses",'
        "request_max_retries=0,stream_max_retries=0,stream_idle_timeout_ms=3600000}"
    )
    return ("-c", 'model_provider="inspan"', "-c", f"model_providers.inspan={provider}")
