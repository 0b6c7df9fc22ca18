"""Pi: `pi --print --mode json`, read as it speaks since 0.87."""

import re
from collections.abc import Sequence

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import (
    Access,
    Capabilities,
    Channel,
    Driver,
    Install,
    Launch,
    LaunchContext,
    Login,
    ProgramSpec,
    Provider,
    Sessions,
    SessionSupport,
    StateFolder,
    Transcript,
    Trials,
)
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

from .dialect import PiDialect
from .frames import FAILURES
from .launch import EFFORTS, SKILLS, launch

# Providers whose wire the gateway speaks, as they stand in its catalog of 1.5.0.
_PROVIDERS = (
    Provider(
        name="anthropic",
        wire="messages",
        vendor="anthropic",
        base_url="https://api.anthropic.com",
        credentials=("ANTHROPIC_API_KEY",),
    ),
    Provider(
        name="openai",
        wire="responses",
        vendor="openai",
        base_url="https://api.openai.com/v1",
        credentials=("OPENAI_API_KEY",),
    ),
    Provider(
        name="google",
        wire="generate",
        vendor="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        credentials=("GEMINI_API_KEY",),
    ),
    Provider(
        name="openrouter",
        wire="chat",
        vendor="openrouter",
        base_url="https://openrouter.ai/api/v1",
        credentials=("OPENROUTER_API_KEY",),
    ),
    Provider(
        name="xai",
        wire="responses",
        vendor="x-ai",
        base_url="https://api.x.ai/v1",
        credentials=("XAI_API_KEY",),
    ),
    Provider(
        name="groq",
        wire="chat",
        vendor="groq",
        base_url="https://api.groq.com/openai/v1",
        credentials=("GROQ_API_KEY",),
    ),
    Provider(
        name="deepseek",
        wire="chat",
        vendor="deepseek",
        base_url="https://api.deepseek.com",
        credentials=("DEEPSEEK_API_KEY",),
    ),
    Provider(
        name="cerebras",
        wire="chat",
        vendor="cerebras",
        base_url="https://api.cerebras.ai/v1",
        credentials=("CEREBRAS_API_KEY",),
    ),
)
_DEFAULT_PROVIDER = _PROVIDERS[0]
_HOME = "~/.pi/agent"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _scrub_line(line: bytes) -> bytes:
    from .scrubber import scrub_line  # Start-up time: runs do not need it.

    return scrub_line(line)


def _launch_rpc(task: Task, context: LaunchContext) -> Launch:
    from .rpc import launch  # Start-up time: few runs are sessions.

    return launch(task, context)


def _build_rpc_dialect(task: Task, reported: SessionTotals) -> Dialect:
    from .rpc import PiRpcDialect  # Start-up time, as above.

    return PiRpcDialect(task, reported)


_RPC_SESSION = SessionSupport(
    messages=True,
    steer=True,
    interrupt=True,
    ask=True,
    ask_patterns=True,
    changed_input=True,
    questions=True,
    model=True,
    effort=True,
)
DRIVER = Driver(
    name="pi",
    title="Pi",
    program=ProgramSpec(
        command="pi",
        install=Install(
            source="npm",
            package="@earendil-works/pi-coding-agent",
            version="1.5.0",
            program="node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js",
            node=(22, 19),
            # Four of its packages are not to be had in this version; its bundle carries all that they hold.
            dependencies=False,
            extra_packages=("jiti@2.7.0", "quickjs-wasi@3.6.2", "@silvia-odwyer/photon-node@0.3.4"),
        ),
        version_pattern=re.compile(r"^(\d+)\.(\d+)\.(\d+)"),
        oldest=(0, 87, 0),
        tested=(0, 87, 1),
    ),
    provider=Provider(
        wire=_DEFAULT_PROVIDER.wire,
        credentials=_DEFAULT_PROVIDER.credentials,
        vendor=_DEFAULT_PROVIDER.vendor,
        base_url=_DEFAULT_PROVIDER.base_url,
    ),
    channels=(
        Channel(kind="stream", launch=launch, dialect=PiDialect),
        Channel(name="rpc", kind="rpc", launch=_launch_rpc, dialect=_build_rpc_dialect, session=_RPC_SESSION),
    ),
    state=StateFolder(
        config_variable="PI_CODING_AGENT_DIR",
        session_paths=("sessions",),
        state_paths=(_HOME,),
        login_paths=(f"{_HOME}/auth.json",),
        nesting_variables=(
            "AI_AGENT",
            "PI_CODING_AGENT",
            "PI_SESSION_ID",
            "PI_SESSION_FILE",
            "PI_PROVIDER",
            "PI_MODEL",
            "PI_REASONING_LEVEL",
        ),
    ),
    providers=_PROVIDERS,
    access=Access(
        variables=("PI_",),
        login=Login(note="type /login, then leave with /quit"),
        login_hint="`inspan login pi`, or set ANTHROPIC_API_KEY",
        needs_credential=True,
        other_settings=((f"{_HOME}/models.json", ""),),
        # Tokens that it takes before a key, and sends to the vendor by other rules.
        override_variables=("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
        override_settings=(
            (f"{_HOME}/settings.json", "defaultProvider"),
            (f"{_HOME}/settings.json", "httpProxy"),
            *((f"{_HOME}/models.json", f"providers.{way.name}.baseUrl") for way in _PROVIDERS),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        session_id_pattern=re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"),
        transcript_pattern="sessions/*/*_{session_id}.jsonl",
        transcript=Transcript(read=_read),
    ),
    instructions="AGENTS.md",
    trials=Trials(
        scrub_line=_scrub_line,
        trial_model="openai/gpt-5.2",
    ),
    skills=SKILLS,
    capabilities=Capabilities(
        presets_session_id=True,
        reports_cost=True,
        streams_text=True,
        streams_tool_output=True,
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
        efforts=EFFORTS,
        attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
        mcp=("stdio", "http"),
        notes={
            "exec": "At its start it renames a project's .pi/commands to .pi/prompts (1.5).",
            "review": "It has no permissions of its own: tools that edit are not offered, and inspan's sandbox keeps "
            "its shell from writing, except below TMPDIR and its own folder, in the profile user ~/.pi/agent.",
            "allowed_tools": "Patterns are kept by an extension of inspan's; a shell command that is allowed by a "
            "pattern must be a single plain one.",
            "complete": "Without tools, unless some are allowed.",
            "extra_dirs": "Its tools reach every folder that its user can.",
            "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
            "mcp": "Since 1.0. A server that does not start is reported, and the run continues without it.",
            "login": "With a login it runs without a gateway.",
            "follows_gateway": "Models that OpenRouter offers by the Messages wire need --model-from direct.",
        },
    ),
)
