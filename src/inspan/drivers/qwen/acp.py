"""Qwen Code in the Agent Client Protocol: `qwen --acp` (0.24.4)."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.command_line import remove_options
from inspan.dialects.acp.profile import AcpAgent, AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.task import Task

from .failures import FAILURES
from .launch import launch as usual_launch


def launch(task: Task, context: LaunchContext) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation."""
    plain = msgspec.structs.replace(context, resume="", session_id="", attachments=())
    usual = usual_launch(msgspec.structs.replace(task, fork=False), plain)
    argv = remove_options(
        usual.argv[1:], ("--output-format", "--max-session-turns"), flags=("--include-partial-messages",)
    )
    path = usual.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"]
    files = {**usual.files, path: _disable_suggestions(usual.files[path])}
    return Launch(argv=(context.program, "--acp", *argv), env=usual.env, files=files)


def _disable_suggestions(settings: bytes) -> bytes:
    """Its settings, in which it asks no model what its user might say next."""
    known = msgspec.json.decode(settings, type=dict[str, Any])
    return msgspec.json.encode({**known, "ui": {**known.get("ui", {}), "enableFollowupSuggestions": False}})


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    return default_setup(task, context, servers=False)


ACP_AGENT = AcpAgent(
    launch=launch,
    build_setup=build_setup,
    profile=AcpProfile(ignored_methods=frozenset({"craft/drainMidTurnQueue"}), failures=FAILURES),
)
