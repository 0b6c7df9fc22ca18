"""Claude Code through its adapter to the Agent Client Protocol (0.99.0), which carries a program of its own."""

import re
from typing import Any

from inspan.contracts.driver import Launch, Place
from inspan.contracts.granting import is_free
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launching import EDITORS, READERS, SWITCHES, environment, tool_names

# The program speaks itself, in the model's place, when a call has failed.
_FAILED = re.compile(r"(Failed to authenticate\. )?API Error: \d{3} ")
_HABITS = Habits(
    failures=FAILURES,
    quiet=frozenset({"_auth/status_update"}),
    zero_if_done=True,
    own_words=lambda update: "complaint" if _FAILED.match(str(update.get("content", {}).get("text"))) else "",
)


def launch(task: Task, place: Place) -> Launch:
    """It takes no options: what a run asks for is said when its session is opened."""
    return Launch(argv=(place.program, *task.options), env=environment(task, place))


def opening(task: Task, place: Place) -> Opening:
    """Its own words for what the protocol has none for go along with the new session."""
    given: dict[str, Any] = {"claudeCode": {"options": _options(task, place)}}
    if task.system_prompt:
        given["systemPrompt"] = "\n\n".join(filter(None, (task.system_prompt, task.append_system_prompt)))
    elif task.append_system_prompt:
        given["systemPrompt"] = {"append": task.append_system_prompt}
    return opening_of(task, place, modes=("default",), meta=given)


def _options(task: Task, place: Place) -> dict[str, Any]:
    options: dict[str, Any] = {
        "promptSuggestions": False,
        "extraArgs": {"name": "inspan"},  # Without a name it asks the model for one.
        "disallowedTools": list(task.disallowed_tools),
        "strictMcpConfig": bool(place.config) or not is_free(task),
        # What runs the servers of a project or a hook is a rule of somebody else's.
        **({} if is_free(task) else {"settingSources": _sources(task, place)}),
        **_tools(task),
        **{name: value for name, value in {"model": task.model, "effort": task.effort}.items() if value},
    }
    if task.limits.max_turns is not None:
        options["maxTurns"] = task.limits.max_turns
    if place.endpoint:
        env = {"ANTHROPIC_BASE_URL": place.endpoint.url, **dict.fromkeys(SWITCHES, "")}
        options["settings"] = {"env": env, "apiKeyHelper": ""}
    return options


def _sources(task: Task, place: Place) -> list[str]:
    return ["user"] if task.mode == "complete" and not place.config else []


def _tools(task: Task) -> dict[str, Any]:
    """Which tools are offered, and which of them may run without a question."""
    extra = task.allowed_tools or ()
    if is_free(task):
        return {}
    if task.mode == "review":
        denied = [*EDITORS, *task.disallowed_tools]
        return {"tools": [*READERS, *tool_names(extra)], "allowedTools": list(extra), "disallowedTools": denied}
    return {"tools": list(tool_names(extra)), "allowedTools": list(extra)}


SPEAKER = Speaker(launch=launch, opening=opening, habits=_HABITS)
