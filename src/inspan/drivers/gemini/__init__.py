"""Gemini CLI: `gemini --output-format stream-json`, read as it speaks since 0.52."""

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

from .dialect import FAILURES, GeminiDialect
from .launch import EFFORTS, launch

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_CAPABILITIES = Capabilities(
    presets_session_id=True,
    streams_text=True,
    review_needs_sandbox=True,
    review="yes",
    complete="yes",
    allowed_tools="yes",
    disallowed_tools="yes",
    system_prompt="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    reports_denials="yes",
    login="yes",
    efforts=EFFORTS,
    attachments=("image/png", "image/jpeg", "image/webp", "application/pdf"),
    mcp=("stdio", "http"),
    notes={
        "exec": "Without a person to ask, it never edits build files such as package.json by its own tools (0.61).",
        "review": "Its rules take its editors away; a sandbox keeps its shell from writing. A project's own settings "
        "and hooks are not read.",
        "allowed_tools": "Commands can be held to a pattern, as in Bash(git *); other tools only as a whole.",
        "max_turns": "With a gateway, inspan counts its model calls.",
        "efforts": "In the profile clean alone: it takes them from its settings file.",
        "mcp": "In the profile clean alone: it takes them from its settings file. One that does not start is not "
        "named where there are several.",
        "login": "It cannot be pointed at a gateway. In the profile user, a run behind one needs a key chosen in "
        "your settings (security.auth.selectedType).",
        "attachments": "A word behind @ in the prompt names a file of the working folder, which it attaches too.",
        "fork": "The copy gets an id of the program's own.",
    },
)
_NO_LOAD = (
    "On session/load it begins the session's record anew before it looks for the session, and then finds none (0.61)."
)


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _load_acp_agent() -> "AcpAgent":
    from .acp import ACP_AGENT  # Start-up time: few runs take this channel.

    return ACP_AGENT


_ACP = build_acp_channel(
    _load_acp_agent,
    msgspec.structs.replace(
        _CAPABILITIES,
        presets_session_id=False,
        resume="no",
        fork="no",
        notes={**_CAPABILITIES.notes, "resume": _NO_LOAD, "fork": "`gemini --acp` offers no session/fork (0.61)."},
    ),
    unsupported_scenarios={
        "resume": _NO_LOAD,
        "fork": "`gemini --acp` offers no session/fork (0.61).",
        "long_output": "A result of 5 MB ends its turn as one that was cut (max_tokens), and the model is not asked "
        "again (0.61).",
        "transcript": "By this channel it does not report what its tools were given, but for commands (0.61).",
    },
    event_differences={
        "tool_started.input": "Of a command without its description; of other tools nothing.",
        "tool_completed.output": "A new file is reported as one that was overwritten.",
        "turn_failed.message": "Without the words around it.",
    },
    session=SessionSupport(
        messages=True,
        interrupt=True,
        ask=True,
        ask_patterns=True,
        unasked="commands that it takes to read only, such as `ls` (0.61); `--deny-tool` holds for them",
    ),
)

DRIVER = Driver(
    name="gemini",
    title="Gemini CLI",
    program=ProgramSpec(
        command="gemini",
        install=Install(
            source="npm",
            package="@google/gemini-cli",
            version="0.61.0",
            program="node_modules/@google/gemini-cli/bundle/gemini.js",
            node=(20, 0),
        ),
        version_pattern=re.compile(r"^(\d+)\.(\d+)\.(\d+)", re.MULTILINE),
        oldest=(0, 52, 0),
        tested=(0, 52, 0),
        # It starts itself anew, which takes as long again.
        probe_env={"GEMINI_CLI_NO_RELAUNCH": "true"},
    ),
    provider=Provider(
        wire="generate",
        credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        # The program itself takes this one for another product's.
        key_aliases=("GOOGLE_API_KEY",),
        vendor="google",
        base_url="https://generativelanguage.googleapis.com",
        base_url_variables=("GOOGLE_GEMINI_BASE_URL",),
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=GeminiDialect), _ACP),
    state=StateFolder(
        config_variable="GEMINI_CLI_HOME",
        session_paths=(
            ".gemini/tmp/*/.project_root",
            ".gemini/tmp/*/chats",
        ),
        state_subdir=".gemini",
        state_paths=("~/.gemini",),
        login_paths=("~/.gemini/oauth_creds.json",),
        nesting_variables=(
            "GEMINI_CLI",
            "GEMINI_SESSION_ID",
            "GEMINI_PROJECT_DIR",
            "GEMINI_CWD",
            "GEMINI_PLANS_DIR",
        ),
    ),
    access=Access(
        variables=(
            "GEMINI_",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_",
            "GOOGLE_GENAI_",
            "GOOGLE_VERTEX_BASE_URL",
            "CODE_ASSIST_",
        ),
        login=Login(note="choose how to sign in, then leave with /quit"),
        login_hint="`inspan login gemini`, or set GEMINI_API_KEY",
        direct_address="variable",
        override_variables=("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC"),
        needs_credential=True,
        # It takes variables from the nearest of these files, and may keep a key or a login in the keyring.
        other_variables=("CLOUD_SHELL",),
        other_settings=(
            ("~/.gemini/settings.json", "security.auth.selectedType"),
            ("~/.gemini/settings.json", "selectedAuthType"),
            *((path, "") for path in (".gemini/.env", ".env", "~/.gemini/.env", "~/.env")),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        session_id_pattern=UUID_PATTERN,
        transcript_pattern="tmp/*/chats/session-*-{session_id:.8}.jsonl",
        transcript=Transcript(read=_read),
    ),
    trials=Trials(
        trial_model="gemini-2.5-pro",
    ),
    instructions="GEMINI.md",
    skills=(".gemini/skills", ".agents/skills"),
    capabilities=_CAPABILITIES,
)
