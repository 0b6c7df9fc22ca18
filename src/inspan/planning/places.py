"""Where a run works: in the user's folder, or in a git worktree that is made for it, or that its session has."""

import errno
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from inspan.agents.presets import driver_for_task
from inspan.contracts.driver import Driver
from inspan.contracts.places import WORKTREE
from inspan.errors import BadInput, InspanError, RunBusy, WorktreeUnusable
from inspan.protocol.ids import make_short_name
from inspan.protocol.plan import RunWorktree
from inspan.protocol.task import Task
from inspan.runs.projects import project_of, top_of
from inspan.stores.paths import state_home
from inspan.stores.run_folder import list_free_ids
from inspan.stores.worktree import (
    Worktree,
    build_worktree_path,
    find_worktree,
    find_worktree_users,
    forget_nothing,
    load_worktree,
    lock_worktree,
    save_worktree,
)
from inspan.system.inner_folders import open_inner_folder, open_plain_folder
from inspan.system.paths import is_within

if TYPE_CHECKING:
    from inspan.stores.repository import Repository

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
    if task.start and not place and not task.resume:
        step = "Ask for a worktree: --sandbox worktree, or worktree+bwrap."
        raise BadInput("start", task.start, "only a worktree of the run's own begins at a commit.", next_step=step)
    if not place or not _touches_files(task, driver):
        return ""
    if task.resume:
        if find_worktree(state_home(env), task.cwd):
            return ""
        problem = f"the session began in {task.cwd}, and can go on only there."
        raise BadInput("sandbox", task.sandbox, problem, next_step="Use --sandbox none, or start a new session.")
    _check_checkout(task.cwd, field="sandbox", value=task.sandbox)
    return place


def touches_files(task: Task) -> bool:
    """Whether a run of this task can touch files: one that cannot has no worktree, whatever was asked for."""
    return _touches_files(task, driver_for_task(task))


def _touches_files(task: Task, driver: Driver) -> bool:
    return not driver.program.hosted and (task.mode != "complete" or bool(task.allowed_tools))


def _check_checkout(folder: str, *, field: str, value: str) -> None:
    """Raises `BadInput` for a folder that no worktree can be made from."""
    from inspan.stores.repository import find_bare_repository, find_repository  # Start-up time: it is git's room.

    cwd = os.path.realpath(folder)
    if find_repository(cwd):
        return
    if bare := find_bare_repository(cwd):
        problem = f"{bare} is a bare repository: it has no checkout that a worktree could be made from."
        step = f"Make one, `git -C {bare} worktree add FOLDER`, and start there; or leave {WORKTREE} out."
        raise BadInput(field, value, problem, next_step=step)
    problem = f"{folder} is in no git repository."
    raise BadInput(field, value, problem, next_step=f"`git init` there, or leave {WORKTREE} out.")


def build_sandbox_place(kind: str, cwd: str, *, state: str) -> str:
    """Where the worktree of a sandbox that is no run's will lie; raises `BadInput` where there can be none."""
    _check_checkout(cwd, field="kind", value=kind)
    return build_worktree_path(state, project=project_of(cwd), run_id=next(list_free_ids(pid=os.getpid())))


def make_sandbox_place(path: str, cwd: str) -> RunPlace:
    """Makes that worktree, from the commit that is checked out; raises `WorktreeUnusable`."""
    project, worktree_id = path.split(os.sep)[-2:]
    with lock_worktree(path):
        return _make(path, cwd, name="", start="", project=project, run_id=worktree_id)


def remove_sandbox_place(path: str, *, state: str, box: str) -> None:
    """Removes it, once what is neither committed nor ignored in it is saved. Raises `RunBusy` while somebody but the
    sandbox itself works there, or `WorktreeUnusable`; then it stays as it is.
    """
    from inspan.runs.worktree_runs import refuse_used  # Start-up time: few programs have a worktree of their own.
    from inspan.stores.worktree_removal import remove_worktree

    with lock_worktree(path):
        worktree = load_worktree(path)
        if worktree and worktree.status != "removed":
            refuse_used(state, worktree, besides=box)
            remove_worktree(worktree, forget=True)
        else:
            forget_nothing(path)


def find_origin(cwd: str, env: Mapping[str, str]) -> str:
    """The folder of the user's that a worktree of a run was made from; any other folder is its own."""
    worktree = find_worktree(state_home(env), cwd)
    return worktree.folder if worktree and os.path.isdir(worktree.folder) else cwd


def is_session_place(state: str, cwd: str, task: Task) -> bool:
    """Whether `cwd` is in a worktree of the repository that a task is for: there its session goes on."""
    worktree = find_worktree(state, cwd)
    if worktree is None:
        return False
    return is_within(os.path.realpath(task.cwd), worktree.path) or top_of(task.cwd) == top_of(worktree.checkout)


