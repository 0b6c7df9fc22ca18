"""Whether a task could be run here: everything that is looked at before a run is claimed; it leaves nothing behind."""

import os
from collections.abc import Mapping

import msgspec

from inspan.agents.version_support import untested_warning
from inspan.containment.programs import find_bwrap
from inspan.protocol.task import Task
from inspan.stores.paths import state_home
from inspan.system.programs import find_helper

from .access import describe_access
from .checks import check_task
from .confinement import inherit_confinement, load_confinement
from .file_tools import list_open_grants
from .resolve import resolve_task
from .resume import resolve_session


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
    task, record = resolve_session(task, env)
    task = inherit_confinement(task, load_confinement(state_home(env), record))
    check_task(task)
    choice = resolve_task(task, env)
    access = describe_access(choice.task, choice.driver, choice.credential, env)
    helpers = {"git": find_helper("git", path=env.get("PATH", "")), "bwrap": find_bwrap()}
    warnings = [f"{name} was not found." for name, path in helpers.items() if not path]
    own = (untested_warning(choice.driver, choice.program), access.warning)
    warnings += [*choice.credential.warnings, *filter(None, own)]
    warnings += list_open_grants(task)
    if not access.known:
        warnings.append(f"No key and no login was found: {choice.driver.access.login_hint}.")
    return Environment(
        agent=choice.driver.name,
        program=choice.program.path,
        version=choice.program.version,
        access=access.description,
        sandbox=choice.sandbox.name,
        containment=choice.containment.name,
        root=choice.root,
        helpers=helpers,
        warnings=tuple(warnings),
    )
