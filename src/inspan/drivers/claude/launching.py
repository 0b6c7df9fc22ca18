"""How Claude Code is started."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inspan.contracts.budgeted import largest_answer
from inspan.contracts.driver import Endpoint, Launch, Place
from inspan.contracts.granting import READING, is_free, parted
from inspan.contracts.servers import expanded, veiled
from inspan.contracts.wording import LONGEST_ARGUMENT, prompt_of, schema_words
from inspan.protocol.task import McpServer, Task

EDITORS = ("Edit", "Write", "NotebookEdit")
_SERVER_START_MS = 10_000
_SNAPSHOTS = (2, 1, 260)
READERS = ("Bash", "Read", "Grep", "Glob")
# Each leads to another way to the model.
SWITCHES = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "ANTHROPIC_UNIX_SOCKET",
)


def launch(task: Task, place: Place) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [place.program, "-p", "--output-format", "stream-json", "--verbose"]
    if task.mode == "complete" and not task.allowed_tools and place.config and place.has_key:
        argv.append("--bare")  # Leaves out what an answer has no use for, and any login: about 55 ms less.
    argv += [*_permissions(task), *_sources(task, place), *_session(task, place), *_choices(task)]
    files: dict[str, bytes] = {}
    if place.endpoint and _sources(task, place)[1:] != [""]:
        path = f"{place.scratch}/settings.json"
        files[path] = _settings(place.endpoint)
        argv += ["--settings", path]
    argv += task.options  # Behind those settings: of two files the last one counts.
    hidden = veiled(task.mcp_servers)
    for flag, name, content in (
        ("--mcp-config", "mcp.json", _mcp_config(hidden.servers)),
        ("--system-prompt-file", "system-prompt.md", task.system_prompt.encode()),
        ("--append-system-prompt-file", "appended-prompt.md", task.append_system_prompt.encode()),
    ):
        if content:
            files[f"{place.scratch}/{name}"] = content
            argv += [flag, f"{place.scratch}/{name}"]
    if place.config or not is_free(task):
        argv.append("--strict-mcp-config")
    if place.attachments:
        argv += ["--input-format", "stream-json"]
    env = {**environment(task, place), **hidden.variables}
    return Launch(argv=tuple(argv), env=env, files=files, stdin=_stdin(task, place))


def _permissions(task: Task) -> list[str]:
    """What each mode may do. With `bypassPermissions` a list of tools restricts nothing, so a list means `dontAsk`."""
    extra = task.allowed_tools or ()
    denied = task.disallowed_tools
    if is_free(task):
        return ["--permission-mode", "bypassPermissions", *_listed("--disallowedTools", denied)]
    if task.mode == "review":
        # Without a rule, its own list of commands that only read lets those run and nothing else.
        offered, denied = (*READERS, *tool_names(extra)), (*EDITORS, *denied)
    else:
        offered = tool_names(extra)
    return [
        "--permission-mode",
        "dontAsk",
        "--tools",
        ",".join(dict.fromkeys(offered)),
        *_listed("--allowedTools", extra),
        *_listed("--disallowedTools", denied),
    ]


def _sources(task: Task, place: Place) -> list[str]:
    """Whose settings apply where a mode must hold: hooks of a project run at once and may allow what they like, and
    rules of the user allow commands that write."""
    if is_free(task):
        return []
    return ["--setting-sources", "user" if task.mode == "complete" and not place.config else ""]


def _settings(endpoint: Endpoint) -> bytes:
    """Settings that stand above a project's and the user's, whose variables would else win over the environment's and
    lead past the gateway."""
    env = {"ANTHROPIC_BASE_URL": endpoint.url, **dict.fromkeys(SWITCHES, "")}
    return msgspec.json.encode({"env": env, "apiKeyHelper": ""})


def tool_names(patterns: Sequence[str]) -> tuple[str, ...]:
    """The built-in tools that these patterns are about: `Bash(git *)` is about Bash; tools of servers are none."""
    return tuple(parted(pattern)[0] for pattern in patterns if not pattern.startswith("mcp__"))


def _listed(flag: str, words: Sequence[str]) -> list[str]:
    return [flag, ",".join(words)] if words else []


def _session(task: Task, place: Place) -> list[str]:
    return [
        *(["--resume", place.resume] if place.resume else []),
        *(["--fork-session"] if task.fork else []),
        *(["--session-id", place.session_id] if place.session_id else []),
        *(["--system-prompt-snapshot", "off"] if _keeps_its_prompt(task, place) else []),
    ]


def _keeps_its_prompt(task: Task, place: Place) -> bool:
    """Whether the prompt that was recorded with the session would be sent again, and the new one ignored."""
    return bool(place.resume and (task.system_prompt or task.append_system_prompt)) and place.version >= _SNAPSHOTS


def _choices(task: Task) -> list[str]:
    schema = _forwarded(task.output_schema)
    turns = task.limits.max_turns
    given = {
        "--model": task.model,
        "--effort": task.effort,
        "--max-turns": str(turns) if turns is not None else "",
        "--json-schema": msgspec.json.encode(schema).decode() if schema is not None else "",
    }
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    words += [word for folder in task.extra_dirs for word in ("--add-dir", folder)]
    return [*words, *(["--include-partial-messages"] if task.partial else [])]


def _forwarded(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema as its option takes it: an object, without the name of a draft, not too long for an argument.

    What it does not take is said in words.
    """
    if schema is None or schema.get("type") != "object" or len(msgspec.json.encode(schema)) > LONGEST_ARGUMENT:
        return None
    return {key: value for key, value in schema.items() if key != "$schema"}