@contextmanager
def bring_back(task: Task, env: Mapping[str, str]) -> Generator[list[str]]:
    """Makes the worktree of a session again if it was removed, and gives what its user should know of that; raises
    `WorktreeUnusable`. Where what follows fails, it is removed again, unless another run works in it by then."""
    worktree = find_worktree(state_home(env), task.cwd) if task.resume else None
    if worktree is None or _is_there(worktree):
        yield []
        return
    warnings = _restore(worktree)
    try:
        _make_inside(worktree.path, task.cwd)
        yield warnings
    except BaseException:
        with suppress(InspanError):  # Why the run is not to be is told; a worktree that stays is listed.
            _take_away(state_home(env), worktree)
        raise


def open_place(cwd: str, env: Mapping[str, str]) -> None:
    """Makes the worktree that a folder lies in again if it was removed, and the folder if it was deleted there; puts
    back what had to give way to tests that were killed. Nothing for any other folder. Raises `WorktreeUnusable`, or
    `RunBusy` while tests are run there."""
    worktree = find_worktree(state_home(env), cwd)
    if worktree is None:
        return
    if not _is_there(worktree):
        _restore(worktree, wait=True)
    if os.path.lexists(worktree.aside):
        with lock_worktree(worktree.path):
            _put_back(worktree)
    _make_inside(worktree.path, cwd)


def _is_there(worktree: Worktree) -> bool:
    return worktree.status != "making" and os.path.isdir(worktree.path)


def _put_back(worktree: Worktree) -> None:
    if os.path.lexists(worktree.aside):
        from inspan.stores.worktree_test_files import put_back  # Start-up time: only a check that was killed needs it.

        put_back(worktree.path)


def _make_inside(worktree: str, cwd: str) -> None:
    """The folder in a worktree, where it is not there; raises `WorktreeUnusable`, also for one that a link leads to
    which an agent has committed."""
    try:
        top = open_plain_folder(worktree)
        try:
            inside = os.path.relpath(os.path.realpath(cwd), worktree)
            os.close(open_inner_folder(top, inside, make=True))
        finally:
            os.close(top)
    except OSError as error:
        reason = "it leads out of the worktree" if error.errno == errno.EXDEV else error.strerror
        problem = f"The folder {cwd} of a worktree cannot be made: {reason}."
        raise WorktreeUnusable(problem, next_step="Remove what lies in its place, also from the branch.") from error


def _restore(worktree: Worktree, *, wait: bool = False) -> list[str]:
    # Start-up time: few sessions have a worktree that is gone.
    from inspan.stores.worktree_creation import restore_worktree
    from inspan.stores.worktree_removal import remove_worktree

    with lock_worktree(worktree.path, wait=wait):
        worktree = load_worktree(worktree.path) or worktree
        if worktree.status == "making" and os.path.lexists(worktree.path):
            worktree = remove_worktree(worktree)  # Whoever was making it was killed.
        return restore_worktree(worktree).warnings if not os.path.isdir(worktree.path) else []


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
            try:
                made = _make(path, task.cwd, name=task.name or "", start=task.start, project=project, run_id=run_id)
            except BaseException:
                forget_nothing(path)
                raise
            yield made
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


def _make(path: str, folder: str, *, name: str, start: str, project: str, run_id: str) -> RunPlace:
    # Start-up time: few runs have a worktree of their own.
    from inspan.stores.worktree_creation import make_worktree
    from inspan.stores.worktree_removal import remove_worktree

    cwd = os.path.realpath(folder)
    repository = _require_repository(cwd)
    new = Worktree(
        id=run_id,
        project=project,
        path=path,
        common=repository.common,
        name=name,
        checkout=repository.top,
        folder=cwd,
        created_at=time.time(),
    )
    names = dict.fromkeys((name or make_short_name(run_id), run_id))
    branches = [f"{_BRANCHES}{each}" for each in names]
    made = make_worktree(new, repository, branches=branches, start=start)
    inside = os.path.normpath(os.path.join(path, os.path.relpath(cwd, repository.top)))
    try:
        _make_inside(path, inside)  # The folder may hold nothing that is committed.
    except WorktreeUnusable:
        with suppress(InspanError):
            remove_worktree(made.worktree, forget=True)
        raise
    return RunPlace(worktree=made.worktree, cwd=inside, is_new=True, warnings=tuple(made.warnings))


def _take_up(state: str, found: Worktree, task: Task) -> RunPlace:
    users = find_worktree_users(state, found.path, agents=True)  # A loop there waits for its own runs.
    if users and task.mode == "exec":
        raise RunBusy(
            f"Run {users[0]} is working in the worktree {found.path}.",
            next_step=f"Wait for it, or stop it: `inspan stop {users[0]}`.",
        )
    worktree = msgspec.structs.replace(load_worktree(found.path) or found, status="ready")
    if not os.path.isdir(worktree.path):
        raise WorktreeUnusable(f"The worktree {worktree.path} has just been removed.", next_step="Try again.")
    _put_back(worktree)
    save_worktree(worktree)
    return RunPlace(worktree=worktree, cwd=task.cwd)


def _require_repository(cwd: str) -> "Repository":
    from inspan.stores.repository import find_repository  # Start-up time, as above.

    repository = find_repository(cwd)
    if repository is None:
        raise WorktreeUnusable(f"{cwd} is in no git repository any more.", next_step="Try again.")
    return repository
