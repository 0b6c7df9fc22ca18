"""Where a run works: in the user's folder, or in a git worktree that is made for it, or that its session has."""

import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import BadInput, InspanError, RunBusy, WorktreeUnusable
from inspan.protocol.ids import make_short_name
from inspan.protocol.plan import RunWorktree
from inspan.protocol.task import Task
from inspan.runs.projects import top_of
from inspan.stores.paths import state_home
from inspan.stores.repository import Repository, find_bare_repository, find_repository
from inspan.stores.worktree import (
    Worktree,
    build_worktree_path,
    find_worktree,
    find_worktree_users,
    is_below,
    load_worktree,
    lock_worktree,
    save_worktree,
)

_BRANCHES = "inspan/"


class RunPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A worktree that a run has for itself, and the folder in it that it works in; `is_new` if it was made for it."""

    worktree: Worktree
    cwd: str
    is_new: bool = False
    warnings: tuple[str, ...] = ()

    def to_plan(self) -> RunWorktree:
        """What the plan says of it."""
        kept = self.worktree
        return RunWorktree(path=kept.path, branch=kept.branch, checkout=kept.checkout, folder=kept.folder)


def choose_place(place: str, task: Task, driver: Driver, env: Mapping[str, str]) -> str:
    """The place that was asked for, where a new one is needed; raises `BadInput` where it cannot be.

    A run that touches no files needs none. A session goes on where it began, in its worktree if it has one.
    """
    if not place or driver.program.hosted or (task.mode == "complete" and not task.allowed_tools):
        return ""
    if task.resume:
        if find_worktree(state_home(env), task.cwd):
            return ""
        problem = f"the session began in {task.cwd}, and can go on only there."
        raise BadInput("sandbox", task.sandbox, problem, next_step="Use --sandbox none, or start a new session.")
    if bare := "" if find_repository(cwd := os.path.realpath(task.cwd)) else find_bare_repository(cwd):
        problem = f"{bare} is a bare repository: it has no checkout that a worktree could be made from."
        step = f"Make one, `git -C {bare} worktree add FOLDER`, and start the run there; or leave {place} out."
        raise BadInput("sandbox", task.sandbox, problem, next_step=step)
    if not find_repository(cwd):
        problem = f"{task.cwd} is in no git repository."
        raise BadInput("sandbox", task.sandbox, problem, next_step=f"`git init` there, or leave {place} out.")
    return place


def find_origin(cwd: str, env: Mapping[str, str]) -> str:
    """The folder of the user's that a worktree of a run was made from; any other folder is its own."""
    worktree = find_worktree(state_home(env), cwd)
    return worktree.folder if worktree and os.path.isdir(worktree.folder) else cwd


def is_session_place(state: str, cwd: str, task: Task) -> bool:
    """Whether `cwd` is in a worktree of the repository that a task is for: there its session goes on."""
    worktree = find_worktree(state, cwd)
    if worktree is None:
        return False
    return is_below(os.path.realpath(task.cwd), worktree.path) or top_of(task.cwd) == top_of(worktree.checkout)


@contextmanager
def bring_back(task: Task, env: Mapping[str, str]) -> Generator[None]:
    """Makes the worktree of a session again if it was removed; raises `WorktreeUnusable`. Where what follows fails, it
    is removed again, unless another run works in it by then."""
    worktree = find_worktree(state_home(env), task.cwd) if task.resume else None
    if worktree is None or (worktree.status != "making" and os.path.isdir(worktree.path)):
        yield
        return
    _restore(worktree)
    try:
        os.makedirs(task.cwd, exist_ok=True)
        yield
    except BaseException:
        with suppress(InspanError):  # Why the run is not to be is told; a worktree that stays is listed.
            _take_away(state_home(env), worktree)
        raise


