"""Codex through its adapter to the Agent Client Protocol (2.6.0), which carries a program of its own."""

import re
from typing import Any

import msgspec

from inspan.contracts.driver import Capabilities, Channel, Install, Launch, Place
from inspan.dialects.acp import Habits, Opening, acp_channel, opening_of
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launching import TOKEN, takes_no_tools

_PACKAGE = "@agentclientprotocol/codex-acp"
# It tells what it thinks of its own settings as if the model had said it.
_HABITS = Habits(
    failures=FAILURES,
    quiet=frozenset({"_auth/status_update"}),
    notices=re.compile(r"Warning: "),
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


def acp(capabilities: Capabilities) -> Channel:
    """The channel, with what the agent can do by its usual one as far as it can do that here."""
    return acp_channel(
        launch,
        opening=opening,
        habits=_HABITS,
        program="codex-acp",
        install=Install(
            source="npm",
            package=_PACKAGE,
            version="2.6.0",
            program=f"node_modules/{_PACKAGE}/dist/index.js",
            node=(22,),
        ),
        version_words=re.compile(r"codex-acp (\d+)\.(\d+)\.(\d+)"),
        oldest=(2, 6, 0),
        capabilities=msgspec.structs.replace(
            capabilities,
            review_needs_box=True,
            streams_text=True,
            output_schema="asked",
            system_prompt="asked",
            grants=("mcp__",),
        ),
    )
