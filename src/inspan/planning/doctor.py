"""What works on this machine and what does not, each finding with its next step. Shows no secret."""

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from inspan.agents import modules, registry
from inspan.agents.bundled import offer_bundled_bwrap
from inspan.agents.install import Report, install
from inspan.agents.install import ignore_progress as ignore_install
from inspan.agents.node import node_program
from inspan.agents.program import Program, format_version, locate_program
from inspan.agents.select import choose_provider, select_channel, select_provider
from inspan.agents.support import check_needs
from inspan.agents.version_support import find_unknown_options, get_tested_range, untested_warning
from inspan.config import locations
from inspan.containment import containment
from inspan.containment.control_groups import create_groups, remove_groups
from inspan.containment.programs import find_bwrap
from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Box
from inspan.credentials.resolve import resolve_credential
from inspan.errors import BadConfig, BadInput, InspanError, SandboxUnusable
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task
from inspan.runs.boxes import remove_dead_box
from inspan.stores.box_folder import find_orphan_boxes
from inspan.stores.paths import cache_home, make_private_folder, runtime_home, state_home
from inspan.system.programs import find_helper, find_program, list_exposed_folders, strip_path

from . import disk
from .access import describe_access
from .known_agents import AgentEntry, find_agent_driver, list_agents
from .settings import ConfiguredTask, apply_config

INSTALL = "install "
"""How the remedy of an agent begins."""

