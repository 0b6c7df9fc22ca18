"""A folder and a log for work that has runs of its own, so that it is found and followed as a run is."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

import msgspec

from inspan.planning.checks import check_own_name
from inspan.planning.environment import collect_secrets
from inspan.planning.names import reserve_name
from inspan.protocol.events import RunStarted
from inspan.protocol.ids import RUN_VARIABLE
from inspan.protocol.task import Task
from inspan.protocol.wire import SCHEMA
from inspan.redaction import Gate, SecretSet
from inspan.runs.projects import project_of
from inspan.stores.deletion import discard_tree
from inspan.stores.event_log import begin_log
from inspan.stores.paths import make_private_folder, runtime_home, state_home
from inspan.stores.run_folder import (
    RunFolder,
    claim_folder,
    lock_run,
    mark_active,
    task_path,
    unmark_active,
    write_json,
    write_text,
)
from inspan.system import file_locks

Plan = TypeVar("Plan")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What the work is known by. Whoever gets it lets go of its lock. `secrets` are kept out of all that is stored.
    `inside` is the run that it was started in, if any.
    """

    run_id: str
    created_at: float
    folder: RunFolder
    state: str
    project: str
    lock: int
    secrets: tuple[tuple[str, str], ...]
    inside: str = ""


def claim_work(task: Task, *, env: Mapping[str, str], describe: Callable[[Claim], Plan]) -> tuple[Claim, Plan]:
    """Claims a folder and lets `describe` write what belongs there; where that fails, nothing is left of it.

    Raises `BadInput` for a name that another run of the project has, or that none can have.
    """
    check_own_name(task.name)
    make_private_folder(runtime_home())
    with reserve_name(task, env) if task.name else nullcontext():
        return _claim(task, env=env, describe=describe)


def _claim(task: Task, *, env: Mapping[str, str], describe: Callable[[Claim], Plan]) -> tuple[Claim, Plan]:
    state = make_private_folder(state_home(env))
    project = task.project or project_of(task.cwd)
    folder = claim_folder(os.path.join(task_path(state, project=project, task=task.task), "runs"), pid=os.getpid())
    lock = -1
    try:
        lock = lock_run(folder)
        claim = Claim(
            run_id=folder.run_id,
            created_at=time.time(),
            folder=folder,
            state=state,
            project=project,
            lock=lock,
            secrets=collect_secrets(env, task.env, credentials=(), token="", servers=task.mcp_servers.values()),
            inside=env.get(RUN_VARIABLE, ""),
        )
        return claim, describe(claim)
    except BaseException:
        _erase(state, folder)
        if lock >= 0:
            file_locks.release(lock)
        raise


def write_description(claim: Claim, started: RunStarted, task: Task, more: Mapping[str, Any]) -> None:
    """Writes what others find it by. The description comes last: with it, the folder is whole."""
    gate = Gate(SecretSet.get_shared(claim.secrets))
    begin_log(claim.folder.log, gate.encode_event(started))
    mark_active(claim.state, claim.folder)
    write_text(claim.folder.file("prompt.md"), gate.redact_text(task.prompt))
    write_json(
        claim.folder.file("run.json"),
        gate.redact_json(
            {
                "schema": SCHEMA,
                "run_id": claim.run_id,
                "created_at": claim.created_at,
                "work": started.work,
                "agent": started.agent,
                "project": claim.project,
                "session": claim.run_id,
                "inside": claim.inside,
                **more,
                "task": msgspec.to_builtins(task),
            }
        ),
    )


def _erase(state: str, folder: RunFolder) -> None:
    discard_tree(folder.path)
    unmark_active(state, folder.run_id)
