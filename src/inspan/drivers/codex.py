"""Codex: `codex exec --json`, read as it speaks since 0.149."""

import os.path
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

import msgspec

from inspan.contracts.dialect import NOTHING, Said
from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Launch, Place, failure, kind_told
from inspan.contracts.servers import veiled
from inspan.contracts.wording import schema_words
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    Change,
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    PlanChanged,
    PlanStep,
    ReasoningSaid,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

_TOKEN = "INSPAN_RUN_TOKEN"
_SERVER_START_S = 10
_LONGEST_ARGUMENT = 120_000


# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    failure("session_not_found", r"no rollout found|thread not found|no saved session"),
    failure("authentication", r"status:? 40[13]\b|incorrect api key|missing environment variable|not logged in"),
    failure("rate_limit", r"status:? 429\b|rate limit|usage limit|quota exceeded"),
    failure("context_too_long", r"ran out of room|context (window|length)|exceeds the maximum length"),
    failure("model_not_found", r"status:? 404\b|model .*(not found|does not exist|not supported)"),
    failure("overloaded", r"status:? 5\d\d\b|high demand|at capacity|overloaded"),
    failure(
        "network", r"stream disconnected|error sending request|connection (refused|reset|closed)|timed out|reconnecting"
    ),
    failure("invalid_response", r"incomplete response|unexpected (end|eof)|failed to parse|expected value"),
    failure("environment", r"no such file or directory|permission denied|error loading config|active writer"),
)


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
    env = {_TOKEN: place.endpoint.token} if place.endpoint and place.endpoint.variable else {}
    if task.mode != "exec":
        # The only place that its read-only sandbox leaves writable, and gone after each command: tests need one.
        env["TMPDIR"] = "/dev/shm"
    if _takes_no_tools(task):
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
    return bool(place.resume) or len(task.append_system_prompt.encode()) > _LONGEST_ARGUMENT


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
    return (*held, *_NO_TOOLS) if _takes_no_tools(task) else held


def _untrusted(cwd: str) -> str:
    """Trust taken back, the parents' too: servers in a trusted project's settings would run outside of its sandbox."""
    folders = [cwd]
    while folders[-1] != (parent := os.path.dirname(folders[-1])):
        folders.append(parent)
    return ",".join(f'{_quoted(folder)}={{trust_level="untrusted"}}' for folder in folders)


def _takes_no_tools(task: Task) -> bool:
    return task.mode == "complete" and not task.allowed_tools


def _servers(task: Task, env: dict[str, str]) -> list[str]:
    """Servers as its config has them; one that does not start would be left out without a word, unless required."""
    if _takes_no_tools(task):
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
    way_in = f'env_key="{_TOKEN}"' if place.endpoint.variable else "requires_openai_auth=true"
    # Its own retries are off: whoever started the run decides whether to try again.
    provider = (
        f'{{name="inspan",base_url="{place.endpoint.url}",{way_in},wire_api="responses",'
        "request_max_retries=0,stream_max_retries=0,stream_idle_timeout_ms=3600000}"
    )
    return ("-c", 'model_provider="inspan"', "-c", f"model_providers.inspan={provider}")


class _Change(msgspec.Struct):
    path: str
    kind: str


class _Todo(msgspec.Struct):
    text: str = ""
    completed: bool = False


class _Problem(msgspec.Struct):
    message: str = ""


class _Part(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Content(msgspec.Struct):
    content: list[_Part]


class _Item(msgspec.Struct):
    type: str
    id: str = ""
    text: str = ""
    message: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    status: str = ""
    changes: list[_Change] = []
    items: list[_Todo] = []
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: _Problem | None = None
    query: str = ""


class _Tokens(msgspec.Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Frame(msgspec.Struct):
    type: str
    thread_id: str = ""
    item: _Item | None = None
    usage: _Tokens | None = None
    error: _Problem | None = None
    message: str = ""


_decode = msgspec.json.Decoder(_Frame).decode
_DENIED = re.compile(
    r"error=(?P<words>patch rejected: .*|unsupported (?:custom tool )?call: (?P<tool>.*)"
    r"|approval policy is Never; .*|exec_command failed: .*Rejected.*)"
)
_NOT_APPROVED = "MCP tool call requires approval"
_SERVERS_FAILED = re.compile(r"required MCP servers failed to initialize: (.*?)(?: \(code -?\d+\))?$")
_CHANGES: dict[str, Change] = {"add": "added", "update": "modified", "delete": "deleted"}


def _usage(tokens: _Tokens) -> Usage:
    cached = tokens.cached_input_tokens + tokens.cache_write_input_tokens
    return Usage(
        input=max(0, tokens.input_tokens - cached),
        output=tokens.output_tokens,
        cache_read=tokens.cached_input_tokens,
        cache_write=tokens.cache_write_input_tokens,
        reasoning=tokens.reasoning_output_tokens,
    )


class _Total(msgspec.Struct):
    total_token_usage: _Tokens | None = None


class _Counted(msgspec.Struct):
    type: str = ""
    info: _Total | None = None


class _Line(msgspec.Struct):
    payload: _Counted | None = None


def told_in(rollout: bytes) -> Told | None:
    """The tokens that a thread counts on from, by the last count in the end of its rollout file.

    Not by the records of single calls: those of a turn that broke off are left out of later counts.
    """
    for line in reversed(rollout.splitlines()):
        if b'"token_count"' not in line:
            continue
        try:
            counted = msgspec.json.decode(line, type=_Line).payload
        except UNREADABLE:
            continue
        if counted and counted.type == "token_count" and counted.info and counted.info.total_token_usage:
            return Told(usage=_usage(counted.info.total_token_usage))
    return None


def _command_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="shell", input={"command": item.command})]