State = Literal["ok", "warning", "problem"]
_CONNECT_S = 5.0
_USUAL_SANDBOX = "bwrap"
_BOXES, _REMOVE_BOXES = "sandboxes", "remove sandboxes"
_NO_CONTAINMENT = "no pid namespace available; a reaper process is used instead"
_LIMITS = {"--memory": Limits(memory_bytes=2**30), "--cpus": Limits(cpus=1), "--pids": Limits(pids=1000)}
_LIMITS_STEP = "Runs with these are refused here. Run as root, or where systemd lets you have control groups."
_HELPERS = {
    "git": "what a run has changed, and the demo's diff",
    "bwrap": "containment and sandbox",
}
_PACKAGES = {"bwrap": "bubblewrap"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    subject: str
    state: State
    detail: str
    next_step: str = ""
    remedy: str = ""


def ignore_progress(subject: str) -> None:
    """For callers that show none."""


def examine(
    env: Mapping[str, str] = os.environ,
    *,
    agents: Sequence[str] = (),
    report: Callable[[str], None] = ignore_progress,
) -> list[Finding]:
    """Looks at Python, folders, disk, configuration, helper programs, containment, the sandbox, the gateway and agents.

    Of these names, or every one that there is; raises `UnknownAgent`. A finding with a `remedy` can be put right by
    `repair`. `report` is told what is looked at next.
    """
    looked_at = [_find_entry(name, env) for name in dict.fromkeys(agents)] or list_agents(_current_folder(), env)
    offer_bundled_bwrap(env)
    report("folders")
    findings = _check_surroundings(env)
    report("containment and sandbox")
    findings += [_check_containment(env), *(_check_sandbox(env, name) for name in _list_boundaries())]
    findings += [_check_limits(), _check_gateway()]
    for entry in looked_at:
        if not (entry.driver and entry.driver.family):
            report(entry.name)
            findings.append(_check_entry(entry, env))
    return findings


def _check_surroundings(env: Mapping[str, str]) -> list[Finding]:
    """What is there before any program is started: folders, files, helpers."""
    state = _check_folder("state", state_home(env))
    return [
        Finding(subject="python", state="ok", detail=f"{sys.version.split()[0]} at {sys.executable}"),
        state,
        *([_check_disk(state_home(env)), *_check_boxes(state_home(env))] if state.state == "ok" else []),
        _check_folder("sockets", runtime_home(env)),
        _check_config(env),
        *(_check_helper(name, use) for name, use in _HELPERS.items()),
        _check_node(env),
    ]


@dataclass(frozen=True, kw_only=True)
class AgentState:
    """What somebody who chooses an agent wants to know: its version, empty where it is missing, and its way in."""

    name: str
    title: str
    version: str
    access: str
    has_access: bool


def inspect_agents(
    env: Mapping[str, str] = os.environ, *, report: Callable[[str], None] = ignore_progress
) -> list[AgentState]:
    """The state of every agent that is no part of inspan; one that is broken is left out: `examine` tells of it."""
    found = list[AgentState]()
    for entry in list_agents(_current_folder(), env):
        if entry.driver and not (entry.driver.family or entry.driver.built_in):
            report(entry.name)
            found.append(_inspect_agent(entry.name, entry.driver, env))
    return found


def _inspect_agent(name: str, driver: Driver, env: Mapping[str, str]) -> AgentState:
    driver, given = _narrow(name, driver, env)
    version, access, has_access = "", "no key and no login found", False
    with suppress(InspanError):
        version = "API" if driver.program.hosted else _locate(driver, given).version
    with suppress(InspanError):
        credential = resolve_credential(given.task, driver, given.env)
        found = describe_access(given.task, driver, credential, given.env)
        access, has_access = found.description, found.known or driver.access.key_optional
    return AgentState(name=name, title=driver.title, version=version, access=access, has_access=has_access)


def find_missing(name: str, env: Mapping[str, str] = os.environ) -> str:
    """What to do before an agent can run here, the default one where none is named; empty where nothing is missing."""
    found = _check_entry(_find_entry(name or find_agent_driver("", cwd=_current_folder()).name, env), env)
    return "" if found.state == "ok" else found.next_step


def is_sandbox_usable(env: Mapping[str, str] = os.environ) -> bool:
    """Whether runs can have inspan's sandbox here."""
    offer_bundled_bwrap(env)
    return _check_sandbox(env).state == "ok"


def repair(finding: Finding, *, report: Report = ignore_install) -> Finding:
    """Does what a finding's remedy names, and tells what came of it."""
    if finding.remedy == _REMOVE_BOXES:
        return _remove_boxes(state_home())
    name = finding.remedy.removeprefix(INSTALL)
    try:
        found = install(find_agent_driver(name, cwd=_current_folder()), report=report)
    except InspanError as error:
        return Finding(subject=finding.subject, state="problem", detail=error.message, next_step=error.next_step)
    return Finding(subject=finding.subject, state="ok", detail=f"installed {found.version} at {found.path}")


def is_blocked(findings: list[Finding]) -> bool:
    """Whether something other than an agent stands in the way of every run."""
    return any(each.state == "problem" for each in findings if not each.subject.startswith("agent "))


def has_agent(findings: list[Finding], *, agents: Sequence[str] = ()) -> bool:
    """Whether at least one agent of a vendor can be started; where some were named, whether all of those can."""
    if agents:
        wanted = {f"agent {name}" for name in agents}
        return all(each.state != "problem" for each in findings if each.subject in wanted)
    others = {f"agent {driver.name}" for driver in registry.load_drivers() if driver.built_in or driver.program.hosted}
    found = [each for each in findings if each.subject.startswith("agent ") and each.subject not in others]
    return any(each.state != "problem" for each in found)


def _check_folder(name: str, path: str) -> Finding:
    try:
        make_private_folder(path)
    except InspanError as error:
        return Finding(subject=f"folder {name}", state="problem", detail=error.message, next_step=error.next_step)
    return Finding(subject=f"folder {name}", state="ok", detail=path)


def _check_disk(path: str) -> Finding:
    found = disk.inspect_disk(path)
    detail = f"{found.free_bytes / 1e9:.1f} GB free on {found.kind}"
    step = "Make room, or point XDG_STATE_HOME at a folder on a local disk."
    if found.problem:
        return Finding(subject="disk", state="problem", detail=f"{found.problem} ({detail})", next_step=step)
    if found.warning:
        return Finding(subject="disk", state="warning", detail=f"{found.warning} ({detail})", next_step=step)
    return Finding(subject="disk", state="ok", detail=detail)


def _check_boxes(state: str) -> list[Finding]:
    """What sandboxes have left whose program was killed; nothing is said where there is nothing."""
    left = find_orphan_boxes(state)
    if not left:
        return []
    size = sum(each.size_bytes for each in left) / 1e6
    detail = f"{len(left)} left behind by programs that were killed ({size:.1f} MB)"
    step = "`inspan prune` deletes them, and so does `inspan doctor --fix`."
    return [Finding(subject=_BOXES, state="warning", detail=detail, next_step=step, remedy=_REMOVE_BOXES)]


def _remove_boxes(state: str) -> Finding:
    left = find_orphan_boxes(state)
    problems = [problem for each in left if (problem := remove_dead_box(each.path))]
    if problems:
        step = "End what still runs there, and try again."
        return Finding(subject=_BOXES, state="warning", detail="; ".join(problems), next_step=step)
    return Finding(subject=_BOXES, state="ok", detail=f"{len(left)} deleted")


def _check_helper(name: str, use: str) -> Finding:
    path = find_helper(name)
    if path:
        return Finding(subject=name, state="ok", detail=path)
    if name == "bwrap" and (path := find_bwrap()):
        detail, step = f"not on PATH; {path}, which an agent's package brings, is used", "Install bubblewrap."
        return Finding(subject=name, state="warning", detail=detail, next_step=step)
    step = f"Install {_PACKAGES.get(name, name)}."
    return Finding(subject=name, state="warning", detail=f"not found ({use})", next_step=step)


def _check_node(env: Mapping[str, str]) -> Finding:
    """Agents that are written for Node get inspan's own when they are installed; the user's is for the user's own."""
    if os.access(node_program(), os.X_OK):
        return Finding(subject="node", state="ok", detail=f"inspan's own at {node_program()}")
    users = find_program("node", path=env.get("PATH", ""))
    detail = f"not installed by inspan yet; yours is {users}" if users else "not installed by inspan yet"
    return Finding(subject="node", state="ok", detail=detail, next_step="It comes with the first agent that needs it.")


def _check_gateway() -> Finding:
    """Whether a listener on loopback can be reached, as an agent reaches its gateway."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), timeout=_CONNECT_S).close()
    except OSError as error:
        step = "Allow connections to 127.0.0.1; runs with --direct work without them."
        return Finding(subject="gateway", state="problem", detail=f"127.0.0.1: {error.strerror}", next_step=step)
    return Finding(subject="gateway", state="ok", detail="a listener on 127.0.0.1 can be reached")


def _check_containment(env: Mapping[str, str]) -> Finding:
    try:
        method = containment.choose_containment(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    except InspanError as error:
        return Finding(subject="containment", state="problem", detail=error.message, next_step=error.next_step)
    if method.liveness_pipe:
        return Finding(subject="containment", state="warning", detail=_NO_CONTAINMENT, next_step="Install bubblewrap.")
    return Finding(subject="containment", state="ok", detail=f"a pid namespace by {method.name}")


def _check_sandbox(env: Mapping[str, str], name: str = _USUAL_SANDBOX) -> Finding:
    """Whether a boundary can be set up here, and why not."""
    sandbox, subject = modules.load_sandbox(name), f"sandbox {name}"
    box = Box(cwd="/", root=os.geteuid() == 0)
    try:
        if sandbox.container:
            return Finding(subject=subject, state="ok", detail=sandbox.describe(box))
        sandbox.check(box)
        containment.probe(sandbox, box, cache=cache_home(env))
    except InspanError as error:
        return Finding(subject=subject, state="warning", detail=error.message, next_step=error.next_step)
    return Finding(subject=subject, state="ok", detail=f"works, with {sandbox.wrap((), box)[0]}")


def _check_limits() -> Finding:
    """Which limits on resources can be held here, by making a group for each."""
    problems, held = dict[str, str](), list[str]()
    for name, limits in _LIMITS.items():
        trial = f"doctor-{os.urandom(4).hex()}"
        try:
            remove_groups(create_groups(trial, limits))
            held.append(name)
        except SandboxUnusable as error:
            problems[name] = error.message.replace(f"/inspan-{trial}", "")  # Where none can be made, not which.
    if not problems:
        return Finding(subject="limits", state="ok", detail=f"{', '.join(held)} can be held by control groups")
    detail = f"{', '.join(problems)} cannot be held: {next(iter(problems.values()))}"
    return Finding(subject="limits", state="warning", detail=detail, next_step=_LIMITS_STEP)


def _list_boundaries() -> list[str]:
    return [name for name in modules.sandbox_names() if modules.load_sandbox(name).boundary]


def _check_config(env: Mapping[str, str]) -> Finding:
    try:
        _configure_task(registry.find_built_in_driver().name, env)
    except BadConfig as error:
        return Finding(subject="config", state="problem", detail=error.message, next_step=error.next_step)
    used = [layer.path for layer in locations.list_files(_current_folder(), env) if locations.exists(layer.path)]
    return Finding(subject="config", state="ok", detail=", ".join([*used, *locations.list_variables(env)]) or "none")


def _configure_task(name: str, env: Mapping[str, str]) -> ConfiguredTask:
    """A task for this agent as it would be run from here, with all that the configuration adds to it."""
    return apply_config(Task(prompt="doctor", cwd=_current_folder(), agent=name), env=env)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # The folder is gone; there can be no project in it.
        return "/"


def _find_entry(name: str, env: Mapping[str, str]) -> AgentEntry:
    """The agent of that name, which may stand for one version of it or for one of a family."""
    found = find_agent_driver(name, cwd=_current_folder(), env=env)
    return AgentEntry(name=name, driver=msgspec.structs.replace(found, family=False))


def _check_entry(entry: AgentEntry, env: Mapping[str, str]) -> Finding:
    if entry.driver:
        return _check_agent(entry.name, entry.driver, env)
    problem, step = (entry.problem.message, entry.problem.next_step) if entry.problem else ("it has no driver.", "")
    return Finding(subject=f"agent {entry.name}", state="problem", detail=problem, next_step=step)


def _check_agent(name: str, driver: Driver, env: Mapping[str, str]) -> Finding:
    subject = f"agent {name}"
    driver, given = _narrow(name, driver, env)
    try:
        program = _locate(driver, given)
    except InspanError as error:
        remedy = f"{INSTALL}{name}" if driver.program.install.package else ""
        step = error.next_step
        return Finding(subject=subject, state="problem", detail=error.message, next_step=step, remedy=remedy)
    if driver.built_in:
        detail = f"{driver.title} {program.version}; needs --model-from"
        return Finding(subject=subject, state="ok", detail=detail)
    if driver.program.hosted:
        detail = f"{driver.title}, an API without a program"
        try:
            check_needs(given.task, driver, given.env)
        except BadInput as error:
            detail = f"{detail}; no {error.field} is set"
            return Finding(subject=subject, state="warning", detail=detail, next_step=error.next_step)
        return _check_credential(subject, detail, driver, given)
    detail = f"{driver.title} {program.version} at {program.path} ({program.source})"
    doubts = _find_doubts(driver, program, _strip_env(given.env))
    found = _check_credential(subject, f"{detail}; {doubts or _describe_tested(driver)}", driver, given)
    if not doubts or found.state == "problem":
        return found
    tried = f"{driver.name}@{driver.program.install.version}"
    step = f"`inspan agents install {tried}`, then `-a {tried}`; or try this one: {_matrix_command(driver, program)}."
    return replace(found, state="warning", next_step=step, remedy=f"{INSTALL}{name}")


def _narrow(name: str, driver: Driver, env: Mapping[str, str]) -> tuple[Driver, ConfiguredTask]:
    """The agent as a run from here would use it."""
    try:
        given = _configure_task(name, env)
    except BadConfig:
        given = ConfiguredTask(task=Task(prompt="doctor", cwd=_current_folder(), agent=name), env=env)
    driver = select_channel(driver, given.task.channel)
    return select_provider(driver, choose_provider(driver, given.task, given.env)), given


def _locate(driver: Driver, given: ConfiguredTask) -> Program:
    """The program as a run in a sandbox finds it: nothing that such a run could have left here is started."""
    return locate_program(driver, given.env, avoid=list_exposed_folders(_current_folder()))


def _strip_env(env: Mapping[str, str]) -> dict[str, str]:
    return {**env, "PATH": strip_path(env.get("PATH", ""), avoid=list_exposed_folders(_current_folder()))}


def _find_doubts(driver: Driver, program: Program, env: Mapping[str, str]) -> str:
    """Why this version may not do: nobody has tried it, or its help does not name what is needed."""
    unknown = find_unknown_options(driver, program, env)
    words = [untested_warning(driver, program), f"its help does not name {', '.join(unknown)}." if unknown else ""]
    return " ".join(word for word in words if word)


def _matrix_command(driver: Driver, program: Program) -> str:
    return f"`inspan matrix --agent {driver.name}@{program.version}`"


def _describe_tested(driver: Driver) -> str:
    known = get_tested_range(driver)
    if known is None:
        return "no version was tried"
    oldest, newest = map(format_version, known)
    return f"tried on {newest}" if oldest == newest else f"tried from {oldest} to {newest}"


def _check_credential(subject: str, detail: str, driver: Driver, given: ConfiguredTask) -> Finding:
    """The key or login that a run would use, asked for as a run would; it is named and never shown."""
    try:
        credential = resolve_credential(given.task, driver, given.env)
    except InspanError as error:
        detail = f"{detail}; {error.message}"
        return Finding(subject=subject, state="problem", detail=detail, next_step=error.next_step)
    access = describe_access(given.task, driver, credential, given.env)
    detail = f"{detail}; {access.warning or access.description}"
    if access.warning:
        return Finding(subject=subject, state="warning", detail=detail, next_step=access.next_step)
    if not access.known and not driver.access.key_optional:
        return Finding(subject=subject, state="warning", detail=detail, next_step=driver.access.login_hint)
    if credential.warnings:
        return Finding(subject=subject, state="warning", detail=detail, next_step=" ".join(credential.warnings))
    return Finding(subject=subject, state="ok", detail=detail)
