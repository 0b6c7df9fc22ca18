"""GitHub Copilot CLI: `copilot --output-format json`, read as it speaks in 1.0.102."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import (
    UUID_PATTERN,
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

from .dialect import CopilotDialect
from .failures import FAILURES
from .launch import launch

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_ADDRESSES = ("COPILOT_PROVIDER_BASE_URL",)
_KEYS = ("COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN")

_UNSUPPORTED_SCENARIOS = {
    "fork": "1.0.102 has no option to fork: --resume and --session-id continue the session itself, and "
    "`copilot sessions import` refuses its own transcripts (missing_session_header).",
}
_CAPABILITIES = Capabilities(
    presets_session_id=True,
    streams_text=True,
    review="yes",
    review_needs_sandbox=True,
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
        "review": "Its own rules stop its editors and redirections into files, inspan's sandbox every other write. In "
        "a folder that you trust, hooks and servers of the project run, inside that sandbox.",
        "exec": "In the profile user it writes its own ~/.copilot/config.json anew, also one that it cannot read.",
        "system_prompt": "It cannot be replaced: what is asked for stands before the prompt.",
        "fork": "It has no option to continue in a copy of a session.",
        "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
        "reports_usage": "By its telemetry, which goes to inspan in place of where you may have sent it.",
        "mcp": "A server that does not start is reported, and the run continues without it.",
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
    msgspec.structs.replace(_CAPABILITIES, presets_session_id=False),
    unsupported_scenarios=_UNSUPPORTED_SCENARIOS,
    # By this channel it asks nobody about them, and heeds no setting against hooks (1.0.102). A completion works
    # elsewhere.
    project_code=tuple(
        ProjectCode(path=f".github/{name}", in_complete=False)
        for name in ("hooks", "copilot/settings.json", "copilot/settings.local.json")
    ),
    event_differences={
        "turn_failed": "Not reported: it is ended as it tries a failed call again, and the gateway knows why."
    },
    session=SessionSupport(messages=True, interrupt=True, ask=True),
)

DRIVER = Driver(
    name="copilot",
    title="GitHub Copilot",
    program=ProgramSpec(
        command="copilot",
        install=Install(
            source="npm",
            package="@github/copilot-{platform}",
            version="1.0.102",
            program="node_modules/@github/copilot-{platform}/copilot",
            dependencies=False,
        ),
        version_pattern=re.compile(r"GitHub Copilot CLI (\d+)\.(\d+)\.(\d+)"),
        oldest=(1, 0, 80),
        # Else it answers with a newer version that lies in its cache.
        probe_env={"COPILOT_AUTO_UPDATE": "false"},
        shares_cache=True,
        unpack_variable="COPILOT_CACHE_HOME",
    ),
    provider=Provider(
        wire="messages",
        credentials=_KEYS,
        vendor="anthropic",
        base_url="https://api.anthropic.com",
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=CopilotDialect), _ACP),
    state=StateFolder(
        config_variable="COPILOT_HOME",
        session_paths=(
            "session-state/*/events.jsonl",
            "session-state/*/workspace.yaml",
            "session-state/*/checkpoints",
            "session-state/*/plan.md",
        ),
        state_paths=("~/.copilot",),
        login_paths=("~/.copilot/config.json",),
    ),
    providers=(
        Provider(
            name="anthropic",
            wire="messages",
            vendor="anthropic",
            base_url="https://api.anthropic.com",
            credentials=_KEYS,
            base_url_variables=_ADDRESSES,
        ),
        Provider(
            name="openai",
            wire="responses",
            vendor="openai",
            base_url="https://api.openai.com/v1",
            credentials=_KEYS,
            base_url_variables=_ADDRESSES,
        ),
        Provider(
            name="compatible",
            wire="chat",
            vendor="",
            base_url="",
            credentials=_KEYS,
            base_url_variables=_ADDRESSES,
        ),
    ),
    access=Access(
        bound_credentials=("COPILOT_GITHUB_TOKEN",),
        # Each of them is a provider of the user's own, or a key for one.
        override_variables=(
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
        login=Login(arguments=("login",)),
        login_hint="`inspan login copilot`, or set COPILOT_PROVIDER_API_KEY",
        needs_credential=True,
        # Its token may lie in the keyring; else it asks the program gh.
        other_variables=("GH_TOKEN", "GITHUB_TOKEN"),
        other_settings=(
            ("~/.copilot/config.json", "loggedInUsers"),
            ("~/.copilot/config.json", "logged_in_users"),
            ("~/.config/gh/hosts.yml", ""),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        transcript_pattern="session-state/{session_id}/events.jsonl",
        transcript=Transcript(read=_read),
        # A name or the beginning of an id would find another session.
        session_id_pattern=UUID_PATTERN,
    ),
    models={
        "sonnet": "anthropic/claude-sonnet-5",
        "opus": "anthropic/claude-opus-5",
        "haiku": "anthropic/claude-haiku-4-5",
    },
    trials=Trials(
        trial_model="openai/gpt-5.4",
        unsupported_scenarios=_UNSUPPORTED_SCENARIOS,
    ),
    instructions="AGENTS.md",
    skills=(".github/skills",),
    capabilities=_CAPABILITIES,
)