def _command_ended(item: _Item) -> list[Event]:
    end = ToolFailed if item.status == "failed" else ToolCompleted
    return [
        end(id=item.id, name="shell", output=item.aggregated_output),
        CommandExecuted(id=item.id, command=item.command, exit_code=item.exit_code),
    ]


def _patch_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name="apply_patch", input=[change.path for change in item.changes])]


def _patch_ended(item: _Item) -> list[Event]:
    if item.status == "failed":
        return [ToolFailed(id=item.id, name="apply_patch", output=item.message)]
    changed = [
        FileChanged(path=change.path, change=_CHANGES.get(change.kind, "modified"), id=item.id)
        for change in item.changes
    ]
    return [*changed, ToolCompleted(id=item.id, name="apply_patch")]


def _tool_name(item: _Item) -> str:
    return f"{item.server}.{item.tool}" if item.server else item.tool or item.type


def _tool_started(item: _Item) -> list[Event]:
    return [ToolStarted(id=item.id, name=_tool_name(item), input=item.arguments or item.query or None)]


def _tool_ended(item: _Item) -> list[Event]:
    if item.status == "failed":
        words = item.error.message if item.error else _result(item) or item.message
        return [ToolFailed(id=item.id, name=_tool_name(item), output=words, denied=words.startswith(_NOT_APPROVED))]
    return [ToolCompleted(id=item.id, name=_tool_name(item), output=_result(item) or item.message)]


def _result(item: _Item) -> str:
    """What a tool gave back: its texts, or whatever else it is as JSON."""
    if item.result is None:
        return ""
    try:
        parts = msgspec.convert(item.result, _Content).content
    except msgspec.ValidationError:
        return msgspec.json.encode(item.result).decode()
    return "\n".join(part.text for part in parts)


def _planned(item: _Item) -> list[Event]:
    steps = [PlanStep(text=todo.text, state="done" if todo.completed else "pending") for todo in item.items]
    return [PlanChanged(steps=steps)]


def _silent(_: _Item) -> list[Event]:
    return []


def _said(item: _Item) -> list[Event]:
    return [TextSaid(text=item.text)]


def _reasoned(item: _Item) -> list[Event]:
    return [ReasoningSaid(text=item.text)]


def _complained(item: _Item) -> list[Event]:
    return [ErrorReported(message=item.message or item.text)]


# Item type → what its start and its end tell.
_ITEMS: dict[str, tuple[Callable[[_Item], list[Event]], Callable[[_Item], list[Event]]]] = {
    "agent_message": (_silent, _said),
    "reasoning": (_silent, _reasoned),
    "error": (_silent, _complained),
    "command_execution": (_command_started, _command_ended),
    "file_change": (_patch_started, _patch_ended),
    "mcp_tool_call": (_tool_started, _tool_ended),
    "web_search": (_tool_started, _tool_ended),
    "collab_tool_call": (_tool_started, _tool_ended),
    "todo_list": (_planned, _planned),
}


