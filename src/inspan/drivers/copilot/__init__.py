"""GitHub Copilot CLI: `copilot --output-format json`, read as it speaks in 1.0.102."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import UUID, Capabilities, Channel, Driver, Install, Transcript, Way
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event

from .dialect import CopilotDialect
from .failures import FAILURES
from .launching import launch

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker

_KEYS = ("COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN")

_CANNOT = {
    "fork": "1.0.102 has no option to fork: --resume and --session-id go on in the session itself, and "
    "`copilot sessions import` refuses its own transcripts (missing_session_header).",
}
_CAPABILITIES = Capabilities(
    presets_session_id=True,
    streams_text=True,
    review="yes",
    review_needs_box=True,
    complete="yes",
    allowed_tools="yes",
    disallowed_tools="yes",
    append_system_prompt="yes",
    resume="yes",
    extra_dirs="yes",
    reports_denials="yes",
    login="yes",
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
    mcp=("stdio", "http"),
    notes={
        "follows_gateway": "With a key of Anthropic, OpenAI or a server like theirs; GitHub is not asked then. An "
        "answer of the Responses API that is none at all is asked for five more times; all else is asked for once.",
        "login": "With the GitHub login or COPILOT_GITHUB_TOKEN it calls GitHub's models without a gateway; "
        "that way cannot be tried offline and is in no test.",
        "review": "Its own rules stop its editors and redirections into files, inspan's box every other write. In a "
        "folder that you trust, hooks and servers of the project run, inside that box.",
        "exec": "In the profile user it writes its own ~/.copilot/config.json anew, also one that it cannot read.",
        "system_prompt": "It cannot be replaced: what is asked for stands before the prompt.",
        "fork": "It has no option to go on in a copy of a session.",
        "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
        "reports_usage": "By its telemetry, which goes to inspan in place of where you may have sent it.",
        "mcp": "A server that does not start is told, and the run goes on without it.",
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
    msgspec.structs.replace(_CAPABILITIES, presets_session_id=False),
    cannot=_CANNOT,
    differs={"turn_failed": "Not told: it is ended as it tries a failed call again, and the gateway knows why."},
)

DRIVER = Driver(
    name="copilot",
    title="GitHub Copilot",
    program="copilot",
    wire="messages",
    channels=(Channel(kind="stream", launch=launch, dialect=CopilotDialect), _ACP),
    install=Install(
        source="npm",
        package="@github/copilot-{platform}",
        version="1.0.102",
        program="node_modules/@github/copilot-{platform}/copilot",
        dependencies=False,
    ),
    version_words=re.compile(r"GitHub Copilot CLI (\d+)\.(\d+)\.(\d+)"),
    oldest=(1, 0, 80),
    config_variable="COPILOT_HOME",
    # Else it answers with a newer version that lies in its cache.
    asked_with={"COPILOT_AUTO_UPDATE": "false"},
    state_paths=("~/.copilot",),
    login_paths=("~/.copilot/config.json",),
    shares_cache=True,
    ways=(
        Way(
            name="anthropic",
            wire="messages",
            provider="anthropic",
            base_url="https://api.anthropic.com",
            credentials=_KEYS,
        ),
        Way(
            name="openai",
            wire="responses",
            provider="openai",
            base_url="https://api.openai.com/v1",
            credentials=_KEYS,
        ),
        Way(name="compatible", wire="chat", provider="", base_url="", credentials=_KEYS),
    ),
    credentials=_KEYS,
    bound_credentials=("COPILOT_GITHUB_TOKEN",),
    provider="anthropic",
    base_url="https://api.anthropic.com",
    # Each of them is a provider of the user's own, or a key for one.
    switches=(
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_API_KEY_COMMAND",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_HEADERS",
        "COPILOT_PROVIDER_TRANSPORT",
        "COPILOT_PROVIDER_AZURE_API_VERSION",
        "COPILOT_PROVIDER_MODEL_ID",
        "COPILOT_PROVIDER_WIRE_MODEL",
        "COPILOT_PROVIDERS_CONFIG",
    ),
    variables=("COPILOT_",),
    failures=FAILURES,
    transcripts="session-state/{session_id}/events.jsonl",
    transcript=Transcript(read=_read),
    # A name or the beginning of an id would find another session.
    session_ids=UUID,
    login_hint="copilot login, or set COPILOT_PROVIDER_API_KEY",
    models={
        "sonnet": "anthropic/claude-sonnet-5",
        "opus": "anthropic/claude-opus-5",
        "haiku": "anthropic/claude-haiku-4-5",
    },
    trial_model="openai/gpt-5.4",
    instructions="AGENTS.md",
    skills=(".github/skills",),
    capabilities=_CAPABILITIES,
    cannot=_CANNOT,
)
