"""Goose: `goose run --output-format stream-json`, as it is in 1.52."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import Capabilities, Channel, Driver, Install, Transcript
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event

from .dialect import GooseDialect, recordable
from .failures import FAILURES
from .going_on import exported
from .launching import launch
from .providers import WAYS

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker

_MODELS = {"sonnet": "claude-sonnet-5", "opus": "claude-opus-5", "haiku": "claude-haiku-4-5"}
_RETRIES = "It sends a failed call three times more, at once; 1.52 has no setting against it."

_CAPABILITIES = Capabilities(
    presets_session_id=True,
    reports_cost=True,
    streams_text=True,
    review="yes",
    review_needs_box=True,
    complete="yes",
    system_prompt="yes",
    append_system_prompt="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    max_turns="yes",
    reports_denials="yes",
    efforts=("none", "low", "medium", "high", "xhigh", "max"),
    mcp=("stdio", "http"),
    notes={
        "review": "Only inspan's box keeps it from writing: its own modes either ask a person or run no tool. Its "
        "own extensions and servers of tools are left out of a new session; an old one has those that it had.",
        "complete": "Of a new session's answer no tools are a part; those of an old one are offered and not run.",
        "allowed_tools": "It has no list of tools: use mode review, or complete.",
        "resume": "A session has the tools with which it began; a server with a url cannot be added later.",
        "extra_dirs": "It is bound to no folder, and is not told of these.",
        "mcp": "A server that does not start is left out, and said so. They are for mode exec alone.",
        "reports_usage": "It does not tell reasoning tokens, and on OpenAI's Responses no cache writes.",
        "follows_gateway": _RETRIES,
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
    msgspec.structs.replace(
        _CAPABILITIES,
        presets_session_id=False,
        reports_usage=False,
        system_prompt="asked",
        append_system_prompt="asked",
        fork="no",
        max_turns="no",
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        notes={**_CAPABILITIES.notes, "max_turns": "With a gateway, inspan counts its model calls."},
    ),
    cannot={
        "fork": "`goose acp` offers no session/fork (1.52.0).",
        "system_prompt": "`goose acp` has no option for it, and does not look at the template that its variable names "
        "(1.52.0).",
        "transcript": "By this channel it tells the tokens of the last call alone, and of its editors what they "
        "changed and not what they answered (1.52.0).",
    },
    differs={
        "tool_completed.output": "Not told for its editors.",
        "tool_failed.output": "A command's, without the line that repeats its exit code.",
        "turn_completed.usage": "Not told: what it tells is of the last call alone.",
        "turn_failed.message": "In fewer words.",
        "turn_failed.status": "Not told.",
    },
)

DRIVER = Driver(
    name="goose",
    title="Goose",
    program="goose",
    wire=WAYS[0].wire,
    channels=(Channel(kind="stream", launch=launch, dialect=GooseDialect), _ACP),
    install=Install(
        source="npm",
        package="@aaif/goose-binary-{platform}",
        version="1.52.0",
        program="node_modules/@aaif/goose-binary-{platform}/bin/goose",
    ),
    version_words=re.compile(r"\s*(\d+)\.(\d+)\.(\d+)"),
    oldest=(1, 50, 0),
    accepts=(
        "--quiet",
        "--output-format",
        "--instructions",
        "--name",
        "--session-id",
        "--resume",
        "--provider",
        "--model",
        "--no-profile",
        "--with-builtin",
        "--with-extension",
        "--system",
        "--max-turns",
    ),
    help_words=("run", "--help"),
    config_variable="GOOSE_PATH_ROOT",
    state_paths=("~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"),
    credentials=WAYS[0].credentials,
    ways=WAYS,
    variables=("GOOSE_",),
    failures=FAILURES,
    login_hint="goose configure, or set ANTHROPIC_API_KEY",
    provider=WAYS[0].provider,
    base_url=WAYS[0].base_url,
    base_url_variables=WAYS[0].base_url_variables,
    # A provider of the user's own by the name of a known one is asked in its place, wherever a variable points.
    settings=tuple((f"~/.config/goose/custom_providers/{way.name}.json", "base_url") for way in WAYS),
    refusal_status=403,
    transcript=Transcript(read=_read, command=exported),
    recordable=recordable,
    models={**_MODELS, **{f"anthropic/{alias}": f"anthropic/{model}" for alias, model in _MODELS.items()}},
    trial_model="claude-opus-5",
    instructions="AGENTS.md",
    skills=(".goose/skills", ".agents/skills"),
    capabilities=_CAPABILITIES,
    markers=("GOOSE_TERMINAL", "AGENT_SESSION_ID"),
)
