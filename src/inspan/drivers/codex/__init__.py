"""Codex: `codex exec`, driven by its stream of JSON."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import (
    UUID_PATTERN,
    Access,
    Capabilities,
    Channel,
    Driver,
    Install,
    Launch,
    LaunchContext,
    Login,
    ProgramSpec,
    ProjectCode,
    Provider,
    PythonPackage,
    Sessions,
    SessionSupport,
    StateFolder,
    Transcript,
    Trials,
)
from inspan.dialects.acp.channel import build_acp_channel
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

from .dialect import FAILURES, CodexDialect, read_totals
from .launch import KEY_VARIABLE, launch

if TYPE_CHECKING:
    from inspan.dialects.acp.profile import AcpAgent

_ADAPTER = "@agentclientprotocol/codex-acp"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _load_acp_agent() -> "AcpAgent":
    from .acp import ACP_AGENT  # Start-up time: few runs take this channel.

    return ACP_AGENT


def _build_acp_channel(capabilities: Capabilities) -> Channel:
    """Its adapter to the Agent Client Protocol, which carries a program of its own."""
    return build_acp_channel(
        _load_acp_agent,
        program="codex-acp",
        install=Install(
            source="npm",
            package=_ADAPTER,
            version="2.6.0",
            program=f"node_modules/{_ADAPTER}/dist/index.js",
            node=(22,),
        ),
        version_pattern=re.compile(r"codex-acp (\d+)\.(\d+)\.(\d+)"),
        oldest=(2, 6, 0),
        # The adapter calls every project trusted, whatever the settings say (2.6.0).
        project_code=tuple(ProjectCode(path=f".codex/{name}", above=False) for name in ("config.toml", "hooks.json")),
        capabilities=msgspec.structs.replace(
            capabilities,
            streams_text=True,
            streams_tool_output=True,
            output_schema="asked",
            system_prompt="asked",
            grants=("mcp__",),
        ),
        unsupported_scenarios={
            "transcript": "The adapter reports a command as the model gave it, and no input of a patch; the transcript "
            "has the command with its shell, and the files of a patch (2.6.0).",
        },
        event_differences={
            "tool_started.input": "A command as the model gave it, with its folder; of a patch nothing.",
            "command_executed.command": "As the model gave it, without the shell around it.",
            "turn_failed.message": "Shorter.",
        },
    )


def _launch_rpc(task: Task, context: LaunchContext) -> Launch:
    from .app_server_launch import launch  # Start-up time: few runs are sessions.

    return launch(task, context)


def _build_rpc_dialect(task: Task, reported: SessionTotals) -> Dialect:
    from .app_server import CodexRpcDialect  # Start-up time, as above.

    return CodexRpcDialect(task, reported)


def _build_rpc_channel(capabilities: Capabilities) -> Channel:
    """Its server for other programs, which is spoken with as it works."""
    return Channel(
        name="rpc",
        kind="rpc",
        launch=_launch_rpc,
        dialect=_build_rpc_dialect,
        oldest=(0, 163, 0),
        capabilities=msgspec.structs.replace(capabilities, streams_text=True, streams_tool_output=True),
        session=SessionSupport(
            messages=True,
            steer=True,
            interrupt=True,
            ask=True,
            ask_patterns=True,
            questions=True,
            model=True,
            effort=True,
            unasked="what it types into a command that runs already (its tool `write_stdin`, 0.163)",
        ),
        event_differences={
            "plan_changed": "It tells which step is being worked on, and does not repeat the plan at the end.",
            "turn_failed.status": "Reported where the provider gave one.",
        },
    )


def _launch_sdk(task: Task, context: LaunchContext) -> Launch:
    from .sdk import launch  # Start-up time, as above.

    return launch(task, context)


def _build_sdk_channel(rpc: Channel) -> Channel:
    """The same server, started and spoken with by the vendor's SDK."""
    return msgspec.structs.replace(
        rpc,
        name="sdk",
        launch=_launch_sdk,
        package=PythonPackage(name="openai-codex", version="0.163.0", module="openai_codex", extra="codex"),
    )


