"""Codex: `codex exec`, driven by its stream of JSON."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import UUID, Capabilities, Channel, Driver, Install, Transcript
from inspan.dialects.acp.channel import acp_channel
from inspan.protocol.events import Event

from .dialect import FAILURES, CodexDialect, told_in
from .launching import launch

if TYPE_CHECKING:
    from inspan.dialects.acp.speaker import Speaker

_ADAPTER = "@agentclientprotocol/codex-acp"


def _read(session: bytes) -> Sequence[Event]:
    from .transcript import read  # Start-up time: runs do not need it.

    return read(session)


def _speaker() -> "Speaker":
    from .acp import SPEAKER  # Start-up time: few runs take this channel.

    return SPEAKER


def _acp(capabilities: Capabilities) -> Channel:
    """Its adapter to the Agent Client Protocol, which carries a program of its own."""
    return acp_channel(
        _speaker,
        program="codex-acp",
        install=Install(
            source="npm",
            package=_ADAPTER,
            version="2.6.0",
            program=f"node_modules/{_ADAPTER}/dist/index.js",
            node=(22,),
        ),
        version_words=re.compile(r"codex-acp (\d+)\.(\d+)\.(\d+)"),
        oldest=(2, 6, 0),
        capabilities=msgspec.structs.replace(
            capabilities,
            streams_text=True,
            output_schema="asked",
            system_prompt="asked",
            grants=("mcp__",),
        ),
        cannot={
            "transcript": "The adapter tells a command as the model gave it, and of a patch no input; the transcript "
            "has the command with its shell, and the files of a patch (2.6.0).",
        },
        differs={
            "tool_started.input": "A command as the model gave it, with its folder; of a patch nothing.",
            "command_executed.command": "As the model gave it, without the shell around it.",
            "turn_failed.message": "In fewer words.",
        },
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
        "complete": "Without tools, unless some are allowed: then it reads by its shell, in a read-only sandbox.",
        "mcp": "A server that was asked for and does not start ends the run.",
        "max_turns": "It counts no turns; with a gateway, inspan counts its model calls.",
        "reports_denials": "Commands that its sandbox stops are told to the model only; other denials are listed.",
        "reports_usage": "Without a gateway the tokens of its subagents are not told.",
    },
)

DRIVER = Driver(
    name="codex",
    title="Codex",
    program="codex",
    wire="responses",
    channels=(Channel(kind="stream", launch=launch, dialect=CodexDialect), _acp(_CAPABILITIES)),
    install=Install(
        package="openai-codex-cli-bin",
        program="codex_cli_bin/bin/codex",
        version="0.163.0",
    ),
    version_words=re.compile(r"codex-cli (\d+)\.(\d+)\.(\d+)"),
    oldest=(0, 149, 0),
    accepts=(
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
    help_words=("exec", "--help"),
    config_variable="CODEX_HOME",
    state_paths=("~/.codex",),
    login_paths=("~/.codex/auth.json",),
    credentials=("CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"),
    # The program itself does not look at this one.
    key_aliases=("OPENAI_API_KEY",),
    variables=("CODEX_", "OPENAI_"),
    failures=FAILURES,
    transcripts="sessions/*/*/*/rollout-*-{session_id}.jsonl",
    told_in=told_in,
    transcript=Transcript(read=_read),
    # A name that is no id would silently begin a new thread (0.163).
    session_ids=UUID,
    login_hint="codex login, or set CODEX_API_KEY",
    provider="openai",
    base_url="https://api.openai.com/v1",
    base_url_variables=("OPENAI_BASE_URL",),
    login_url="https://chatgpt.com/backend-api/codex",
    settings=(
        ("~/.codex/config.toml", "model_provider"),
        ("~/.codex/config.toml", "openai_base_url"),
        ("~/.codex/config.toml", "profile"),
    ),
    bound_credentials=("CODEX_ACCESS_TOKEN",),
    capabilities=_CAPABILITIES,
    instructions="AGENTS.md",
    skills=(".agents/skills",),
    trial_model="gpt-5.5",
    litter=(".git", ".codex", ".agents", ".aws"),
    carries_bwrap="codex_cli_bin/codex-resources/bwrap",
    demonstrates=True,
)
