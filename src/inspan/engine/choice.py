"""Which agent, program, sandbox and containment a task gets; decided, and refused, before anything is written."""

import os
from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Driver
from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput, CredentialsMissing
from inspan.protocol.task import Task
from inspan.sandboxes import containment, programs
from inspan.stores.paths import cache_home

from . import registry
from .program import Program, carried, locate

_SCRIPT = "script:"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for a task before anything was written."""

    task: Task
    driver: Driver
    program: Program
    sandbox: Sandbox
    containment: containment.Containment
    root: bool


def choose(task: Task, env: Mapping[str, str]) -> Choice:
    """Everything that can be known without a run folder; raises `InspanError` with the next step."""
    driver = registry.driver(task.agent)
    root = os.geteuid() == 0
    for other in registry.drivers():
        if other.carries_bwrap and (path := carried(other.carries_bwrap)) and os.access(path, os.X_OK):
            programs.offer_bwrap(path)
    sandbox = registry.sandbox(task.sandbox or _default_sandbox(driver, root=root))
    if root and driver.capabilities.root_needs_box and not sandbox.boundary:
        raise BadInput(
            "sandbox",
            sandbox.name,
            f"{driver.title} refuses to run unrestricted as root.",
            next_step="Leave --sandbox out, use --sandbox bwrap, or run as an ordinary user.",
        )
    _check_model_from(task.model_from)
    if driver.built_in and not task.model_from:
        raise BadInput("model_from", "", f"{driver.title} has no model of its own.", next_step="Use script:FILE.")
    program = locate(driver, env)
    _check_credentials(task, driver, env)
    way = containment.choose(cache_home(env), asked=env.get("INSPAN_CONTAINMENT", ""))
    if sandbox.boundary:
        argv = sandbox.wrap(("/bin/true",), Box(cwd="/", root=root))
        containment.probe(argv, name=sandbox.name, cache=cache_home(env))
        way = containment.WAYS[0]
    return Choice(task=task, driver=driver, program=program, sandbox=sandbox, containment=way, root=root)


def _default_sandbox(driver: Driver, *, root: bool) -> str:
    return "bwrap" if root and driver.capabilities.root_needs_box else "none"


def _check_model_from(model_from: str) -> None:
    if not model_from:
        return
    if not model_from.startswith(_SCRIPT):
        raise BadInput("model_from", model_from, "no such source of a model.", next_step="Use script:FILE.")
    # An extra of this command: only scripted runs need a TOML reader.
    from inspan.gateway import load_scenario

    load_scenario(model_from.removeprefix(_SCRIPT))


def _check_credentials(task: Task, driver: Driver, env: Mapping[str, str]) -> None:
    if task.model_from or task.profile == "user":
        return
    if not any(env.get(name) or task.env.get(name) for name in driver.credentials):
        raise CredentialsMissing(
            f"The profile clean does not use your login, and none of {', '.join(driver.credentials)} is set.",
            next_step=f"Set one of them, or use --profile user ({driver.login_hint}).",
        )
