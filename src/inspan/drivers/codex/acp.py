"""Codex through its adapter to the Agent Client Protocol (2.6.0), which carries a program of its own."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.profile import AcpAgent, AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launch import TOKEN_VARIABLE, build_provider, takes_no_tools

# The variable is about sessions. What its server does on its own, before there is one, is in its settings alone: it
# asks its vendor and GitHub for plugins (2.6.0).
_SETTINGS = b"""check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
"""
# By the names that they have in its usual channel.
_NAMES = {"exec_command": "shell", "edit": "apply_patch"}
_PROFILE = AcpProfile(
    failures=FAILURES,
    ignored_methods=frozenset({"_auth/status_update"}),
    # Warnings, and the reason why a turn has failed: it then ends that turn as if nothing had happened.
    classify_notice=lambda update: "" if update.get("messageId") else "complaint",
    find_tool_name=lambda update: _NAMES.get(str(update.get("name") or update.get("kind")), ""),
)


def launch(task: Task, context: LaunchContext) -> Launch:
    """Its settings go in by a variable, as JSON, and by a file; the program below it gets the run's token in another
    variable."""
    env = {"CODEX_CONFIG": msgspec.json.encode(_build_config(task, context)).decode(), "NO_BROWSER": "1"}
    # The adapter asks about nothing then. In a review the run's sandbox holds it, in which its own would not start.
    env["INITIAL_AGENT_MODE"] = "agent-full-access"
    if build_provider(context):
        env["MODEL_PROVIDER"] = "inspan"
    if context.endpoint and context.endpoint.variable:
        env[TOKEN_VARIABLE] = context.endpoint.token
    if takes_no_tools(task):
        env["CODEX_EXEC_SERVER_URL"] = "none"
    files = {f"{context.config}/config.toml": _SETTINGS} if context.config else {}
    return Launch(argv=(context.program, *task.options), env=env, files=files)


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    return default_setup(task, context, modes=("agent-full-access",))


def _build_config(task: Task, context: LaunchContext) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model": task.model,
        "model_reasoning_effort": task.effort,
        "developer_instructions": task.append_system_prompt,
    }
    config = {name: value for name, value in config.items() if value}
    if known := build_provider(context):
        config["model_provider"] = "inspan"
        config["model_providers"] = {"inspan": known}
    if context.config:
        config["skills"] = {"include_instructions": False}
    if takes_no_tools(task):
        config |= {"features": {"goals": False, "sleep_tool": False}, "agents": {"enabled": False}}
        config |= {"web_search": "disabled", "tools": {"experimental_request_user_input": {"enabled": False}}}
    return config


ACP_AGENT = AcpAgent(launch=launch, build_setup=build_setup, profile=_PROFILE)
