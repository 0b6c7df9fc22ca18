"""Claude Code: `claude -p --output-format stream-json --verbose`, read as it speaks since 2.1.212."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from inspan.contracts.dialect import NOTHING, Said
from inspan.contracts.driver import (
    Capabilities,
    Channel,
    Driver,
    Endpoint,
    Install,
    Launch,
    Place,
    failure,
    kind_told,
)
from inspan.contracts.servers import veiled
from inspan.contracts.wording import schema_words
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    AnswerGiven,
    CommandExecuted,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    PlanChanged,
    PlanStep,
    ReasoningSaid,
    TextDelta,
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
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import Told, Usage
from inspan.protocol.wire import UNREADABLE

# Bare numbers tell nothing: a process id or a date in a path looks like a status too.
FAILURES = (
    failure("session_not_found", r"no conversation found"),
    failure("context_too_long", r"prompt is too long|context (window|length)"),
    failure("authentication", r"not logged in|invalid api key|failed to authenticate|oauth token|please run /login"),
    failure("model_not_found", r"issue with the selected model|model_not_found"),
    failure("rate_limit", r"\(429\)|api error: 429\b|rate limit|usage limit|limit reached"),
    failure("overloaded", r"api error: 5\d\d\b|overloaded|server_error"),
    failure("invalid_response", r"empty or malformed|unexpected token|invalid json|failed to parse"),
    failure("network", r"connection|timed out|network|socket hang|fetch failed|econn|stream ended|terminated"),
    failure("environment", r"root/sudo|cannot be used|already in use|enoent|eacces|no such file"),
)
# The program's own word for an API failure → our kind.
_ERRORS: dict[str, FailureKind] = {
    "authentication_failed": "authentication",
    "oauth_org_not_allowed": "authentication",
    "billing_error": "authentication",
    "rate_limit": "rate_limit",
    "server_error": "overloaded",
    "overloaded": "overloaded",
    "model_not_found": "model_not_found",
}
_TERMINAL: dict[str, FailureKind] = {
    "prompt_too_long": "context_too_long",
    "max_turns": "max_turns",
    "budget_exhausted": "unknown",
    "structured_output_retry_exhausted": "unfit_answer",
}


_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EDITORS = ("Edit", "Write", "NotebookEdit")
_SERVER_START_MS = 10_000
_BUDGETED_ANSWER = 32_000
_LONGEST_ARGUMENT = 120_000
_SNAPSHOTS = (2, 1, 260)
_READERS = ("Bash", "Read", "Grep", "Glob")
# Each leads to another way to the model.
_SWITCHES = (
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
    if place.config or not _is_free(task):
        argv.append("--strict-mcp-config")
    if place.attachments:
        argv += ["--input-format", "stream-json"]
    env = {**_environment(task, place), **hidden.variables}
    return Launch(argv=tuple(argv), env=env, files=files, stdin=_stdin(task, place))


def _is_free(task: Task) -> bool:
    """Whether it may do everything; else nobody's settings may add to what it may do."""
    return task.mode == "exec" and task.allowed_tools is None


def _permissions(task: Task) -> list[str]:
    """What each mode may do. With `bypassPermissions` a list of tools restricts nothing, so a list means `dontAsk`."""
    extra = task.allowed_tools or ()
    denied = task.disallowed_tools
    if _is_free(task):
        return ["--permission-mode", "bypassPermissions", *_listed("--disallowedTools", denied)]
    if task.mode == "review":
        # Without a rule, its own list of commands that only read lets those run and nothing else.
        offered, denied = (*_READERS, *_names(extra)), (*_EDITORS, *denied)
    else:
        offered = _names(extra)
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
    if _is_free(task):
        return []
    return ["--setting-sources", "user" if task.mode == "complete" and not place.config else ""]


def _settings(endpoint: Endpoint) -> bytes:
    """Settings that stand above a project's and the user's, whose variables would else win over the environment's and
    lead past the gateway."""
    env = {"ANTHROPIC_BASE_URL": endpoint.url, **dict.fromkeys(_SWITCHES, "")}
    return msgspec.json.encode({"env": env, "apiKeyHelper": ""})


def _names(patterns: Sequence[str]) -> tuple[str, ...]:
    """The built-in tools that these patterns are about: `Bash(git *)` is about Bash; tools of servers are none."""
    return tuple(pattern.partition("(")[0] for pattern in patterns if not pattern.startswith("mcp__"))


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
    if schema is None or schema.get("type") != "object" or len(msgspec.json.encode(schema)) > _LONGEST_ARGUMENT:
        return None
    return {key: value for key, value in schema.items() if key != "$schema"}


