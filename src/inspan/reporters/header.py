"""The first lines of a run: who works where, what it may do, who answers its model calls, and what will end it."""

import os

from inspan.protocol.events import RunStarted
from inspan.protocol.ids import make_short_name

from .text import format_duration, shorten_home

_ACCESS = {
    "full": "full access, network open",
    "allowed_tools": "allowed tools only, network open",
    "sandbox": "writes only in its folder ({sandbox}), network open",
    "read_only": "read only by the agent's own rules, network open",
    "read_only_sandbox": "read only ({sandbox}), network open",
    "no_tools": "no tools",
    "remote": "no access to this machine",
}
_REACH = {"live": "via gateway", "record": "via gateway, recorded", "direct": "direct"}


def describe_start(event: RunStarted) -> list[str]:
    """Two lines of facts; what an older log does not say is left out."""
    agent = f"{event.agent} {event.agent_version}".rstrip()
    who = (agent, event.model, shorten_home(event.cwd), _describe_mode(event), _describe_access(event))
    run = (
        f"run {event.name or make_short_name(event.run_id)} ({event.run_id})",
        *_describe_budgets(event.budgets),
        _describe_end(event),
    )
    lines = [" · ".join(filter(None, (*who, _describe_model_access(event)))), " · ".join(filter(None, run))]
    return [f"▶ {lines[0]}", f"  {lines[1]}"]


def _describe_mode(event: RunStarted) -> str:
    return "" if event.mode == "exec" else event.mode


def _describe_access(event: RunStarted) -> str:
    words = _ACCESS.get(event.access, "").format(sandbox=event.sandbox)
    return f"{words}, asks first: {', '.join(event.ask)}" if words and event.ask else words


def _describe_model_access(event: RunStarted) -> str:
    """By which key or login, and which way, the model is reached."""
    kind, _, file = event.model_from.partition(":")
    if kind == "script":
        return f"scripted model {os.path.basename(file)}".rstrip()
    if kind == "replay":
        return f"replayed model {os.path.basename(file)}"
    return " ".join(filter(None, (event.credential, _REACH.get(kind, kind))))


def _describe_budgets(budgets: dict[str, str]) -> list[str]:
    return [f"budget {limit}" if node == "run" else f"{node}'s budget {limit}" for node, limit in budgets.items()]


def _describe_end(event: RunStarted) -> str:
    if event.timeout_s is None:
        return ""
    what = "each message ends" if event.session else "ends"
    return f"{what} after {_format_limit(event.timeout_s)} (--timeout)"


def _format_limit(seconds: float) -> str:
    text = format_duration(seconds)
    return text.replace(".0s", "s").replace("m00s", "m").replace("h00m", "h")
