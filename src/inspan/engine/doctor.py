"""What works on this machine and what does not, each finding with its next step. Shows no secret."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Box
from inspan.errors import InspanError
from inspan.sandboxes import containment
from inspan.sandboxes.programs import bwrap, find
from inspan.stores.paths import cache_home, private_folder, runtime_home, state_home

from . import registry
from .program import locate

State = Literal["ok", "warning", "problem"]
_NO_CONTAINMENT = "a reaper process stands in for a pid namespace"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    subject: str
    state: State
    detail: str
    next_step: str = ""


def examine(env: Mapping[str, str] = os.environ) -> list[Finding]:
    """Looks at Python, folders, helper programs, containment, the sandbox and every agent."""
    return [
        Finding(subject="python", state="ok", detail=f"{sys.version.split()[0]} at {sys.executable}"),
        *(_folder(name, path) for name, path in (("state", state_home(env)), ("sockets", runtime_home(env)))),
        *(_helper(name, use) for name, use in (("git", "the demo's diff"), ("bwrap", "containment and sandbox"))),
        _containment(env),
        _sandbox(env),
        *(_agent(driver, env) for driver in registry.drivers()),
    ]


def blocked(findings: list[Finding]) -> bool:
    """Whether something other than an agent stands in the way of every run."""
    return any(each.state == "problem" for each in findings if not each.subject.startswith("agent "))


def has_agent(findings: list[Finding]) -> bool:
    """Whether at least one agent of a vendor can be started."""
    agents = {f"agent {driver.name}" for driver in registry.drivers() if not driver.built_in}
    return any(each.state != "problem" for each in findings if each.subject in agents)


def login_of(driver: Driver, env: Mapping[str, str] = os.environ) -> str:
    """Which key or login a run in the profile `user` would find, by name; an empty string for none."""
    for name in driver.credentials:
        if env.get(name):
            return f"key in {name}"
    for path in driver.login_paths:
        if os.path.exists(os.path.expanduser(path)):
            return f"login in {path}"
    return ""


def _folder(name: str, path: str) -> Finding:
    try:
        private_folder(path)
    except InspanError as error:
        return Finding(subject=f"folder {name}", state="problem", detail=error.message, next_step=error.next_step)
    return Finding(subject=f"folder {name}", state="ok", detail=path)


def _helper(name: str, use: str) -> Finding:
    path = find(name)
    if path:
        return Finding(subject=name, state="ok", detail=path)
    return Finding(subject=name, state="warning", detail=f"not found ({use})", next_step=f"Install {name}.")


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


def _agent(driver: Driver, env: Mapping[str, str]) -> Finding:
    subject = f"agent {driver.name}"
    try:
        program = locate(driver, env)
    except InspanError as error:
        return Finding(subject=subject, state="problem", detail=error.message, next_step=error.next_step)
    detail = f"{driver.title} {program.version} at {program.path} ({program.source})"
    if driver.built_in:
        return Finding(subject=subject, state="ok", detail=f"{detail}; needs --model-from")
    login = login_of(driver, env)
    if login:
        return Finding(subject=subject, state="ok", detail=f"{detail}; {login}")
    return Finding(
        subject=subject,
        state="warning",
        detail=f"{detail}; no key and no login found",
        next_step=driver.login_hint,
    )
