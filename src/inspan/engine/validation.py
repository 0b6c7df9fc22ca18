"""Whether a task could be run here: everything that is looked at before a run is claimed; it leaves nothing behind."""

import os
from collections.abc import Mapping

import msgspec

from inspan.protocol.task import Task
from inspan.sandboxes.programs import bwrap, find

from .checks import check
from .choice import choose
from .sessions import with_session
from .tested import doubt


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of this task would use. `access` tells the key or login without showing it."""

    agent: str
    program: str
    version: str
    access: str
    sandbox: str
    containment: str
    root: bool
    helpers: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()


def validate(task: Task, *, env: Mapping[str, str] = os.environ) -> Environment:
    """Program, version, access, sandbox, permissions: raises `InspanError` for the first that would stop the run."""
    task, _ = with_session(task, env)
    check(task)
    choice = choose(task, env)
    helpers = {"git": find("git", path=env.get("PATH", "")), "bwrap": bwrap()}
    warnings = [f"{name} was not found." for name, path in helpers.items() if not path]
    warnings += [*choice.access.warnings, *filter(None, (doubt(choice.driver, choice.program),))]
    if choice.access.kind == "none":
        warnings.append(f"No key and no login was found: {choice.driver.login_hint}.")
    return Environment(
        agent=choice.driver.name,
        program=choice.program.path,
        version=choice.program.version,
        access=choice.access.words,
        sandbox=choice.sandbox.name,
        containment=choice.containment.name,
        root=choice.root,
        helpers=helpers,
        warnings=tuple(warnings),
    )
