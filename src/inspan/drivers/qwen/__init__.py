"""Qwen Code: `qwen --output-format stream-json`, as it speaks since 0.21."""

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
    Provider,
    Sessions,
    SessionSupport,
    StateFolder,
    Transcript,
    Trials,
)
from inspan.dialects.acp.channel import build_acp_channel
from inspan.protocol.events import Event
from inspan.protocol.usage import SessionTotals

from .dialect import QwenDialect
from .failures import FAILURES
from .launch import launch
from .providers import PROVIDERS

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_CAPABILITIES = Capabilities(
    presets_session_id=True,
    streams_text=True,
    review="yes",
    complete="yes",
    allowed_tools="yes",
    disallowed_tools="yes",
    system_prompt="yes",
    append_system_prompt="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    max_turns="yes",
    reports_denials="yes",
    efforts=("none", "low", "medium", "high", "xhigh", "max"),
    attachments=("image/png", "image/jpeg", "image/webp"),
    mcp=("stdio", "http"),
    notes={
        "review": "It runs the commands that it knows to be readers, and no others; settings, hooks and memory "
        "files are left out. A repository's own .git/config can name programs that git runs: add sandbox bwrap if "
        "you did not clone it. It brings an old .qwen/settings.json of a project up to date, in any mode.",
        "allowed_tools": "Write is given only together with Edit, and Grep and Glob bring Read with them. A "
        "command that is held to a pattern can be given variables, as in PATH=. git status, which leads past the "
        "pattern: use a server of tools, or sandbox bwrap.",
        "fork": "A fork gets its id from the program.",
        "mcp": "Headers of a server are taken in mode exec alone.",
        "reports_usage": "It does not report cache writes and reasoning tokens: they are in its input and output.",
        "follows_gateway": "It sends a failed call up to six times more, and 0.24 has no setting against it: behind a "
        "gateway inspan ends the run at the first. An administrator's settings file gives way to the one of the run.",
    },
)


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _read_totals(session: bytes) -> SessionTotals | None:
    from .transcript import read_totals  # Start-up time: only runs that go on need it.

    return read_totals(session)


def _load_acp_agent() -> "AcpAgent":
    from .acp import ACP_AGENT  # Start-up time: few runs take this channel.

    return ACP_AGENT


_ACP = build_acp_channel(
    _load_acp_agent,
    msgspec.structs.replace(
        _CAPABILITIES,
        presets_session_id=False,
        fork="no",
        max_turns="no",
        notes={
            **_CAPABILITIES.notes,
            "fork": "`qwen --acp` offers no session/fork (0.24.4).",
            "max_turns": "With a gateway, inspan counts its model calls.",
        },
    ),
    unsupported_scenarios={
        "fork": "`qwen --acp` offers no session/fork (0.24.4).",
        "transcript": "By this channel its editors report what they changed, and not what they answered (0.24.4).",
    },
    event_differences={
        "tool_completed.output": "Not reported for its editors.",
        "tool_failed.output": "A command's alone, without the table that the model is shown.",
        "turn_completed.usage": "Reasoning tokens are reported separately here.",
        "turn_failed.message": "Worded differently.",
        "turn_failed.status": "Not reported.",
    },
    session=SessionSupport(messages=True, interrupt=True, ask=True),
)

DRIVER = Driver(
    name="qwen",
    title="Qwen Code",
    program=ProgramSpec(
        command="qwen",
        install=Install(
            source="npm",
            package="@qwen-code/qwen-code",
            version="0.24.4",
            # Not its `cli-entry.js`, which runs this one in a child and leaves it behind when it is told to go.
            program="node_modules/@qwen-code/qwen-code/cli.js",
            node=(22,),
        ),
        version_pattern=re.compile(r"\s*(\d+)\.(\d+)\.(\d+)"),
        oldest=(0, 21, 2),
    ),
    provider=Provider(
        wire=PROVIDERS[0].wire,
        credentials=PROVIDERS[0].credentials,
        vendor=PROVIDERS[0].vendor,
        base_url=PROVIDERS[0].base_url,
        base_url_variables=PROVIDERS[0].base_url_variables,
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=QwenDialect), _ACP),
    state=StateFolder(
        config_variable="QWEN_HOME",
        session_paths=("projects/*/chats",),
        state_paths=("~/.qwen",),
        nesting_variables=(
            "QWEN_CODE",
            "QWEN_CODE_SESSION_ID",
            "QWEN_CODE_PROMPT_ID",
            "QWEN_CODE_AGENT_ID",
            "QWEN_CODE_CLI",
        ),
    ),
    providers=PROVIDERS,
    access=Access(
        variables=("QWEN_", "OPENAI_", "DASHSCOPE_", "ANTHROPIC_", "GEMINI_"),
        login=Login(note="choose a provider (/auth asks again), then leave with /quit"),
        login_hint="`inspan login qwen`, or set DASHSCOPE_API_KEY, or OPENAI_API_KEY with OPENAI_BASE_URL for another "
        "provider",
        direct_address="variable",
        override_settings=(
            ("~/.qwen/settings.json", "modelProviders"),
            ("~/.qwen/settings.json", "security.auth.baseUrl"),
            ("~/.qwen/settings.json", "env.OPENAI_BASE_URL"),
        ),
        needs_credential=True,
        # It takes variables from the nearest of these files.
        other_settings=(
            ("~/.qwen/settings.json", "security.auth.selectedType"),
            ("~/.qwen/oauth_creds.json", ""),
            *((path, "") for path in (".qwen/.env", ".env", "~/.qwen/.env", "~/.env")),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        session_id_pattern=UUID_PATTERN,
        transcript_pattern="projects/*/chats/{session_id}.jsonl",
        read_totals=_read_totals,
        transcript=Transcript(read=_read),
    ),
    instructions="AGENTS.md",
    skills=(".qwen/skills",),
    always_retries=True,
    trials=Trials(
        trial_model="openai/qwen3-coder-plus",
    ),
    capabilities=_CAPABILITIES,
)
