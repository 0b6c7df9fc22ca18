"""What works on this machine and what does not, each finding with its next step. Shows no secret."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from inspan.config import places
from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Box
from inspan.errors import BadConfig, BadInput, InspanError
from inspan.protocol.task import Task
from inspan.sandboxes import containment
from inspan.sandboxes.programs import bwrap, find
from inspan.stores.paths import cache_home, private_folder, runtime_home, state_home

from . import disk, registry
from .access import access
from .configured import Configured, configured
from .install import install
from .narrowing import by_channel, by_way, way_of
from .node import node_program
from .program import Program, dotted, locate
from .roster import Entry, named, roster
from .support import check_needs
from .tested import doubt, tested, unknown_options

State = Literal["ok", "warning", "problem"]
_REACHING_S = 5.0
_NO_CONTAINMENT = "a reaper process stands in for a pid namespace"
_HELPERS = {
    "git": "what a run has changed, and the demo's diff",
    "bwrap": "containment and sandbox",
    "tmux": "agents in a terminal",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    subject: str
    state: State
    detail: str
    next_step: str = ""
    remedy: str = ""


def examine(env: Mapping[str, str] = os.environ, *, agents: Sequence[str] = ()) -> list[Finding]:
    """Looks at Python, folders, disk, configuration, helper programs, containment, the sandbox, the gateway and agents.

    Of these names, or every one that there is; raises `UnknownAgent`. A finding with a `remedy` can be put right by
    `put_right`.
    """
    looked_at = [_entered(name, env) for name in dict.fromkeys(agents)] or roster(_here(), env)
    state = _folder("state", state_home(env))
    return [
        Finding(subject="python", state="ok", detail=f"{sys.version.split()[0]} at {sys.executable}"),
        state,
        *([_disk(state_home(env))] if state.state == "ok" else []),
        _folder("sockets", runtime_home(env)),
        _config(env),
        *(_helper(name, use) for name, use in _HELPERS.items()),
        _node(env),
        _containment(env),
        _sandbox(env),
        _gateway(),
        *(_entry(entry, env) for entry in looked_at if not (entry.driver and entry.driver.family)),
    ]


def put_right(finding: Finding) -> Finding:
    """Does what a finding's remedy names, and tells what came of it."""
    try:
        found = install(named(finding.remedy.removeprefix("install "), cwd=_here()))
    except InspanError as error:
        return Finding(subject=finding.subject, state="problem", detail=error.message, next_step=error.next_step)
    return Finding(subject=finding.subject, state="ok", detail=f"installed {found.version} at {found.path}")


def blocked(findings: list[Finding]) -> bool:
    """Whether something other than an agent stands in the way of every run."""
    return any(each.state == "problem" for each in findings if not each.subject.startswith("agent "))


def has_agent(findings: list[Finding], *, agents: Sequence[str] = ()) -> bool:
    """Whether at least one agent of a vendor can be started; where some were named, whether all of those can."""
    if agents:
        wanted = {f"agent {name}" for name in agents}
        return all(each.state != "problem" for each in findings if each.subject in wanted)
    others = {f"agent {driver.name}" for driver in registry.drivers() if driver.built_in or driver.hosted}
    found = [each for each in findings if each.subject.startswith("agent ") and each.subject not in others]
    return any(each.state != "problem" for each in found)


def _folder(name: str, path: str) -> Finding:
    try:
        private_folder(path)
    except InspanError as error:
        return Finding(subject=f"folder {name}", state="problem", detail=error.message, next_step=error.next_step)
    return Finding(subject=f"folder {name}", state="ok", detail=path)


def _disk(path: str) -> Finding:
    found = disk.look(path)
    detail = f"{found.free_bytes / 1e9:.1f} GB free on {found.kind}"
    step = "Make room, or point XDG_STATE_HOME at a folder on a local disk."
    if found.problem:
        return Finding(subject="disk", state="problem", detail=f"{found.problem} ({detail})", next_step=step)
    if found.doubt:
        return Finding(subject="disk", state="warning", detail=f"{found.doubt} ({detail})", next_step=step)
    return Finding(subject="disk", state="ok", detail=detail)


def _helper(name: str, use: str) -> Finding:
    path = find(name)
    if path:
        return Finding(subject=name, state="ok", detail=path)
    return Finding(subject=name, state="warning", detail=f"not found ({use})", next_step=f"Install {name}.")


def _node(env: Mapping[str, str]) -> Finding:
    """Agents that are written for Node get inspan's own when they are installed; the user's is for the user's own."""
    if os.access(node_program(), os.X_OK):
        return Finding(subject="node", state="ok", detail=f"inspan's own at {node_program()}")
    users = find("node", path=env.get("PATH", ""))
    detail = f"not installed by inspan yet; yours is {users}" if users else "not installed by inspan yet"
    return Finding(subject="node", state="ok", detail=detail, next_step="It comes with the first agent that needs it.")


