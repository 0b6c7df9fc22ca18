"""How Claude Code is started."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.mcp_secrets import mask_mcp_secrets, to_placeholders
from inspan.contracts.output_cap import max_output_tokens
from inspan.contracts.prompt_fallbacks import MAX_ARGUMENT_BYTES, escape_slash_command, schema_instruction
from inspan.contracts.tool_grants import READ_ONLY_ENV, is_unrestricted, split_pattern
from inspan.protocol.task import McpServer, Task

EDITORS = ("Edit", "Write", "NotebookEdit")
_MEMORIES = ("CLAUDE.md", ".claude/CLAUDE.md")
_OF_PROJECT = "Instructions of the project in the working folder, if there are any:"
_SERVER_START_MS = 10_000
_SNAPSHOTS_SINCE = (2, 1, 260)
READERS = ("Bash", "Read", "Grep", "Glob")
# Each leads to another way to the model.
OVERRIDE_VARIABLES = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "ANTHROPIC_UNIX_SOCKET",
)


def launch(task: Task, context: LaunchContext) -> Launch:
    """The command line of one run; the prompt goes in by stdin, where no other process can read it."""
    argv = [context.program, "-p", "--output-format", "stream-json", "--verbose"]
    if task.mode == "complete" and not task.allowed_tools and context.config and context.has_key:
        argv.append("--bare")  # Leaves out what an answer has no use for, and any login: about 55 ms less.
    argv += [*_permission_argv(task), *sources_argv(task, context), *_session_argv(task, context), *_choice_argv(task)]
    files = build_memory_files(task, context)
    if (context.endpoint or context.base_url) and sources_argv(task, context)[1:] != [""]:
        path = f"{context.scratch}/settings.json"
        files[path] = msgspec.json.encode(build_settings(context))
        argv += ["--settings", path]
    argv += task.options  # Behind those settings: of two files the last one counts.
    hidden = mask_mcp_secrets(task.mcp_servers, context.secrets)
    for flag, name, content in (
        ("--mcp-config", "mcp.json", _encode_mcp_config(hidden.servers)),
        ("--system-prompt-file", "system-prompt.md", task.system_prompt.encode()),
        ("--append-system-prompt-file", "appended-prompt.md", task.append_system_prompt.encode()),
    ):
        if content:
            files[f"{context.scratch}/{name}"] = content
            argv += [flag, f"{context.scratch}/{name}"]
    if context.config or not is_unrestricted(task):
        argv.append("--strict-mcp-config")
    if context.attachments:
        argv += ["--input-format", "stream-json"]
    env = {**build_environment(task, context), **hidden.variables}
    return Launch(argv=tuple(argv), env=env, files=files, stdin=_build_stdin(task, context))


def _permission_argv(task: Task) -> list[str]:
    """What each mode may do. With `bypassPermissions` a list of tools restricts nothing, so a list means `dontAsk`."""
    extra = task.allowed_tools or ()
    denied = (*task.disallowed_tools, *_find_edit_rules(task.disallowed_tools))
    if is_unrestricted(task):
        return ["--permission-mode", "bypassPermissions", *_list_argv("--disallowedTools", denied)]
    if task.ask:
        asking = ["--permission-mode", "default", "--permission-prompt-tool", "stdio"]
        return [*asking, *_list_argv("--allowedTools", extra), *_list_argv("--disallowedTools", denied)]
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
        *_list_argv("--allowedTools", extra),
        *_list_argv("--disallowedTools", denied),
    ]


def _find_edit_rules(patterns: Sequence[str]) -> list[str]:
    """What keeps every editor from a path: of its rules with one, only those for Edit are looked at (2.1.325)."""
    named = [split_pattern(pattern) for pattern in patterns]
    return [f"Edit({path})" for name, path in named if path and name in EDITORS and name != "Edit"]


def sources_argv(task: Task, context: LaunchContext) -> list[str]:
    """Whose settings apply. Hooks of a project run at once and may allow what they like, and its variables lead
    elsewhere: they have no say in the profile clean. Where a mode must hold, rules of the user would loosen it too."""
    if task.ask:
        return ["--setting-sources", "user"]  # A project's rules could answer in the user's place.
    if is_unrestricted(task):
        return ["--setting-sources", "user"] if context.config else []
    return ["--setting-sources", "user" if task.mode == "complete" and not context.config else ""]


def build_memory_files(task: Task, context: LaunchContext) -> dict[str, bytes]:
    """The project's instructions where nothing else of it is read: they go with its settings (2.1.325), so that the
    memory file of the session's own folder names them. Those of the folders above are left out: HOME may be one."""
    if not (context.config and (is_unrestricted(task) or task.ask)):
        return {}
    named = [f"@{context.cwd}/{name}".replace(" ", "\\ ") for name in _MEMORIES]
    return {f"{context.config}/CLAUDE.md": "\n".join([_OF_PROJECT, *named, ""]).encode()}


