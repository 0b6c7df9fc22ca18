"""A run's own name: no other run of its project has it, however many are started at once."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from inspan.errors import BadInput
from inspan.protocol.task import Task
from inspan.runs.find import find_run_folder
from inspan.runs.list_all import read_index
from inspan.runs.names import find_by_own_name
from inspan.runs.projects import Scope, scope_of
from inspan.stores.paths import make_private_folder, state_error, state_home
from inspan.stores.run_folder import is_locked
from inspan.system import file_locks


@contextmanager
def reserve_name(task: Task, env: Mapping[str, str]) -> Generator[None]:
    """Keeps the name of a task for it until the run's description has been written; others who want one wait.

    Raises `BadInput` where another run of the project, or of the folder, has it.
    """
    state = state_home(env)
    projects = make_private_folder(os.path.join(make_private_folder(state), "projects"))
    try:
        lock = file_locks.take(projects, folder=True, wait=True)
    except OSError as error:
        raise state_error(projects, error) from error
    try:
        _refuse_taken(state, task)
        yield
    finally:
        file_locks.release(lock)


def _refuse_taken(state: str, task: Task) -> None:
    scopes = [scope_of(task.cwd), *([Scope(project=task.project)] if task.project else [])]
    for scope in scopes:
        found = read_index(state, lambda scope=scope: [find_by_own_name(state, task.name, scope)])
        if run_id := found[0]:
            lives = is_locked(find_run_folder(state, run_id))
            how = f"end that run: `inspan stop {run_id}`" if lives else f"delete that run: `inspan rm {run_id}`"
            step = f"Give another one, or {how}{' and `inspan rm` it' if lives else ''}."
            raise BadInput("name", task.name, f"run {run_id} of this project has it.", next_step=step)