def _restore(worktree: Worktree) -> None:
    # Start-up time: few sessions have a worktree that is gone.
    from inspan.stores.worktree_creation import restore_worktree
    from inspan.stores.worktree_removal import remove_worktree

    with lock_worktree(worktree.path):
        worktree = load_worktree(worktree.path) or worktree
        if worktree.status == "making" and os.path.lexists(worktree.path):
            worktree = remove_worktree(worktree)  # Whoever was making it was killed.
        if not os.path.isdir(worktree.path):
            restore_worktree(worktree)


def _take_away(state: str, before: Worktree) -> None:
    """Removes a worktree that was made again, and lets its record say what it said before."""
    from inspan.runs.worktree_runs import refuse_used  # Start-up time: only a start that fails needs it.
    from inspan.stores.worktree_removal import remove_worktree

    with lock_worktree(before.path):
        refuse_used(state, before)
        after = remove_worktree(load_worktree(before.path) or before)
        if after.salvage == before.salvage and before.status != "making":
            save_worktree(before)


@contextmanager
def enter_place(place: str, task: Task, *, state: str, project: str, run_id: str) -> Generator[RunPlace | None]:
    """Makes the worktree of a run, or takes up the one that its folder is in, and keeps others away from it meanwhile.

    Raises `RunBusy` while another run works there, or `WorktreeUnusable`; nothing for a run in a folder of the user's.
    """
    if place:
        path = build_worktree_path(state, project=project, run_id=run_id)
        with lock_worktree(path):
            yield _make(path, task, project=project, run_id=run_id)
        return
    found = find_worktree(state, task.cwd)
    if found is None or task.mode == "complete":
        yield None
        return
    with lock_worktree(found.path):
        yield _take_up(state, found, task)


def leave_place(place: RunPlace) -> None:
    """Removes a worktree that was made for a run which is not to be; its lock is taken for that. Nothing is lost."""
    if place.is_new:
        from inspan.stores.worktree_removal import remove_worktree  # Start-up time: only a start that fails needs it.

        # What keeps it from being removed must not hide why the run is not to be; `inspan worktrees prune` tries again.
        with suppress(InspanError), lock_worktree(place.worktree.path):
            remove_worktree(place.worktree, forget=True)


def _make(path: str, task: Task, *, project: str, run_id: str) -> RunPlace:
    # Start-up time: few runs have a worktree of their own.
    from inspan.stores.worktree_creation import make_worktree

    cwd = os.path.realpath(task.cwd)
    repository = _require_repository(cwd)
    new = Worktree(
        id=run_id,
        project=project,
        path=path,
        common=repository.common,
        checkout=repository.top,
        folder=cwd,
        created_at=time.time(),
    )
    names = dict.fromkeys((task.name or make_short_name(run_id), run_id))
    made = make_worktree(new, repository, branches=[f"{_BRANCHES}{name}" for name in names])
    inside = os.path.normpath(os.path.join(path, os.path.relpath(cwd, repository.top)))
    os.makedirs(inside, exist_ok=True)  # The folder may hold nothing that is committed.
    return RunPlace(worktree=made.worktree, cwd=inside, is_new=True, warnings=tuple(made.warnings))


def _take_up(state: str, found: Worktree, task: Task) -> RunPlace:
    users = find_worktree_users(state, found.path)
    if users and task.mode == "exec":
        raise RunBusy(
            f"Run {users[0]} is working in the worktree {found.path}.",
            next_step=f"Wait for it, or stop it: `inspan stop {users[0]}`.",
        )
    worktree = msgspec.structs.replace(load_worktree(found.path) or found, status="ready")
    if not os.path.isdir(worktree.path):
        raise WorktreeUnusable(f"The worktree {worktree.path} has just been removed.", next_step="Try again.")
    save_worktree(worktree)
    return RunPlace(worktree=worktree, cwd=task.cwd)


def _require_repository(cwd: str) -> Repository:
    repository = find_repository(cwd)
    if repository is None:
        raise WorktreeUnusable(f"{cwd} is in no git repository any more.", next_step="Try again.")
    return repository
