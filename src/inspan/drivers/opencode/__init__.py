"""OpenCode: `opencode run --format json` with a plugin of inspan's, read as it speaks since 1.18."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspan.contracts.driver import (
    Access,
    Capabilities,
    Channel,
    Driver,
    Install,
    Login,
    ProgramSpec,
    ProjectCode,
    Provider,
    Sessions,
    SessionSupport,
    StateFolder,
    Transcript,
    Trials,
)
from inspan.dialects.acp.channel import build_acp_channel
from inspan.protocol.events import Event

from .dialect import FAILURES, OpenCodeDialect
from .launch import launch

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_PROVIDERS = (
    Provider(
        name="anthropic",
        wire="messages",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_BASE_URL",),
    ),
    Provider(
        name="openai",
        wire="responses",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    Provider(
        name="google",
        wire="generate",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        credentials=("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"),
    ),
    Provider(
        name="openrouter",
        wire="chat",
        vendor="openrouter",
        base_url="https://openrouter.ai/api/v1",
        credentials=("OPENROUTER_API_KEY",),
    ),
)

# Its variable against a project's settings does not hold for plugins: a second reader of them heeds none (1.18.33).
_PLUGINS = (
    *(ProjectCode(path=f".opencode/{name}") for name in ("plugin", "plugins")),
    *(
        ProjectCode(path=f"{folder}opencode.{end}", word="plugin")
        for folder in ("", ".opencode/")
        for end in ("json", "jsonc")
    ),
)

_CAPABILITIES = Capabilities(
    reports_cost=True,
    streams_text=True,
    review="yes",
    review_needs_sandbox=True,
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
        "exec": "It adds $schema to settings files that have none, and installs its plugin library beside them. Its "
        "search needs rg: where there is none on PATH it fetches one from github.com, which a sandbox with --net "
        "gateway refuses.",
        "review": "Its own rules keep its tools from editing; a sandbox keeps its shell from it. A project's settings "
        "and plugins are left out.",
        "allowed_tools": "Edit and Write are one permission. Behind a pattern such as Bash(git *) no command may "
        "redirect its input or its output.",
        "efforts": "An effort that a model does not have is ignored.",
        "max_turns": "It counts no turns that it would stop at; with a gateway, inspan counts its model calls.",
        "reports_cost": "By the price list inside the program; a model that is not in it has no cost.",
    },
)


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _load_acp_agent() -> "AcpAgent":
    from .acp import ACP_AGENT  # Start-up time: few runs take this channel.

    return ACP_AGENT


_ACP = build_acp_channel(
    _load_acp_agent,
    _CAPABILITIES,
    project_code=_PLUGINS,
    unsupported_scenarios={"transcript": "By this channel the input of a command has its folder in it (1.18.33)."},
    event_differences={
        "tool_started.input": "A command's has its folder in it.",
        "turn_failed.message": "With two words before it.",
        "turn_failed.status": "Not reported.",
    },
    session=SessionSupport(messages=True, interrupt=True, ask=True, ask_patterns=True),
)

DRIVER = Driver(
    name="opencode",
    title="OpenCode",
    program=ProgramSpec(
        command="opencode",
        install=Install(
            source="npm",
            package="opencode-{platform}",
            program="node_modules/opencode-{platform}/bin/opencode",
            version="1.18.33",
            dependencies=False,
        ),
        version_pattern=re.compile(r"^(\d+)\.(\d+)\.(\d+)$", re.MULTILINE),
        oldest=(1, 18, 3),
        shares_cache=True,
    ),
    provider=Provider(
        wire="messages",
        credentials=_PROVIDERS[0].credentials,
        vendor=_PROVIDERS[0].vendor,
        base_url=_PROVIDERS[0].base_url,
        base_url_variables=_PROVIDERS[0].base_url_variables,
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=OpenCodeDialect, project_code=_PLUGINS), _ACP),
    state=StateFolder(
        config_variable="XDG_DATA_HOME",
        session_paths=(
            "opencode/opencode.db*",
            "opencode/storage",
        ),
        state_paths=("~/.local/share/opencode", "~/.config/opencode", "~/.local/state/opencode", "~/.cache/opencode"),
        login_paths=("~/.local/share/opencode/auth.json",),
        nesting_variables=("OPENCODE", "OPENCODE_PID"),
    ),
    access=Access(
        direct_address="launch",
        variables=("OPENCODE_",),
        login=Login(arguments=("auth", "login")),
        # Without a key and a login it has models of its vendor's that cost nothing (1.18): it is started.
        login_hint="`inspan login opencode`, or set ANTHROPIC_API_KEY",
        override_settings=tuple(
            (f"~/.config/opencode/{name}", "provider") for name in ("opencode.json", "opencode.jsonc", "config.json")
        ),
    ),
    providers=_PROVIDERS,
    failures=FAILURES,
    sessions=Sessions(
        session_id_pattern=re.compile(r"ses_[0-9A-Za-z]+"),
        transcript=Transcript(read=_read, command=lambda session_id: ("export", session_id)),
    ),
    models={
        "sonnet": "anthropic/claude-sonnet-5",
        "opus": "anthropic/claude-opus-5-5",
        "haiku": "anthropic/claude-haiku-4-5",
    },
    trials=Trials(
        trial_model="anthropic/claude-opus-5-5",
    ),
    instructions="AGENTS.md",
    skills=(".opencode/skills", ".claude/skills", ".agents/skills"),
    capabilities=_CAPABILITIES,
)
