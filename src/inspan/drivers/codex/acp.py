"""Codex through its adapter to the Agent Client Protocol (2.6.0), which carries a program of its own."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launching import TOKEN, takes_no_tools

# By the names that they have in its usual channel.
_NAMES = {"exec_command": "shell", "edit": "apply_patch"}
_HABITS = Habits(
    failures=FAILURES,
    quiet=frozenset({"_auth/status_update"}),
    # Warnings, and the reason why a turn has failed: it then ends that turn as if nothing had happened.
    own_words=lambda update: "" if update.get("messageId") else "complaint",
    tool_name=lambda update: _NAMES.get(str(update.get("name") or update.get("kind")), ""),
)


def launch(task: Task, place: Place) -> Launch:
    """Its settings go in by a variable, as JSON; the program below it gets the run's token in another."""
    env = {"CODEX_CONFIG": msgspec.json.encode(_config(task, place)).decode(), "NO_BROWSER": "1"}
    # The adapter asks about nothing then. In a review the box of the run holds it, in which its own would not start.
    env["INITIAL_AGENT_MODE"] = "agent-full-access"
    if place.endpoint:
        env["MODEL_PROVIDER"] = "inspan"
        if place.endpoint.variable:
            env[TOKEN] = place.endpoint.token
    if takes_no_tools(task):
        env["CODEX_EXEC_SERVER_URL"] = "none"
    return Launch(argv=(place.program, *task.options), env=env)


def opening(task: Task, place: Place) -> Opening:
    return opening_of(task, place, modes=("agent-full-access",))


def _config(task: Task, place: Place) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model": task.model,
        "model_reasoning_effort": task.effort,
        "developer_instructions": task.append_system_prompt,
    }
    config = {name: value for name, value in config.items() if value}
    if place.endpoint:
        config["model_provider"] = "inspan"
        config["model_providers"] = {"inspan": _provider(place)}
    if place.config:
        config |= {"analytics": {"enabled": False}, "check_for_update_on_startup": False}
        config["skills"] = {"include_instructions": False}
    if takes_no_tools(task):
        config |= {"features": {"goals": False, "sleep_tool": False}, "agents": {"enabled": False}}
        config |= {"web_search": "disabled", "tools": {"experimental_request_user_input": {"enabled": False}}}
    return config


def _provider(place: Place) -> dict[str, Any]:
    if place.endpoint is None:
        return {}
    way_in = {"env_key": TOKEN} if place.endpoint.variable else {"requires_openai_auth": True}
    retries = {"request_max_retries": 0, "stream_max_retries": 0, "stream_idle_timeout_ms": 3600000}
    return {"name": "inspan", "base_url": place.endpoint.url, "wire_api": "responses", **way_in, **retries}


SPEAKER = Speaker(launch=launch, opening=opening, habits=_HABITS)
