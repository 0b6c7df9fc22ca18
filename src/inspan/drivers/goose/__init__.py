"""Goose: `goose run --output-format stream-json`, as it is in 1.52."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

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

from .dialect import GooseDialect, scrub_line
from .failures import FAILURES
from .launch import launch
from .providers import PROVIDERS
from .resume import export_argv

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_MODELS = {"sonnet": "claude-sonnet-5", "opus": "claude-opus-5", "haiku": "claude-haiku-4-5"}
_RETRIES = "It sends a failed call three times more, at once; 1.52 has no setting against it."

# Their hooks and servers run, and nothing switches off those of a folder (1.52). A completion works elsewhere.
_PLUGINS = (ProjectCode(path=".agents/plugins", above=False, in_complete=False),)

_CAPABILITIES = Capabilities(
    presets_session_id=True,
    reports_cost=True,
    streams_text=True,
    review="yes",
    review_needs_sandbox=True,
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
        "review": "Only inspan's sandbox keeps it from writing: its own modes either ask a person or run no tool. Its "
        "own extensions and MCP servers are left out of a new session; an old one has those that it had.",
        "complete": "Of a new session's answer no tools are a part; those of an old one, and of any by the channel "
        "acp, are offered and not run.",
        "allowed_tools": "It has no list of tools: use mode review, or complete.",
        "resume": "A session has the tools with which it began; a server with a url cannot be added later.",
        "extra_dirs": "It is bound to no folder, and is not told of these.",
        "mcp": "A server that does not start is left out, and said so. They are for mode exec alone.",
        "reports_usage": "It does not report reasoning tokens, and on OpenAI's Responses no cache writes.",
        "follows_gateway": _RETRIES,
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
    project_code=_PLUGINS,
    capabilities=msgspec.structs.replace(
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
    unsupported_scenarios={
        "fork": "`goose acp` offers no session/fork (1.52.0).",
        "system_prompt": "`goose acp` has no option for it, and does not look at the template that its variable names "
        "(1.52.0).",
        "transcript": "By this channel it reports the tokens of the last call alone, and of its editors what they "
        "changed and not what they answered (1.52.0).",
    },
    event_differences={
        "tool_completed.output": "Not reported for its editors.",
        "tool_failed.output": "A command's, without the line that repeats its exit code.",
        "turn_completed.usage": "Not reported: what it reports is of the last call alone.",
        "turn_failed.message": "Shorter.",
        "turn_failed.status": "Not reported.",
    },
    session=SessionSupport(messages=True, interrupt=True, ask=True),
)

DRIVER = Driver(
    name="goose",
    title="Goose",
    program=ProgramSpec(
        command="goose",
        install=Install(
            source="npm",
            package="@aaif/goose-binary-{platform}",
            version="1.52.0",
            program="node_modules/@aaif/goose-binary-{platform}/bin/goose",
        ),
        version_pattern=re.compile(r"\s*(\d+)\.(\d+)\.(\d+)"),
        oldest=(1, 50, 0),
        required_flags=(
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
        help_args=("run", "--help"),
    ),
    provider=Provider(
        wire=PROVIDERS[0].wire,
        credentials=PROVIDERS[0].credentials,
        vendor=PROVIDERS[0].vendor,
        base_url=PROVIDERS[0].base_url,
        base_url_variables=PROVIDERS[0].base_url_variables,
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=GooseDialect, project_code=_PLUGINS), _ACP),
    state=StateFolder(
        config_variable="GOOSE_PATH_ROOT",
        session_paths=("data/sessions",),
        state_paths=("~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"),
        nesting_variables=("GOOSE_TERMINAL", "AGENT_SESSION_ID"),
    ),
    providers=PROVIDERS,
    access=Access(
        variables=("GOOSE_",),
        login=Login(arguments=("configure",)),
        login_hint="`inspan login goose`, or set ANTHROPIC_API_KEY",
        direct_address="variable",
        # A provider of the user's own by the name of a known one is asked in its place, wherever a variable points.
        override_settings=tuple((f"~/.config/goose/custom_providers/{way.name}.json", "base_url") for way in PROVIDERS),
        needs_credential=True,
        # What it was set up with: its keys lie in the keyring.
        other_variables=("GOOSE_PROVIDER",),
        other_settings=(("~/.config/goose/config.yaml", ""), ("~/.config/goose/secrets.yaml", "")),
    ),
    failures=FAILURES,
    refusal_status=403,
    sessions=Sessions(
        transcript=Transcript(read=_read, command=export_argv),
    ),
    trials=Trials(
        scrub_line=scrub_line,
        trial_model="claude-opus-5",
    ),
    models={**_MODELS, **{f"anthropic/{alias}": f"anthropic/{model}" for alias, model in _MODELS.items()}},
    instructions="AGENTS.md",
    skills=(".goose/skills", ".agents/skills"),
    capabilities=_CAPABILITIES,
)