class CodexDialect:
    """Reads the event lines of `codex exec --json`."""

    def __init__(self, task: Task, told: Told) -> None:
        self._denials = 0
        self._servers_failed = False
        self._handlers: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "thread.started": lambda frame: [ThreadStarted(session_id=frame.thread_id, model=task.model)],
            "turn.started": lambda frame: [TurnStarted()],
            # What it reports is the whole thread's, earlier runs included.
            "turn.completed": lambda frame: [TurnCompleted(usage=_usage(frame.usage or _Tokens()) - told.usage)],
            "turn.failed": lambda frame: [_turn_failed(frame)],
            "error": lambda frame: [ErrorReported(message=frame.message)],
            "item.started": lambda frame: _item(frame, 0),
            "item.updated": lambda frame: _updated(frame),
            "item.completed": lambda frame: _item(frame, 1),
        }

    def open(self) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
        except UNREADABLE as error:
            return Said([Unrecognized(raw=frame.decode(errors="replace"), note=str(error))])
        handler = self._handlers.get(decoded.type)
        events = handler(decoded) if handler else None
        if events is None:
            return Said([Unrecognized(raw=frame.decode(errors="replace"), note=f"frame {decoded.type!r}")])
        return Said(events)

    def overhear(self, line: bytes) -> Said:
        """Calls of tools that were taken away, rejected patches and servers that failed: only its stderr tells."""
        text = line.decode(errors="replace")
        if denied := _DENIED.search(text):
            self._denials += 1
            name = denied["tool"] or ("apply_patch" if denied["words"].startswith("patch") else "shell")
            return Said([ToolFailed(id=f"denied-{self._denials}", name=name, output=denied["words"], denied=True)])
        failed = _SERVERS_FAILED.search(text)
        if failed and not self._servers_failed:  # It says so twice.
            self._servers_failed = True
            return Said(_without_servers(failed[1]))
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING


def _without_servers(words: str) -> list[Event]:
    """A required server is missing: the program leaves before its first turn."""
    name, _, problem = words.partition(": ")
    message = f"the server of tools {name} could not be started: {problem}"
    return [McpServerFailed(name=name, message=problem), TurnFailed(failure="environment", message=message)]


def _item(frame: _Frame, end: Literal[0, 1]) -> list[Event] | None:
    handlers = _ITEMS.get(frame.item.type) if frame.item else None
    return handlers[end](cast(_Item, frame.item)) if handlers else None


def _updated(frame: _Frame) -> list[Event] | None:
    return _item(frame, 1) if frame.item and frame.item.type == "todo_list" else None


def _turn_failed(frame: _Frame) -> TurnFailed:
    message = frame.error.message if frame.error else frame.message
    return TurnFailed(failure=kind_told(FAILURES, message) or "unknown", message=message)


DRIVER = Driver(
    name="codex",
    title="Codex",
    program="codex",
    wire="responses",
    channels=(Channel(kind="stream", launch=launch, dialect=CodexDialect),),
    install=Install(
        package="openai-codex-cli-bin",
        program="codex_cli_bin/bin/codex",
        version="0.163.0",
    ),
    version_words=re.compile(r"codex-cli (\d+)\.(\d+)\.(\d+)"),
    oldest=(0, 149, 0),
    config_variable="CODEX_HOME",
    state_paths=("~/.codex",),
    login_paths=("~/.codex/auth.json",),
    credentials=("CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"),
    # The program itself does not look at this one.
    key_aliases=("OPENAI_API_KEY",),
    variables=("CODEX_", "OPENAI_"),
    failures=FAILURES,
    transcripts="sessions/*/*/*/rollout-*-{session_id}.jsonl",
    told_in=told_in,
    # A name that is no id would silently begin a new thread (0.163).
    session_ids=re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    login_hint="codex login, or set CODEX_API_KEY",
    provider="openai",
    base_url="https://api.openai.com/v1",
    base_url_variables=("OPENAI_BASE_URL",),
    login_url="https://chatgpt.com/backend-api/codex",
    settings=(
        ("~/.codex/config.toml", "model_provider"),
        ("~/.codex/config.toml", "openai_base_url"),
        ("~/.codex/config.toml", "profile"),
    ),
    bound_credentials=("CODEX_ACCESS_TOKEN",),
    capabilities=Capabilities(
        review="yes",
        complete="yes",
        output_schema="yes",
        system_prompt="yes",
        append_system_prompt="yes",
        resume="yes",
        fork="yes",
        extra_dirs="yes",
        login="yes",
        login_follows_gateway=True,
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        mcp=("stdio", "http"),
        grants=("Read", "Grep", "Glob", "mcp__"),
        notes={
            "review": "Servers of tools in your own settings are started; those that you have approved can be called.",
            "allowed_tools": "It has no list of tools: use mode review, which its sandbox holds to reading.",
            "complete": "Without tools, unless some are allowed: then it reads by its shell, in a read-only sandbox.",
            "mcp": "A server that was asked for and does not start ends the run.",
            "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
            "reports_denials": "Commands that its sandbox stops are told to the model only; other denials are listed.",
            "reports_usage": "Without a gateway the tokens of its subagents are not told.",
        },
    ),
    instructions="AGENTS.md",
    skills=(".agents/skills",),
    trial_model="gpt-5.5",
    litter=(".git", ".codex", ".agents", ".aws"),
    carries_bwrap="codex_cli_bin/codex-resources/bwrap",
    demonstrates=True,
)
