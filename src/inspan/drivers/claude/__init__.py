"""Claude Code: `claude -p`, driven by its stream of JSON."""

import re
from collections.abc import Sequence

from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Transcript
from inspan.protocol.events import Event

from .acp import acp
from .dialect import FAILURES, ClaudeDialect
from .launching import SWITCHES, launch

_SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


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
    channels=(Channel(kind="stream", launch=launch, dialect=ClaudeDialect), acp(_CAPABILITIES)),
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
    transcripts="projects/*/{session_id}.jsonl",
    transcript=Transcript(read=_read),
    session_ids=_SESSION_ID,
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
