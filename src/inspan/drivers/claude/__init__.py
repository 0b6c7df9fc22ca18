"""Claude Code: `claude -p`, driven by its stream of JSON."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import (
    UUID_PATTERN,
    Access,
    Capabilities,
    Channel,
    Driver,
    Install,
    Launch,
    LaunchContext,
    Login,
    ProgramSpec,
    Provider,
    PythonPackage,
    Sessions,
    SessionSupport,
    StateFolder,
    Transcript,
    Trials,
)
from inspan.dialects.acp.channel import build_acp_channel
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

from .dialect import FAILURES, ClaudeDialect
from .launch import OVERRIDE_VARIABLES, launch

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent


_ADAPTER = "@agentclientprotocol/claude-agent-acp"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _load_acp_agent() -> "AcpAgent":
    from .acp import ACP_AGENT  # Start-up time: few runs take this channel.

    return ACP_AGENT


def _build_acp_channel(capabilities: Capabilities) -> Channel:
    """Its adapter to the Agent Client Protocol, which carries a program of its own."""
    return build_acp_channel(
        _load_acp_agent,
        program="claude-agent-acp",
        install=Install(
            source="npm",
            package=_ADAPTER,
            version="0.99.0",
            program=f"node_modules/{_ADAPTER}/dist/index.js",
            node=(22,),
        ),
        version_pattern=re.compile(r"^(\d+)\.(\d+)\.(\d+)"),
        oldest=(0, 99, 0),
        capabilities=msgspec.structs.replace(
            capabilities,
            presets_session_id=False,
            root_needs_sandbox=False,
            output_schema="asked",
            attachments=tuple(kind for kind in capabilities.attachments if kind.startswith("image/")),
        ),
        unsupported_scenarios={
            "transcript": "The adapter does not report reasoning tokens, which the transcript has (0.99.0)."
        },
        event_differences={
            "turn_completed.usage": "Reasoning tokens are not reported; they are in the output.",
            "turn_failed.message": "Shorter.",
            "turn_failed.status": "Not reported.",
        },
    )


def _launch_rpc(task: Task, context: LaunchContext) -> Launch:
    from .rpc import launch  # Start-up time: few runs are sessions.

    return launch(task, context)


def _build_rpc_dialect(task: Task, reported: SessionTotals) -> Dialect:
    from .rpc import ClaudeRpcDialect  # Start-up time, as above.

    return ClaudeRpcDialect(task, reported)


def _launch_sdk(task: Task, context: LaunchContext) -> Launch:
    from .sdk import launch  # Start-up time, as above.

    return launch(task, context)


def _build_sdk_dialect(task: Task, reported: SessionTotals) -> Dialect:
    from .sdk import ClaudeSdkDialect  # Start-up time, as above.

    return ClaudeSdkDialect(task, reported)


_RPC_SESSION = SessionSupport(
    messages=True,
    steer=True,
    interrupt=True,
    ask=True,
    ask_patterns=True,
    changed_input=True,
    questions=True,
    model=True,
    mode=True,
    hooks=("before_tool", "after_tool"),
)
_CAPABILITIES = Capabilities(
    presets_session_id=True,
    reports_cost=True,
    streams_text=True,
    root_needs_sandbox=True,
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
        "streams_tool_output": "Its program tells it when the tool has ended.",
        "allowed_tools": "Read, Edit and Write reach outside of the working folder unless a pattern holds them.",
    },
)

DRIVER = Driver(
    name="claude",
    title="Claude Code",
    program=ProgramSpec(
        command="claude",
        install=Install(
            package="claude-agent-sdk",
            release="0.2.182",
            version="2.1.325",
            program="claude_agent_sdk/_bundled/claude",
            alternative=Install(
                source="npm",
                package="@anthropic-ai/claude-code-{platform}",
                program="node_modules/@anthropic-ai/claude-code-{platform}/claude",
                dependencies=False,
            ),
        ),
        version_pattern=re.compile(r"(\d+)\.(\d+)\.(\d+) \(Claude Code\)"),
        oldest=(2, 1, 212),
        required_flags=(
            "--output-format",
            "--input-format",
            "--permission-mode",
            "--tools",
            "--allowedTools",
            "--disallowedTools",
            "--setting-sources",
            "--settings",
            "--resume",
            "--fork-session",
            "--session-id",
            "--model",
            "--effort",
            "--json-schema",
            "--add-dir",
            "--include-partial-messages",
            "--mcp-config",
            "--strict-mcp-config",
        ),
    ),
    provider=Provider(
        wire="messages",
        credentials=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        base_url_variables=("ANTHROPIC_BASE_URL",),
    ),
    channels=(
        Channel(kind="stream", launch=launch, dialect=ClaudeDialect),
        Channel(name="rpc", kind="rpc", launch=_launch_rpc, dialect=_build_rpc_dialect, session=_RPC_SESSION),
        _build_acp_channel(_CAPABILITIES),
        Channel(
            name="sdk",
            kind="rpc",
            launch=_launch_sdk,
            dialect=_build_sdk_dialect,
            session=_RPC_SESSION,
            package=PythonPackage(
                name="claude-agent-sdk", version="0.2.182", module="claude_agent_sdk", extra="claude"
            ),
        ),
    ),
    state=StateFolder(
        config_variable="CLAUDE_CONFIG_DIR",
        session_paths=(
            "projects/*/*.jsonl",
            "projects/*/*/subagents",
            "projects/*/*/tool-results",
            "tasks",
            "todos",
            "plans",
            "file-history",
        ),
        state_paths=("~/.claude", "~/.claude.json"),
        login_paths=("~/.claude/.credentials.json",),
        nesting_variables=(
            "IS_SANDBOX",
            "CLAUDECODE",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_SSE_PORT",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_CHILD_SESSION",
        ),
    ),
    access=Access(
        variables=("ANTHROPIC_", "CLAUDE_", "CLAUDECODE"),
        login=Login(arguments=("auth", "login")),
        login_hint="`inspan login claude`, or set ANTHROPIC_API_KEY",
        direct_address="launch",
        login_url="https://api.anthropic.com",
        override_variables=OVERRIDE_VARIABLES,
        override_settings=(
            ("~/.claude/settings.json", "apiKeyHelper"),
            ("~/.claude/settings.json", "env.ANTHROPIC_API_KEY"),
            ("~/.claude/settings.json", "env.ANTHROPIC_AUTH_TOKEN"),
            ("~/.claude/settings.json", "env.ANTHROPIC_BASE_URL"),
            ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_BEDROCK"),
            ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_VERTEX"),
        ),
        settings_modes=("exec", "complete"),
        needs_credential=True,
        other_settings=(
            ("~/.claude.json", "primaryApiKey"),
            ("/etc/claude-code/managed-settings.json", ""),
            (".claude/settings.json", "apiKeyHelper"),
            (".claude/settings.local.json", "apiKeyHelper"),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        transcript_pattern="projects/*/{session_id}.jsonl",
        transcript=Transcript(read=_read),
        session_id_pattern=UUID_PATTERN,
    ),
    capabilities=_CAPABILITIES,
    instructions="CLAUDE.md",
    skills=(".claude/skills",),
    trials=Trials(
        trial_model="claude-haiku-4-5",
    ),
    default=True,
)