_CAPABILITIES = Capabilities(
    review="yes",
    complete="yes",
    output_schema="yes",
    system_prompt="yes",
    append_system_prompt="yes",
    resume="yes",
    fork="yes",
    extra_dirs="yes",
    login="yes",
    login_follows_gateway=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    attachments=("image/png", "image/jpeg", "image/gif", "image/webp"),
    mcp=("stdio", "http"),
    grants=("Read", "Grep", "Glob", "mcp__"),
    notes={
        "review": "Servers of tools in your own settings are started; those that you have approved can be called.",
        "allowed_tools": "It has no list of tools: use mode review, which its sandbox holds to reading.",
        "complete": "Without tools, unless some are allowed: then it reads by its shell, in a read-only sandbox. Its "
        "newest models are still offered a JavaScript of their own, which has no function that reaches the machine.",
        "mcp": "A server that was asked for and does not start ends the run. A secret in the query of its url stands "
        "on the command line: give it in a header.",
        "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
        "reports_denials": "Commands that its sandbox stops are reported to the model only; other denials are listed.",
        "streams_tool_output": "`codex exec` tells it when the tool has ended, and of an edit only which file: with "
        "`--channel rpc`, and in a conversation, it tells the output as it comes and the patch.",
        "reports_usage": "Without a gateway the tokens of its subagents are not reported.",
    },
)

DRIVER = Driver(
    name="codex",
    title="Codex",
    program=ProgramSpec(
        command="codex",
        install=Install(
            package="openai-codex-cli-bin",
            program="codex_cli_bin/bin/codex",
            version="0.163.0",
        ),
        version_pattern=re.compile(r"codex-cli (\d+)\.(\d+)\.(\d+)"),
        oldest=(0, 149, 0),
        required_flags=(
            "--json",
            "--image",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--sandbox",
            "--ignore-rules",
            "--config",
            "--model",
            "--output-schema",
            "--add-dir",
            "--disable",
            "resume",
        ),
        help_args=("exec", "--help"),
        bundled_bwrap="codex_cli_bin/codex-resources/bwrap",
    ),
    provider=Provider(
        wire="responses",
        credentials=(KEY_VARIABLE, "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"),
        # The program itself does not look at this one.
        key_aliases=("OPENAI_API_KEY",),
        vendor="openai",
        base_url="https://api.openai.com/v1",
        base_url_variables=("OPENAI_BASE_URL",),
    ),
    channels=(
        Channel(kind="stream", launch=launch, dialect=CodexDialect),
        _build_rpc_channel(_CAPABILITIES),
        _build_acp_channel(_CAPABILITIES),
        _build_sdk_channel(_build_rpc_channel(_CAPABILITIES)),
    ),
    state=StateFolder(
        config_variable="CODEX_HOME",
        session_paths=(
            "sessions",
            "archived_sessions",
        ),
        state_paths=("~/.codex",),
        login_paths=("~/.codex/auth.json",),
        leftover_dirs=(".git", ".codex", ".agents", ".aws"),
    ),
    access=Access(
        variables=("CODEX_", "OPENAI_"),
        login=Login(arguments=("login",)),
        login_hint="`inspan login codex`, or set CODEX_API_KEY",
        direct_address="launch",
        ignored_variables=("OPENAI_BASE_URL",),
        login_url="https://chatgpt.com/backend-api/codex",
        override_settings=(
            ("~/.codex/config.toml", "model_provider"),
            ("~/.codex/config.toml", "openai_base_url"),
            ("~/.codex/config.toml", "profile"),
        ),
        bound_credentials=("CODEX_ACCESS_TOKEN",),
        needs_credential=True,
        # A login in the keyring, and variables that it reads itself.
        other_settings=(
            ("~/.codex/config.toml", "cli_auth_credentials_store"),
            ("~/.codex/.env", ""),
            ("/etc/codex/config.toml", ""),
        ),
    ),
    failures=FAILURES,
    sessions=Sessions(
        transcript_pattern="sessions/*/*/*/rollout-*-{session_id}.jsonl",
        read_totals=read_totals,
        transcript=Transcript(read=_read),
        # A name that is no id would silently begin a new thread (0.163).
        session_id_pattern=UUID_PATTERN,
    ),
    capabilities=_CAPABILITIES,
    instructions="AGENTS.md",
    skills=(".agents/skills",),
    trials=Trials(
        trial_model="gpt-5.5",
        demo_agent=True,
    ),
)
