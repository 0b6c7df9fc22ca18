"""From what was asked for to a comparison that can begin: every agent and every start is looked at first."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from inspan.errors import BadInput
from inspan.loop.checks import fill_confinement, run_check
from inspan.loop.prepare import check_loop
from inspan.planning.boundary import drop_place
from inspan.protocol.ids import RunId
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.runs.projects import project_of
from inspan.runs.worktree_runs import adopt
from inspan.stores.git import SnapshotError, Steps, UserGit, run_steps, try_steps
from inspan.stores.patched_files import write_patched_files
from inspan.stores.repository import Repository, find_repository
from inspan.stores.worktree import Worktree, build_worktree_path, lock_worktree
from inspan.stores.worktree_creation import make_worktree
from inspan.stores.worktree_removal import remove_worktree
from inspan.stores.worktree_test_files import lay_patch

from .values import CompareTask, Comparison

_LIMIT_S = 60.0
_PLACE = "worktree"


def prepare_comparison(
    task: Task,
    policy: LoopPolicy,
    *,
    tasks: Sequence[CompareTask],
    agents: Sequence[str],
    times: int,
    explicit: Mapping[str, Any],
    env: Mapping[str, str],
    jobs: int = 0,
) -> Comparison:
    """Raises `InspanError` for whatever would keep a cell from being started; nothing is written.

    A start is a commit from here on, so that all cells begin at the same one, whatever becomes of branches meanwhile.
    """
    if times < 1:
        raise BadInput("--times", times, "each agent has to be tried once.", next_step="Give 1 or more.")
    resolved = tuple(_resolve_start(each) for each in tasks)
    # The worktree is beside the boundary that the configuration says, and not in its place.
    task = msgspec.structs.replace(task, sandbox=_add_place(fill_confinement(task, env=dict(env)).sandbox))
    comparison = Comparison(
        id="",
        created_at=0.0,
        tasks=resolved,
        agents=tuple(dict.fromkeys(agents)),
        times=times,
        task=task,
        policy=policy,
        explicit=dict(explicit),
        jobs=jobs,
    )
    for each in resolved:
        for agent in comparison.agents:
            cell, rules = build_cell(comparison, each, agent)
            check_loop(cell, rules, explicit=explicit, env=env)
    return comparison


def build_cell(comparison: Comparison, task: CompareTask, agent: str) -> tuple[Task, LoopPolicy]:
    """The task and the rules of the loop for one cell."""
    cell = msgspec.structs.replace(
        comparison.task, prompt=task.prompt, cwd=task.cwd, start=task.start, agent=agent, task="default", name=""
    )
    rules = msgspec.structs.replace(
        comparison.policy, checks=task.checks, test_patch=task.test_patch, agents=(agent,), nonce=""
    )
    return cell, rules


async def find_passed_before(
    task: CompareTask, comparison: Comparison, *, state: str, env: dict[str, str]
) -> list[str]:
    """The checks that pass at the start already; an agent that does nothing would pass them, too."""
    repository = _require_repository(task)
    with _make_checkout(task, repository, state=state, comparison=comparison) as cwd:
        results = [
            await run_check(
                check,
                msgspec.structs.replace(comparison.task, cwd=cwd, sandbox=drop_place(comparison.task.sandbox)),
                attempt=0,
                run_id=RunId(comparison.id),
                env=env,
                cwd=cwd,
                timeout_s=comparison.policy.check_timeout_s,
            )
            for check in task.checks
        ]
    return [each.check for each in results if each.passed]


@contextmanager
def _make_checkout(task: CompareTask, repository: Repository, *, state: str, comparison: Comparison) -> Generator[str]:
    project = project_of(task.cwd)
    # The name of a worktree that `inspan worktrees` knows, and the same one for whoever goes on with the comparison.
    name = f"{comparison.id}{[each.name for each in comparison.tasks].index(task.name):05d}"
    path = build_worktree_path(state, project=project, run_id=name)
    new = Worktree(
        id=name,
        project=project,
        path=path,
        common=repository.common,
        checkout=repository.top,
        folder=os.path.realpath(task.cwd),
        created_at=comparison.created_at,
    )
    with lock_worktree(path):
        if left := adopt(path):  # By a process that was killed while it looked.
            _remove(left)
        made = make_worktree(new, repository, branches=[], start=task.start).worktree
        try:
            if task.test_patch:
                lay_patch(made, task.test_patch)
            inside = os.path.join(path, os.path.relpath(os.path.realpath(task.cwd), repository.top))
            yield os.path.normpath(inside)
        finally:
            _remove(made)


def _remove(worktree: Worktree) -> None:
    remove_worktree(worktree, forget=True, discard=True)  # What checks leave behind is nobody's work.


def _resolve_start(task: CompareTask) -> CompareTask:
    repository = _require_repository(task)
    with TemporaryDirectory(prefix="inspan-") as scratch:
        git = UserGit(folder=repository.top, scratch=scratch)
        try:
            commit = run_steps(_find_commit_steps(git, task.start or "HEAD"), limit_s=_LIMIT_S)
            status = run_steps(try_steps(git, "status", "--porcelain", "-unormal"), limit_s=_LIMIT_S).splitlines()
        except SnapshotError as error:
            raise BadInput("start", task.start, f"git says: {error}", next_step="Correct that.") from error
    if not commit:
        step = (
            "Name a commit, a branch or a tag" if task.start else "Make one: git commit --allow-empty -m 'First commit'"
        )
        raise BadInput("start", task.start or "HEAD", f"{repository.top} has no such commit.", next_step=f"{step}.")
    if task.test_patch:
        _check_patch(task, repository, commit)
    untracked = sum(line.startswith("??") for line in status)
    if (count := len(status) - untracked) and not task.start:
        problem = (
            f"{count} tracked {'file has' if count == 1 else 'files have'} changes that no agent would get to see."
        )
        step = "Commit or stash them, or say that they are left out: --start HEAD."
        raise BadInput("cwd", repository.top, problem, next_step=step)
    return msgspec.structs.replace(task, start=commit, cwd=os.path.realpath(task.cwd), untracked=untracked)


def _check_patch(task: CompareTask, repository: Repository, commit: str) -> None:
    """Raises `BadInput` where it does not fit: no work of an agent could be judged by its tests."""
    with TemporaryDirectory(prefix="inspan-") as scratch:
        try:
            write_patched_files(repository.common, commit, task.test_patch, folder=scratch)
        except (SnapshotError, OSError) as error:
            step = "Correct the instance, or leave its test_patch out."
            problem = f"it cannot be applied to {commit}: {error}"
            raise BadInput("test_patch", task.name, problem, next_step=step) from error


def _find_commit_steps(git: UserGit, name: str) -> Steps[str]:
    return try_steps(git, "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")


def _require_repository(task: CompareTask) -> Repository:
    repository = find_repository(os.path.realpath(task.cwd))
    if repository is None:
        step = "`git init` there and commit: each agent works in a worktree of its own."
        raise BadInput("cwd", task.cwd, "it is in no git repository.", next_step=step)
    return repository


def _add_place(sandbox: str) -> str:
    parts = [part for part in sandbox.split("+") if part and part != _PLACE]
    return "+".join([_PLACE, *parts])