def _mcp_config(servers: Mapping[str, McpServer]) -> bytes:
    """Its file of servers, in which variables stand for their secrets: the program puts the values in."""
    if not servers:
        return b""
    written = {
        name: {"command": server.command, "args": server.args, "env": _expanded(server.env)}
        if server.command
        else {"type": "http", "url": server.url, "headers": _expanded(server.headers)}
        for name, server in servers.items()
    }
    return msgspec.json.encode({"mcpServers": written})


def _expanded(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: f"${{{variable}}}" for name, variable in variables.items()}


def _environment(task: Task, place: Place) -> dict[str, str]:
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
    if _is_counted(task):
        # It asks for room for 128,000 tokens of answer in every call, and a budget would have to set all of it aside.
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(task.limits.largest_answer or _BUDGETED_ANSWER)
    if place.config:
        env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        env["ANTHROPIC_CONFIG_DIR"] = f"{place.config}/anthropic"  # Where the vendor's other programs log in.
    if task.mode != "exec":
        env["GIT_OPTIONAL_LOCKS"] = "0"  # Else `git status`, which only reads, writes a fresh index.
    if task.mcp_servers:
        env["MCP_TIMEOUT"] = str(_SERVER_START_MS)  # By default a server that says nothing holds up the start for 30 s.
    return env


def _is_counted(task: Task) -> bool:
    budgets = task.budgets.values()
    return task.limits.largest_answer is not None or any(each.usd or each.tokens for each in budgets)


def _stdin(task: Task, place: Place) -> bytes:
    """The prompt as it is, or with what is attached to it as one message of its input format."""
    # A slash would begin one of its own commands, which belong to a user's own run.
    prompt = f" {task.prompt}" if task.prompt.startswith("/") and task.mode != "exec" else task.prompt
    if task.output_schema is not None and _forwarded(task.output_schema) is None:
        prompt = f"{prompt}\n\n{schema_words(task.output_schema)}"
    if not place.attachments:
        return prompt.encode()
    content: list[dict[str, Any]] = [
        {
            "type": "image" if each.media_type.startswith("image/") else "document",
            "source": {"type": "base64", "media_type": each.media_type, "data": b64encode(each.data).decode()},
        }
        for each in place.attachments
    ]
    message = {"role": "user", "content": [*content, {"type": "text", "text": prompt}]}
    return msgspec.json.encode({"type": "user", "message": message}) + b"\n"


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[dict[str, Any]] = ""
    is_error: bool = False


class _Message(msgspec.Struct):
    content: str | list[_Block] = ""
    model: str = ""


