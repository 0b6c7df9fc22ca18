"""The first lines of a run: who works where, what it may do, who answers its model calls, and what will end it."""

import os
from collections.abc import Callable

from inspan.protocol.events import RunStarted
from inspan.protocol.ids import make_short_name

from .text import format_duration, one_line, shorten_home

_ACCESS = {
    "full": "full access, {net}",
    "allowed_tools": "allowed tools only, {net}",
    "sandbox": "writes only in its folder ({sandbox}), {net}",
    "private_sandbox": "writes only in its folder, sees it{seen} ({sandbox}), {net}",
    "read_only": "read only by the agent's own rules, {net}",
    "read_only_sandbox": "read only ({sandbox}), {net}",
    "private_read_only_sandbox": "read only, sees its folder{seen} ({sandbox}), {net}",
    "no_tools": "no tools",
    "remote": "no access to this machine",
}
_RESOURCES: dict[str, Callable[[float], str]] = {
    "memory_bytes": lambda value: f"memory {value / 1024**3:.3g} GiB",
    "cpus": lambda value: f"{value:g} cpus",
    "pids": lambda value: f"{value:g} processes",
}
_FLAGS = {
    "sandbox": "--sandbox",
    "net": "--net",
    "read": "--read",
    "memory_bytes": "--memory",
    "cpus": "--cpus",
    "pids": "--pids",
}
_REACH = {"live": "via gateway", "record": "via gateway, recorded", "direct": "direct"}


def describe_start(event: RunStarted) -> list[str]:
    """Two lines of facts; what an older log does not say is left out."""
    agent = f"{event.agent} {event.agent_version}".rstrip()
    who = (agent, event.model, one_line(_describe_place(event)), _describe_mode(event), _describe_access(event))
    run = (
        f"run {event.name or make_short_name(event.run_id)} ({event.run_id})",
        *_describe_budgets(event.budgets),
        *_describe_resources(event.resources),
        _describe_end(event),
    )
    lines = [" · ".join(filter(None, (*who, _describe_model_access(event)))), " · ".join(filter(None, run))]
    return [f"▶ {lines[0]}", f"  {lines[1]}"]


def _describe_place(event: RunStarted) -> str:
    if not event.worktree_of:
        return shorten_home(event.cwd)
    return f"worktree {event.branch or 'without a branch'} of {shorten_home(event.worktree_of)}"


def _describe_mode(event: RunStarted) -> str:
    return "" if event.mode == "exec" else event.mode


def _describe_access(event: RunStarted) -> str:
    usual = _ACCESS.get(event.access, "")
    words = _ACCESS.get(f"private_{event.access}" if event.private else event.access, usual).format(
        sandbox=event.sandbox, net=_describe_network(event), seen=_describe_read(event.read)
    )
    asks = f"asks first: {', '.join(event.ask)}" if event.ask else ""
    return ", ".join(filter(None, (words, asks, _describe_weakened(event.weakened)))) if words else words


def _describe_weakened(weakened: dict[str, str]) -> str:
    """That the run before in the session was confined more; the words before it say how this one is."""
    shown = {**weakened, "memory_bytes": f"{float(weakened.get('memory_bytes') or 0) / 1024**3:.3g}g"}
    named = [f"{flag} {shown[field]}".rstrip() for field, flag in _FLAGS.items() if field in weakened]
    return f"confined less than its session was ({', '.join(named)})" if named else ""


def _describe_read(paths: list[str]) -> str:
    if not paths:
        return " and the system alone"
    return f", the system and {', '.join(one_line(shorten_home(path)) for path in paths)}"


def _describe_network(event: RunStarted) -> str:
    kind, _, hosts = event.net.partition("=")
    if kind == "allow":
        named = hosts.replace(",", ", ")
        return f"reaches nothing but {named}" if event.model_from == "direct" else f"reaches its model and {named}"
    return {"gateway": "reaches nothing but its model", "none": "no network"}.get(kind, "network open")


def _describe_resources(resources: dict[str, float]) -> list[str]:
    return [_RESOURCES[name](value) for name, value in resources.items() if name in _RESOURCES]


def _describe_model_access(event: RunStarted) -> str:
    """By which key or login, and which way, the model is reached."""
    kind, _, file = event.model_from.partition(":")
    if kind == "script":
        return f"scripted model {os.path.basename(file)}".rstrip()
    if kind == "replay":
        return f"replayed model {os.path.basename(file)}"
    way = " to ".join(filter(None, (_REACH.get(kind, kind), event.base_url)))
    return " ".join(filter(None, (event.credential, way)))


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
