"""OpenCode: `opencode run --format json` with a plugin of inspan's, read as it speaks since 1.18."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Transcript, Way
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event

from .dialect import FAILURES, OpenCodeDialect
from .launching import launch

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker

_WAYS = (
    Way(
        name="anthropic",
        wire="messages",
        provider="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_BASE_URL",),
    ),
    Way(
        name="openai",
        wire="responses",
        provider="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Way(
        name="google",
        wire="generate",
        provider="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"),
    ),
    Way(
        name="openrouter",
        wire="chat",
        provider="openrouter",
        base_url="https://openrouter.ai/api/v1",
        credentials=("OPENROUTER_API_KEY",),
    ),
)

_CAPABILITIES = Capabilities(
    reports_cost=True,
    streams_text=True,
    review="yes",
    review_needs_box=True,
    complete="yes",
    allowed_tools="yes",
    disallowed_tools="yes",
    system_prompt="yes",
    append_system_prompt="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    reports_denials="yes",
    login="yes",
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    attachments=("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"),
    mcp=("stdio", "http"),
    notes={
        "exec": "It adds $schema to settings files that have none, and installs its plugin library beside them.",
        "review": "Its own rules keep its tools from editing; a box keeps its shell from it. A project's settings "
        "and plugins are left out.",
        "allowed_tools": "Edit and Write are one permission. Behind a pattern such as Bash(git *) no command may "
        "redirect its output.",
        "efforts": "An effort that a model does not have is ignored.",
        "max_turns": "It counts no turns that it would stop at; with a gateway, inspan counts its model calls.",
        "reports_cost": "By the price list inside the program; a model that is not in it has no cost.",
    },
)


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _speaker() -> "Speaker":
    from .acp import SPEAKER  # Start-up time: few runs take this channel.

    return SPEAKER


_ACP = acp_channel(
    _speaker,
    _CAPABILITIES,
    cannot={"transcript": "By this channel the input of a command has its folder in it (1.18.33)."},
    differs={
        "tool_started.input": "A command's has its folder in it.",
        "turn_failed.message": "With two words before it.",
        "turn_failed.status": "Not told.",
    },
)

DRIVER = Driver(
    name="opencode",
    title="OpenCode",
    program="opencode",
    wire="messages",
    channels=(Channel(kind="stream", launch=launch, dialect=OpenCodeDialect), _ACP),
    install=Install(
        source="npm",
        package="opencode-{platform}",
        program="node_modules/opencode-{platform}/bin/opencode",
        version="1.18.33",
        dependencies=False,
    ),
    version_words=re.compile(r"^(\d+)\.(\d+)\.(\d+)$", re.MULTILINE),
    oldest=(1, 18, 3),
    config_variable="XDG_DATA_HOME",
    state_paths=("~/.local/share/opencode", "~/.config/opencode", "~/.local/state/opencode", "~/.cache/opencode"),
    login_paths=("~/.local/share/opencode/auth.json",),
    credentials=_WAYS[0].credentials,
    provider=_WAYS[0].provider,
    base_url=_WAYS[0].base_url,
    base_url_variables=_WAYS[0].base_url_variables,
    ways=_WAYS,
    variables=("OPENCODE_",),
    failures=FAILURES,
    session_ids=re.compile(r"ses_[0-9A-Za-z]+"),
    transcript=Transcript(read=_read, command=lambda session_id: ("export", session_id)),
    login_hint="run `opencode auth login`, or set ANTHROPIC_API_KEY",
    settings=tuple(
        (f"~/.config/opencode/{name}", "provider") for name in ("opencode.json", "opencode.jsonc", "config.json")
    ),
    models={
        "sonnet": "anthropic/claude-sonnet-5",
        "opus": "anthropic/claude-opus-5-5",
        "haiku": "anthropic/claude-haiku-4-5",
    },
    trial_model="anthropic/claude-opus-5-5",
    instructions="AGENTS.md",
    skills=(".opencode/skills", ".claude/skills", ".agents/skills"),
    shares_cache=True,
    markers=("OPENCODE", "OPENCODE_PID"),
    capabilities=_CAPABILITIES,
)
