"""Claude Code through its adapter to the Agent Client Protocol (0.99.0), which carries a program of its own."""

import re
from typing import Any

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.tool_grants import is_unrestricted
from inspan.dialects.acp.profile import AcpAgent, AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launch import EDITORS, READERS, build_environment, build_memory_files, build_settings, sources_argv, tool_names

# The program speaks itself, in the model's place, when a call has failed.
_API_ERROR = re.compile(r"(Failed to authenticate\. )?API Error: \d{3} ")
_PROFILE = AcpProfile(
    failures=FAILURES,
    ignored_methods=frozenset({"_auth/status_update"}),
    implies_exit_zero=True,
    classify_notice=lambda update: "complaint" if _API_ERROR.match(str(update.get("content", {}).get("text"))) else "",
)


def launch(task: Task, context: LaunchContext) -> Launch:
    """It takes no options: what a run asks for is said when its session is opened."""
    return Launch(
        argv=(context.program, *task.options),
        env=build_environment(task, context),
        files=build_memory_files(task, context),
    )


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    """Its own words for what the protocol has none for go along with the new session."""
    given: dict[str, Any] = {"claudeCode": {"options": _build_options(task, context)}}
    if task.system_prompt:
        given["systemPrompt"] = "\n\n".join(filter(None, (task.system_prompt, task.append_system_prompt)))
    elif task.append_system_prompt:
        given["systemPrompt"] = {"append": task.append_system_prompt}
    return default_setup(task, context, modes=("default",), meta=given)


def _build_options(task: Task, context: LaunchContext) -> dict[str, Any]:
    options: dict[str, Any] = {
        "promptSuggestions": False,
        "extraArgs": {"name": "inspan"},  # Without a name it asks the model for one.
        "disallowedTools": list(task.disallowed_tools),
        "strictMcpConfig": bool(context.config) or not is_unrestricted(task),
        **_settings_sources(task, context),
        **_tool_options(task),
        **{name: value for name, value in {"model": task.model, "effort": task.effort}.items() if value},
    }
    if task.limits.max_turns is not None:
        options["maxTurns"] = task.limits.max_turns
    if context.endpoint or context.base_url:
        options["settings"] = build_settings(context)
    return options


def _settings_sources(task: Task, context: LaunchContext) -> dict[str, list[str]]:
    """Whose settings apply, as by its usual channel: what runs a project's server or hook is somebody else's rule."""
    words = sources_argv(task, context)
    return {"settingSources": [name for name in words[1:] if name]} if words else {}


def _tool_options(task: Task) -> dict[str, Any]:
    """Which tools are offered, and which of them may run without a question."""
    extra = task.allowed_tools or ()
    if is_unrestricted(task):
        return {}
    if task.mode == "review":
        denied = [*EDITORS, *task.disallowed_tools]
        return {"tools": [*READERS, *tool_names(extra)], "allowedTools": list(extra), "disallowedTools": denied}
    return {"tools": list(tool_names(extra)), "allowedTools": list(extra)}


ACP_AGENT = AcpAgent(launch=launch, build_setup=build_setup, profile=_PROFILE)
