"""Pi: `pi --print --mode json`, read as it speaks since 0.87."""

import re
from collections.abc import Sequence

from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Transcript, Way
from inspan.protocol.events import Event

from .dialect import PiDialect
from .frames import FAILURES
from .launching import SKILLS, launch

# Providers whose wire the gateway speaks, as they stand in its catalog of 1.5.0.
_WAYS = (
    Way(
        name="anthropic",
        wire="messages",
        provider="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
    ),
    Way(
        name="openai",
        wire="responses",
        provider="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
    ),
    Way(
        name="google",
        wire="generate",
        provider="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        credentials=("GEMINI_API_KEY",),
    ),
    Way(
        name="openrouter",
        wire="chat",
        provider="openrouter",
        base_url="https://openrouter.ai/api/v1",
        credentials=("OPENROUTER_API_KEY",),
    ),
    Way(
        name="xai",
        wire="responses",
        provider="x-ai",
        base_url="https://api.x.ai/v1",
        credentials=("XAI_API_KEY",),
    ),
    Way(
        name="groq",
        wire="chat",
        provider="groq",
        base_url="https://api.groq.com/openai/v1",
        credentials=("GROQ_API_KEY",),
    ),
    Way(
        name="deepseek",
        wire="chat",
        provider="deepseek",
        base_url="https://api.deepseek.com",
        credentials=("DEEPSEEK_API_KEY",),
    ),
    Way(
        name="cerebras",
        wire="chat",
        provider="cerebras",
        base_url="https://api.cerebras.ai/v1",
        credentials=("CEREBRAS_API_KEY",),
    ),
)
_FIRST = _WAYS[0]
_HOME = "~/.pi/agent"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _recordable(line: bytes) -> bytes:
    from .recordable import recordable  # Start-up time: runs do not need it.

    return recordable(line)


DRIVER = Driver(
    name="pi",
    title="Pi",
    program="pi",
    wire=_FIRST.wire,
    channels=(Channel(kind="stream", launch=launch, dialect=PiDialect),),
    install=Install(
        source="npm",
        package="@earendil-works/pi-coding-agent",
        version="1.5.0",
        program="node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js",
        node=(22, 19),
        # Four of its packages are not to be had in this version; its bundle carries all that they hold.
        dependencies=False,
        companions=("jiti@2.7.0", "quickjs-wasi@3.6.2", "@silvia-odwyer/photon-node@0.3.4"),
    ),
    version_words=re.compile(r"^(\d+)\.(\d+)\.(\d+)"),
    oldest=(0, 87, 0),
    tested=(0, 87, 1),
    config_variable="PI_CODING_AGENT_DIR",
    state_paths=(_HOME,),
    login_paths=(f"{_HOME}/auth.json",),
    ways=_WAYS,
    credentials=_FIRST.credentials,
    provider=_FIRST.provider,
    base_url=_FIRST.base_url,
    variables=("PI_",),
    failures=FAILURES,
    login_hint="run `pi` once and /login, or set ANTHROPIC_API_KEY",
    # Tokens that it takes before a key, and sends to the vendor by other rules.
    switches=("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    settings=(
        (f"{_HOME}/settings.json", "defaultProvider"),
        (f"{_HOME}/settings.json", "httpProxy"),
        *((f"{_HOME}/models.json", f"providers.{way.name}.baseUrl") for way in _WAYS),
    ),
    session_ids=re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
    transcripts="sessions/*/*_{session_id}.jsonl",
    transcript=Transcript(read=_read),
    instructions="AGENTS.md",
    recordable=_recordable,
    skills=SKILLS,
    trial_model="openai/gpt-5.2",
    capabilities=Capabilities(
        presets_session_id=True,
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
        efforts=("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        mcp=("stdio", "http"),
        notes={
            "exec": "At its start it renames a project's .pi/commands to .pi/prompts (1.5).",
            "review": "It has no permissions of its own: tools that edit are not offered, and inspan's box keeps its "
            "shell from writing, except below TMPDIR and its own folder, in the profile user ~/.pi/agent.",
            "allowed_tools": "Patterns are kept by an extension of inspan's; a shell command that is allowed by a "
            "pattern must be a single plain one.",
            "complete": "Without tools, unless some are allowed.",
            "extra_dirs": "Its tools reach every folder that its user can.",
            "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
            "mcp": "Since 1.0. A server that does not start is reported, and the run goes on without it.",
            "login": "With a login it runs without a gateway.",
            "follows_gateway": "Models that OpenRouter offers by the Messages wire need --model-from direct.",
        },
    ),
    markers=(
        "AI_AGENT",
        "PI_CODING_AGENT",
        "PI_SESSION_ID",
        "PI_SESSION_FILE",
        "PI_PROVIDER",
        "PI_MODEL",
        "PI_REASONING_LEVEL",
    ),
)
