"""Qwen Code: `qwen --output-format stream-json`, as it speaks since 0.21."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import UUID, Capabilities, Channel, Driver, Install, Transcript
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event
from inspan.protocol.usage import Told

from .dialect import QwenDialect
from .failures import FAILURES
from .launching import launch
from .providers import WAYS

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker

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
        "allowed_tools": "Write is given only together with Edit, and Grep and Glob bring Read with them.",
        "fork": "A fork gets its id from the program.",
        "mcp": "Headers of a server are taken in mode exec alone.",
        "reports_usage": "It does not tell cache writes and reasoning tokens: they are in its input and output.",
        "follows_gateway": "It sends a failed call up to six times more, and 0.24 has no setting against it: behind a "
        "gateway inspan ends the run at the first. An administrator's settings file gives way to the one of the run.",
    },
)


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _told_in(session: bytes) -> Told | None:
    from .transcript import told_in  # Start-up time: only runs that go on need it.

    return told_in(session)


def _speaker() -> "Speaker":
    from .acp import SPEAKER  # Start-up time: few runs take this channel.

    return SPEAKER


_ACP = acp_channel(
    _speaker,
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
    cannot={
        "fork": "`qwen --acp` offers no session/fork (0.24.4).",
        "transcript": "By this channel its editors tell what they changed, and not what they answered (0.24.4).",
    },
    differs={
        "tool_completed.output": "Not told for its editors.",
        "tool_failed.output": "A command's alone, without the table that the model is shown.",
        "turn_completed.usage": "Reasoning tokens are told apart here.",
        "turn_failed.message": "In other words.",
        "turn_failed.status": "Not told.",
    },
)

DRIVER = Driver(
    name="qwen",
    title="Qwen Code",
    program="qwen",
    wire=WAYS[0].wire,
    channels=(Channel(kind="stream", launch=launch, dialect=QwenDialect), _ACP),
    install=Install(
        source="npm",
        package="@qwen-code/qwen-code",
        version="0.24.4",
        # Not its `cli-entry.js`, which runs this one in a child and leaves it behind when it is told to go.
        program="node_modules/@qwen-code/qwen-code/cli.js",
        node=(22,),
    ),
    version_words=re.compile(r"\s*(\d+)\.(\d+)\.(\d+)"),
    oldest=(0, 21, 2),
    config_variable="QWEN_HOME",
    state_paths=("~/.qwen",),
    credentials=WAYS[0].credentials,
    ways=WAYS,
    variables=("QWEN_", "OPENAI_", "DASHSCOPE_", "ANTHROPIC_", "GEMINI_"),
    failures=FAILURES,
    login_hint="set OPENAI_API_KEY, with OPENAI_BASE_URL where another provider is meant, or DASHSCOPE_API_KEY",
    provider=WAYS[0].provider,
    base_url=WAYS[0].base_url,
    base_url_variables=WAYS[0].base_url_variables,
    settings=(
        ("~/.qwen/settings.json", "modelProviders"),
        ("~/.qwen/settings.json", "security.auth.baseUrl"),
        ("~/.qwen/settings.json", "env.OPENAI_BASE_URL"),
    ),
    session_ids=UUID,
    transcripts="projects/*/chats/{session_id}.jsonl",
    told_in=_told_in,
    transcript=Transcript(read=_read),
    instructions="AGENTS.md",
    skills=(".qwen/skills",),
    asks_again=True,
    trial_model="openai/qwen3-coder-plus",
    capabilities=_CAPABILITIES,
    markers=("QWEN_CODE", "QWEN_CODE_SESSION_ID", "QWEN_CODE_PROMPT_ID", "QWEN_CODE_AGENT_ID", "QWEN_CODE_CLI"),
)