def _mcp_config(servers: Mapping[str, McpServer]) -> bytes:
    """Its file of servers, in which variables stand for their secrets: the program puts the values in."""
    if not servers:
        return b""
    written = {
        name: {"command": server.command, "args": server.args, "env": expanded(server.env)}
        if server.command
        else {"type": "http", "url": server.url, "headers": expanded(server.headers)}
        for name, server in servers.items()
    }
    return msgspec.json.encode({"mcpServers": written})


def environment(task: Task, place: Place) -> dict[str, str]:
    """Its variables for one run, whichever channel it is spoken to by."""
    # Retries are off: whoever started the run decides whether to try again. By default 401 and 500 go on for minutes.
    # A command that went to the background keeps the program from leaving for ten minutes after its last word.
    env = {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    if place.endpoint:
        env["ANTHROPIC_BASE_URL"] = place.endpoint.url
        if place.endpoint.variable:
            env[place.endpoint.variable] = place.endpoint.token
        if place.endpoint.variable == "CLAUDE_CODE_OAUTH_TOKEN":
            env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"  # Else it is sent to the vendor's other addresses.
    if limit := largest_answer(task):
        # It asks for room for 128,000 tokens of answer in every call, and a budget would have to set all of it aside.
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(limit)
    if place.config:
        env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        env["ANTHROPIC_CONFIG_DIR"] = f"{place.config}/anthropic"  # Where the vendor's other programs log in.
    if task.mode != "exec":
        env |= READING
    if task.mcp_servers:
        env["MCP_TIMEOUT"] = str(_SERVER_START_MS)  # By default a server that says nothing holds up the start for 30 s.
    return env


def _stdin(task: Task, place: Place) -> bytes:
    """The prompt as it is, or with what is attached to it as one message of its input format."""
    prompt = prompt_of(task)
    if task.output_schema is not None and _forwarded(task.output_schema) is None:
        prompt = f"{prompt}\n\n{schema_words(task.output_schema)}"
    if not place.attachments:
        return prompt.encode()
    content: list[dict[str, Any]] = [
        {
            "type": "image" if each.media_type.startswith("image/") else "document",
            "source": {"type": "base64", "media_type": each.media_type, "data": each.base64},
        }
        for each in place.attachments
    ]
    message = {"role": "user", "content": [*content, {"type": "text", "text": prompt}]}
    return msgspec.json.encode({"type": "user", "message": message}) + b"\n"