class _Tokens(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens_details: dict[str, Any] | None = None


class _Spent(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost: float = msgspec.field(name="costUSD", default=0.0)


class _Server(msgspec.Struct):
    name: str = ""
    status: str = ""


class _Frame(msgspec.Struct):
    type: str
    subtype: str = ""
    session_id: str = ""
    model: str = ""
    tools: list[str] = []
    claude_code_version: str = ""
    message: _Message | str = ""
    parent_tool_use_id: str | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw()
    error: str | None = None
    error_status: int | None = None
    api_error_status: int | None = None
    is_error: bool = False
    result: str | None = None
    errors: list[str] = []
    terminal_reason: str | None = None
    stop_reason: str | None = None
    usage: _Tokens | None = None
    total_cost_usd: float | None = None
    model_usage_since_last_result: dict[str, _Spent] | None = None
    mcp_servers: list[_Server] = []
    structured_output: msgspec.Raw = msgspec.Raw()
    tool_name: str = ""
    tool_use_id: str = ""
    attempt: int = 0
    event: msgspec.Raw = msgspec.Raw()
    api_message_id: str = ""


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""


class _StreamEvent(msgspec.Struct):
    type: str
    index: int = 0
    delta: _Delta | None = None


class _ToolResult(msgspec.Struct):
    type: str = ""
    filePath: str = ""
    originalFile: str | None = None


_decode = msgspec.json.Decoder(_Frame).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_stream_event = msgspec.json.Decoder(_StreamEvent).decode
_decode_tool_result = msgspec.json.Decoder(_ToolResult).decode
# The program speaks itself, in the model's place, when a call has failed.
_NO_MODEL = "<synthetic>"
_EDITS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_EXIT_CODE = re.compile(r"Exit code (\d+)")
# How a refusal begins; what a command or a server says of permissions comes later in its output, or in other words.
_DENIED = re.compile(
    r"(<tool_use_error>)?(Error: )?(no such tool available|permission to use |claude requested permissions"
    r"|[^\n]{0,300} (needs|requires) approval)",
    re.IGNORECASE,
)


def _usage(tokens: _Tokens) -> Usage:
    details = tokens.output_tokens_details or {}
    return Usage(
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        cache_read=tokens.cache_read_input_tokens,
        cache_write=tokens.cache_creation_input_tokens,
        reasoning=int(details.get("thinking_tokens") or 0),
    )


def _sum(models: Iterable[_Spent], *, reasoning: int) -> Usage:
    total = Usage(reasoning=reasoning)
    for spent in models:
        total += Usage(
            input=spent.input_tokens,
            output=spent.output_tokens,
            cache_read=spent.cache_read_input_tokens,
            cache_write=spent.cache_creation_input_tokens,
        )
    return total


class ClaudeDialect:
    """Reads stream-json lines; remembers which tool calls are open and what the session has cost so far."""

    def __init__(self, task: Task, told: Told) -> None:
        self._calls: dict[str, tuple[str, Any]] = {}
        self._cost_usd = told.cost_usd
        self._servers = frozenset(task.mcp_servers)
        self._error = ""
        self._denied: set[str] = set()
        self._opened = False
        self._frames: dict[str, Callable[[_Frame], list[Event] | None]] = {
            "system": self._system,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "stream_event": self._stream_event,
            "rate_limit_event": lambda frame: [],
        }
        self._systems: dict[str, Callable[[_Frame], list[Event]]] = {
            "init": self._init,
            "api_retry": _retried,
            "permission_denied": self._permission_denied,
            "status": lambda frame: [],
            "thinking_tokens": lambda frame: [],
            "ui_invalidate": lambda frame: [],
            # What the user's own hooks print is theirs; these two come before `init`.
            "hook_started": lambda frame: [],
            "hook_response": lambda frame: [],
            # A command that takes more than 3 s becomes a task; its tool call tells the rest.
            "task_started": lambda frame: [],
            "task_notification": lambda frame: [],
        }

    def open(self) -> Said:
        return NOTHING

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        return self._array(frame) if frame.startswith(b"[") else self._object(frame)

    def _object(self, frame: bytes) -> Said:
        try:
            decoded = _decode(frame)
            handler = self._frames.get(decoded.type)
            events = handler(decoded) if handler else None
        except UNREADABLE as error:
            return Said([Unrecognized(raw=frame.decode(errors="replace"), note=str(error))])
        if events is None:
            note = f"frame {decoded.type!r} {decoded.subtype}".strip()
            return Said([Unrecognized(raw=frame.decode(errors="replace"), note=note)])
        return Said(events)

    def _array(self, frame: bytes) -> Said:
        """All frames of a run at once: its single JSON output with `--verbose`."""
        try:
            frames = _decode_array(frame)
        except UNREADABLE as error:
            return Said([Unrecognized(raw=frame.decode(errors="replace"), note=str(error))])
        return Said([event for each in frames for event in self._object(bytes(each)).events])

    def _system(self, frame: _Frame) -> list[Event] | None:
        handler = self._systems.get(frame.subtype)
        return handler(frame) if handler else None

    def _init(self, frame: _Frame) -> list[Event]:
        # A second init comes when background subagents report back: a new turn of the same thread.
        if self._opened:
            return [TurnStarted()]
        self._opened = True
        thread = ThreadStarted(
            session_id=frame.session_id,
            model=frame.model,
            tools=frame.tools,
            agent_version=frame.claude_code_version,
        )
        return [thread, *self._failed_servers(frame), TurnStarted()]

    def _failed_servers(self, frame: _Frame) -> list[Event]:
        """A server that was asked for must be connected by now; of the user's own, those that say so have failed."""
        states = {server.name: server.status for server in frame.mcp_servers}
        asked = {name: states.get(name, "dropped: its settings were not understood") for name in self._servers}
        failed = {name: state for name, state in asked.items() if state != "connected"}
        failed |= {name: state for name, state in states.items() if state == "failed"}
        return [McpServerFailed(name=name, message=state) for name, state in failed.items()]

    def _assistant(self, frame: _Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return [TextSaid(text=message if isinstance(message, str) else str(message.content))]
        if frame.error:
            self._error = frame.error
        if message.model == _NO_MODEL:
            return [ErrorReported(message=block.text) for block in message.content]
        parent = frame.parent_tool_use_id or ""
        return [event for block in message.content for event in self._block(block, parent)]

    def _block(self, block: _Block, parent: str) -> list[Event]:
        if block.type == "text":
            return [TextSaid(text=block.text, parent=parent)]
        if block.type in ("thinking", "redacted_thinking"):
            return [ReasoningSaid(text=block.thinking, parent=parent)]
        if block.type == "tool_use":
            self._calls[block.id] = (block.name, block.input)
            started = ToolStarted(id=block.id, name=block.name, input=block.input, parent=parent)
            return [started, *_plan(block)]
        raw = msgspec.json.encode(block).decode()
        return [Unrecognized(raw=raw, note=f"block {block.type!r}")]

    def _user(self, frame: _Frame) -> list[Event]:
        message = frame.message
        if isinstance(message, str) or isinstance(message.content, str):
            return []
        events: list[Event] = []
        for block in message.content:
            if block.type == "tool_result":
                events += self._tool_ended(block, frame)
        return events

    def _tool_ended(self, block: _Block, frame: _Frame) -> list[Event]:
        name, given = self._calls.pop(block.tool_use_id, ("", None))
        output = _text(block.content)
        events: list[Event] = []
        if block.is_error:
            denied = block.tool_use_id in self._denied or bool(_DENIED.match(output))
            events.append(ToolFailed(id=block.tool_use_id, name=name, output=output, denied=denied))
        else:
            events.append(ToolCompleted(id=block.tool_use_id, name=name, output=output))
        if name == "Bash":
            events += _executed(block, given, output)
        elif name in _EDITS and not block.is_error:
            events += _changed(frame.tool_use_result, block.tool_use_id)
        return events

    def _permission_denied(self, frame: _Frame) -> list[Event]:
        self._denied.add(frame.tool_use_id)
        return []

    def _stream_event(self, frame: _Frame) -> list[Event]:
        event = _decode_stream_event(frame.event)
        if event.delta is None or event.delta.type != "text_delta":
            return []
        return [TextDelta(block=f"{frame.api_message_id}/{event.index}", text=event.delta.text)]

    def _result(self, frame: _Frame) -> list[Event]:
        usage, cost_usd = self._spent(frame)
        if frame.is_error or frame.subtype != "success" or frame.stop_reason == "refusal":
            return [self._failed(frame, usage, cost_usd)]
        given = bytes(frame.structured_output).decode()
        answer = [AnswerGiven(text=given)] if given and given != "null" else []
        return [*self._alone(frame), *answer, TurnCompleted(usage=usage, cost_usd=cost_usd)]

    def _alone(self, frame: _Frame) -> list[Event]:
        """What a result tells that nothing came before: the whole of its single JSON output."""
        if self._opened:
            return []
        self._opened = True
        thread = ThreadStarted(session_id=frame.session_id)
        return [thread, TurnStarted(), *([TextSaid(text=frame.result)] if frame.result else [])]

    def _spent(self, frame: _Frame) -> tuple[Usage, float | None]:
        """Tokens and cost since the last result: `usage` leaves out subagents, the total is the whole session's."""
        usage, models = _usage(frame.usage or _Tokens()), frame.model_usage_since_last_result
        if models is not None:
            return _sum(models.values(), reasoning=usage.reasoning if models else 0), round(
                sum(spent.cost for spent in models.values()), 9
            )
        if frame.total_cost_usd is None:
            return usage, None
        cost_usd, self._cost_usd = frame.total_cost_usd - self._cost_usd, frame.total_cost_usd
        return usage, round(max(0.0, cost_usd), 9)

    def _failed(self, frame: _Frame, usage: Usage, cost_usd: float | None) -> TurnFailed:
        message = "; ".join(frame.errors) or frame.result or frame.subtype
        kind = _TERMINAL.get(frame.terminal_reason or "") or _ERRORS.get(self._error)
        if frame.stop_reason == "refusal":
            kind = "refused"
        if not kind or (kind == "overloaded" and frame.api_error_status is None):
            kind = kind_told(FAILURES, message) or kind or "unknown"
        return TurnFailed(failure=kind, message=message, status=frame.api_error_status, usage=usage, cost_usd=cost_usd)


def _retried(frame: _Frame) -> list[Event]:
    return [ErrorReported(message=f"model call failed ({frame.error or frame.error_status}); the agent tries again")]


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in content)


def _executed(block: _Block, given: Any, output: str) -> list[Event]:
    command = str(given.get("command", "")) if isinstance(given, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  JSON of the agent
    match = _EXIT_CODE.match(output) if block.is_error else None
    if block.is_error and not match:
        return []
    return [CommandExecuted(id=block.tool_use_id, command=command, exit_code=int(match[1]) if match else 0)]


def _changed(raw: msgspec.Raw, call: str) -> list[Event]:
    try:
        result = _decode_tool_result(raw)
    except UNREADABLE:
        return []
    if not result.filePath:
        return []
    return [FileChanged(path=result.filePath, change="added" if result.type == "create" else "modified", id=call)]


def _plan(block: _Block) -> list[Event]:
    todos = block.input.get("todos") if block.name == "TodoWrite" and isinstance(block.input, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  JSON of the agent
    if not isinstance(todos, list):
        return []
    return [PlanChanged(steps=[_plan_step(todo) for todo in todos if isinstance(todo, dict)])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  JSON of the agent


def _plan_step(todo: dict[str, Any]) -> PlanStep:
    status = str(todo.get("status"))
    state = "done" if status == "completed" else "active" if status == "in_progress" else "pending"
    return PlanStep(text=str(todo.get("content", "")), state=state)


DRIVER = Driver(
    name="claude",
    title="Claude Code",
    program="claude",
    wire="messages",
    channels=(Channel(kind="stream", launch=launch, dialect=ClaudeDialect),),
    install=Install(
        package="claude-agent-sdk",
        release="0.2.182",
        version="2.1.325",
        program="claude_agent_sdk/_bundled/claude",
        elsewhere=Install(
            source="npm",
            package="@anthropic-ai/claude-code-{platform}",
            program="node_modules/@anthropic-ai/claude-code-{platform}/claude",
            dependencies=False,
        ),
    ),
    version_words=re.compile(r"(\d+)\.(\d+)\.(\d+) \(Claude Code\)"),
    oldest=(2, 1, 212),
    config_variable="CLAUDE_CONFIG_DIR",
    state_paths=("~/.claude", "~/.claude.json"),
    login_paths=("~/.claude/.credentials.json",),
    credentials=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    variables=("ANTHROPIC_", "CLAUDE_", "CLAUDECODE"),
    failures=FAILURES,
    session_ids=_SESSION_ID,
    login_hint="run `claude` once and /login, or set ANTHROPIC_API_KEY",
    provider="anthropic",
    base_url="https://api.anthropic.com",
    base_url_variables=("ANTHROPIC_BASE_URL",),
    login_url="https://api.anthropic.com",
    switches=_SWITCHES,
    settings=(
        ("~/.claude/settings.json", "apiKeyHelper"),
        ("~/.claude/settings.json", "env.ANTHROPIC_API_KEY"),
        ("~/.claude/settings.json", "env.ANTHROPIC_AUTH_TOKEN"),
        ("~/.claude/settings.json", "env.ANTHROPIC_BASE_URL"),
        ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_BEDROCK"),
        ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_VERTEX"),
    ),
    settings_in=("exec", "complete"),
    capabilities=Capabilities(
        presets_session_id=True,
        reports_cost=True,
        streams_text=True,
        root_needs_box=True,
        review="yes",
        complete="yes",
        allowed_tools="yes",
        disallowed_tools="yes",
        output_schema="yes",
        system_prompt="yes",
        append_system_prompt="yes",
        resume="yes",
        fork="yes",
        extra_dirs="yes",
        max_turns="yes",
        reports_denials="yes",
        login="yes",
        login_follows_gateway=True,
        efforts=("low", "medium", "high", "xhigh", "max"),
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"),
        mcp=("stdio", "http"),
        notes={
            "review": "Settings, memory files and MCP servers are left out: their rules and hooks could loosen it. A "
            "repository's own .git/config can name programs that git runs: add sandbox bwrap if you did not clone it.",
            "allowed_tools": "Read, Edit and Write reach outside of the working folder unless a pattern holds them.",
        },
    ),
    instructions="CLAUDE.md",
    skills=(".claude/skills",),
    trial_model="claude-haiku-4-5",
    markers=(
        "IS_SANDBOX",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
    ),
    default=True,
)