def build_settings(context: LaunchContext) -> dict[str, Any]:
    """Settings that stand above a project's and the user's, whose variables would else win over the environment's and
    lead past the gateway, by a proxy too, or to another address than the run's."""
    switches = dict.fromkeys(OVERRIDE_VARIABLES, "")
    if context.endpoint is None:
        return {"env": {"ANTHROPIC_BASE_URL": context.base_url, **switches}}
    env = {"ANTHROPIC_BASE_URL": context.endpoint.url, **switches, **context.endpoint.no_proxy_env}
    return {"env": env, "apiKeyHelper": ""}


def tool_names(patterns: Sequence[str]) -> tuple[str, ...]:
    """The built-in tools that these patterns are about: `Bash(git *)` is about Bash; tools of servers are none."""
    return tuple(split_pattern(pattern)[0] for pattern in patterns if not pattern.startswith("mcp__"))


def _list_argv(flag: str, words: Sequence[str]) -> list[str]:
    return [flag, ",".join(words)] if words else []


def _session_argv(task: Task, context: LaunchContext) -> list[str]:
    return [
        *(["--resume", context.resume] if context.resume else []),
        *(["--fork-session"] if task.fork else []),
        *(["--session-id", context.session_id] if context.session_id else []),
        *(["--system-prompt-snapshot", "off"] if _keeps_its_prompt(task, context) else []),
    ]


def _keeps_its_prompt(task: Task, context: LaunchContext) -> bool:
    """Whether the prompt that was recorded with the session would be sent again, and the new one ignored."""
    return (
        bool(context.resume and (task.system_prompt or task.append_system_prompt))
        and context.version >= _SNAPSHOTS_SINCE
    )


def _choice_argv(task: Task) -> list[str]:
    schema = _to_option_schema(task.output_schema)
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


def _to_option_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema as its option takes it: an object, without the name of a draft, not too long for an argument.

    What it does not take is said in words.
    """
    if schema is None or schema.get("type") != "object" or len(msgspec.json.encode(schema)) > MAX_ARGUMENT_BYTES:
        return None
    return {key: value for key, value in schema.items() if key != "$schema"}


def _encode_mcp_config(servers: Mapping[str, McpServer]) -> bytes:
    """Its file of servers, in which variables stand for their secrets: the program puts the values in."""
    if not servers:
        return b""
    written = {
        name: {"command": server.command, "args": server.args, "env": to_placeholders(server.env)}
        if server.command
        else {"type": "http", "url": server.url, "headers": to_placeholders(server.headers)}
        for name, server in servers.items()
    }
    return msgspec.json.encode({"mcpServers": written})


def build_environment(task: Task, context: LaunchContext) -> dict[str, str]:
    """Its variables for one run, whichever channel it is spoken to by."""
    # Retries are off: whoever started the run decides whether to try again. By default 401 and 500 go on for minutes.
    # A command that went to the background keeps the program from leaving for ten minutes after its last word.
    env = {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    if context.base_url:
        env |= {"ANTHROPIC_BASE_URL": context.base_url, **dict.fromkeys(OVERRIDE_VARIABLES, "")}
    if context.endpoint:
        env["ANTHROPIC_BASE_URL"] = context.endpoint.url
        if context.endpoint.variable:
            env[context.endpoint.variable] = context.endpoint.token
        if context.endpoint.variable == "CLAUDE_CODE_OAUTH_TOKEN":
            env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"  # Else it is sent to the vendor's other addresses.
    if limit := max_output_tokens(task):
        # It asks for room for 128,000 tokens of answer in every call, and a budget would have to set all of it aside.
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(limit)
    if context.config:
        env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        env["ANTHROPIC_CONFIG_DIR"] = f"{context.config}/anthropic"  # Where the vendor's other programs log in.
    if task.mode != "exec":
        env |= READ_ONLY_ENV
    if task.mcp_servers:
        env["MCP_TIMEOUT"] = str(_SERVER_START_MS)  # By default a server that says nothing holds up the start for 30 s.
    return env


def _build_stdin(task: Task, context: LaunchContext) -> bytes:
    """The prompt as it is, or with what is attached to it as one message of its input format."""
    prompt = escape_slash_command(task)
    if task.output_schema is not None and _to_option_schema(task.output_schema) is None:
        prompt = f"{prompt}\n\n{schema_instruction(task.output_schema)}"
    if not context.attachments:
        return prompt.encode()
    message = {"role": "user", "content": [*build_attachments(context), {"type": "text", "text": prompt}]}
    return msgspec.json.encode({"type": "user", "message": message}) + b"\n"


def build_attachments(context: LaunchContext) -> list[dict[str, Any]]:
    """What is attached to a prompt, as blocks of a message."""
    return [
        {
            "type": "image" if each.media_type.startswith("image/") else "document",
            "source": {"type": "base64", "media_type": each.media_type, "data": each.base64},
        }
        for each in context.attachments
    ]