def _gateway() -> Finding:
    """Whether a listener on loopback can be reached, as an agent reaches its gateway."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), timeout=_REACHING_S).close()
    except OSError as error:
        step = "Allow connections to 127.0.0.1; runs with --direct work without them."
        return Finding(subject="gateway", state="problem", detail=f"127.0.0.1: {error.strerror}", next_step=step)
    return Finding(subject="gateway", state="ok", detail="a listener on 127.0.0.1 can be reached")


def _containment(env: Mapping[str, str]) -> Finding:
    try:
        way = containment.choose(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    except InspanError as error:
        return Finding(subject="containment", state="problem", detail=error.message, next_step=error.next_step)
    if way.pipe:
        return Finding(subject="containment", state="warning", detail=_NO_CONTAINMENT, next_step="Install bubblewrap.")
    return Finding(subject="containment", state="ok", detail=f"a pid namespace by {way.name}")


def _sandbox(env: Mapping[str, str]) -> Finding:
    box = registry.sandbox("bwrap")
    try:
        argv = box.wrap(("/bin/true",), Box(cwd="/", root=os.geteuid() == 0))
        containment.probe(argv, name="bwrap", cache=cache_home(env))
    except InspanError as error:
        return Finding(subject="sandbox bwrap", state="warning", detail=error.message, next_step=error.next_step)
    return Finding(subject="sandbox bwrap", state="ok", detail=f"works, with {bwrap()}")


def _config(env: Mapping[str, str]) -> Finding:
    try:
        _task(registry.built_in().name, env)
    except BadConfig as error:
        return Finding(subject="config", state="problem", detail=error.message, next_step=error.next_step)
    used = [layer.path for layer in places.files(_here(), env) if places.exists(layer.path)]
    return Finding(subject="config", state="ok", detail=", ".join([*used, *places.variables(env)]) or "none")


def _task(name: str, env: Mapping[str, str]) -> Configured:
    """A task for this agent as it would be run from here, with all that the configuration adds to it."""
    return configured(Task(prompt="doctor", cwd=_here(), agent=name), env=env)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # The folder is gone; there can be no project in it.
        return "/"


def _entered(name: str, env: Mapping[str, str]) -> Entry:
    """The agent of that name, which may stand for one version of it or for one of a family."""
    found = named(name, cwd=_here(), env=env)
    return Entry(name=name, driver=msgspec.structs.replace(found, family=False))


def _entry(entry: Entry, env: Mapping[str, str]) -> Finding:
    if entry.driver:
        return _agent(entry.name, entry.driver, env)
    problem, step = (entry.problem.message, entry.problem.next_step) if entry.problem else ("it has no driver.", "")
    return Finding(subject=f"agent {entry.name}", state="problem", detail=problem, next_step=step)


def _agent(name: str, driver: Driver, env: Mapping[str, str]) -> Finding:
    subject = f"agent {name}"
    try:
        given = _task(name, env)
    except BadConfig:
        given = Configured(task=Task(prompt="doctor", cwd=_here(), agent=name), env=env)
    driver = by_channel(driver, given.task.channel)
    driver = by_way(driver, way_of(driver, given.task, given.env))
    try:
        program = locate(driver, given.env)
    except InspanError as error:
        remedy = f"install {name}" if driver.install.package else ""
        step = error.next_step
        return Finding(subject=subject, state="problem", detail=error.message, next_step=step, remedy=remedy)
    if driver.built_in:
        detail = f"{driver.title} {program.version}; needs --model-from"
        return Finding(subject=subject, state="ok", detail=detail)
    if driver.hosted:
        detail = f"{driver.title}, an API without a program"
        try:
            check_needs(given.task, driver, given.env)
        except BadInput as error:
            return Finding(subject=subject, state="ok", detail=f"{detail}; {error.message}", next_step=error.next_step)
        return _way_in(subject, detail, driver, given)
    detail = f"{driver.title} {program.version} at {program.path} ({program.source})"
    doubts = _doubts(driver, program, given.env)
    found = _way_in(subject, f"{detail}; {doubts or _tried(driver)}", driver, given)
    if not doubts or found.state == "problem":
        return found
    tried = f"{driver.name}@{driver.install.version}"
    step = f"`inspan agents install {tried}`, then `-a {tried}`; or try this one: {_trial(driver, program)}."
    return replace(found, state="warning", next_step=step, remedy=f"install {name}")


def _doubts(driver: Driver, program: Program, env: Mapping[str, str]) -> str:
    """Why this version may not do: nobody has tried it, or its help does not name what is needed."""
    unknown = unknown_options(driver, program, env)
    words = [doubt(driver, program), f"its help does not name {', '.join(unknown)}." if unknown else ""]
    return " ".join(word for word in words if word)


def _trial(driver: Driver, program: Program) -> str:
    return f"`inspan matrix --agent {driver.name}@{program.version}`"


def _tried(driver: Driver) -> str:
    known = tested(driver)
    if known is None:
        return "no version was tried"
    oldest, newest = map(dotted, known)
    return f"tried on {newest}" if oldest == newest else f"tried from {oldest} to {newest}"


def _way_in(subject: str, detail: str, driver: Driver, given: Configured) -> Finding:
    """The key or login that a run would use, asked for as a run would; it is named and never shown."""
    try:
        way = access(given.task, driver, given.env)
    except InspanError as error:
        detail = f"{detail}; {error.message}"
        return Finding(subject=subject, state="problem", detail=detail, next_step=error.next_step)
    detail = f"{detail}; {way.words}"
    if way.kind == "none" and not driver.key_optional:
        return Finding(subject=subject, state="warning", detail=detail, next_step=driver.login_hint)
    if way.warnings:
        return Finding(subject=subject, state="warning", detail=detail, next_step=" ".join(way.warnings))
    return Finding(subject=subject, state="ok", detail=detail)
