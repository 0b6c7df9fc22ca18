"""Claude Code: `claude -p`, driven by its stream of JSON."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import UUID, Capabilities, Channel, Driver, Install, Transcript
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event

from .dialect import FAILURES, ClaudeDialect
from .launching import SWITCHES, launch

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker


_ADAPTER = "@agentclientprotocol/claude-agent-acp"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _speaker() -> "Speaker":
    from .acp import SPEAKER  # Start-up time: few runs take this channel.

    return SPEAKER


def _acp(capabilities: Capabilities) -> Channel:
    """Its adapter to the Agent Client Protocol, which carries a program of its own."""
    return acp_channel(
        _speaker,
        program="claude-agent-acp",
        install=Install(
            source="npm",
            package=_ADAPTER,
            version="0.99.0",
            program=f"node_modules/{_ADAPTER}/dist/index.js",
            node=(22,),
        ),
        version_words=re.compile(r"^(\d+)\.(\d+)\.(\d+)"),
        oldest=(0, 99, 0),
        capabilities=msgspec.structs.replace(
            capabilities,
            presets_session_id=False,
            root_needs_box=False,
            output_schema="asked",
            attachments=tuple(kind for kind in capabilities.attachments if kind.startswith("image/")),
        ),
        cannot={"transcript": "The adapter does not tell reasoning tokens, which the transcript has (0.99.0)."},
        differs={
            "turn_completed.usage": "Reasoning tokens are not told; they are in the output.",
            "turn_failed.message": "In fewer words.",
            "turn_failed.status": "Not told.",
        },
    )


_CAPABILITIES = Capabilities(
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
)

DRIVER = Driver(
    name="claude",
    title="Claude Code",
    program="claude",
    wire="messages",
    channels=(Channel(kind="stream", launch=launch, dialect=ClaudeDialect), _acp(_CAPABILITIES)),
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
    accepts=(
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
    config_variable="CLAUDE_CONFIG_DIR",
    state_paths=("~/.claude", "~/.claude.json"),
    login_paths=("~/.claude/.credentials.json",),
    credentials=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    variables=("ANTHROPIC_", "CLAUDE_", "CLAUDECODE"),
    failures=FAILURES,
    transcripts="projects/*/{session_id}.jsonl",
    transcript=Transcript(read=_read),
    session_ids=UUID,
    login_hint="run `claude` once and /login, or set ANTHROPIC_API_KEY",
    provider="anthropic",
    base_url="https://api.anthropic.com",
    base_url_variables=("ANTHROPIC_BASE_URL",),
    login_url="https://api.anthropic.com",
    switches=SWITCHES,
    settings=(
        ("~/.claude/settings.json", "apiKeyHelper"),
        ("~/.claude/settings.json", "env.ANTHROPIC_API_KEY"),
        ("~/.claude/settings.json", "env.ANTHROPIC_AUTH_TOKEN"),
        ("~/.claude/settings.json", "env.ANTHROPIC_BASE_URL"),
        ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_BEDROCK"),
        ("~/.claude/settings.json", "env.CLAUDE_CODE_USE_VERTEX"),
    ),
    settings_in=("exec", "complete"),
    capabilities=_CAPABILITIES,
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
