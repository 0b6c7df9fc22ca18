"""Making a worktree for a run, and making one again that was removed. What fails half-way is taken away again."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import msgspec

from inspan.errors import InspanError, WorktreeUnusable

from .git import SnapshotError, Steps, UserGit, check_step, read_steps, run_steps, try_steps
from .repository import Repository
from .worktree import Worktree, save_worktree
from .worktree_removal import clear_leftovers, remove_worktree
from .worktree_salvage import NO_REPLACEMENTS, FoundSalvage, find_salvage_steps
from .worktree_steps import (
    LIMIT_S,
    branch_steps,
    checkout_steps,
    count_uncommitted_steps,
    find_linked_git_dir,
    list_checked_out_steps,
    rewrite_steps,
)

_COMMIT_CHARACTERS = 10
T = TypeVar("T")


class MadeWorktree(NamedTuple):
    """A worktree that is complete, and what its user should know of it."""

    worktree: Worktree
    warnings: list[str]


def make_worktree(
    worktree: Worktree, repository: Repository, *, branches: Sequence[str], start: str = ""
) -> MadeWorktree:
    """Makes the worktree at a commit, HEAD of the checkout where none is named, on the first of these branches that is
    free, without one where none is.

    The caller holds its lock. Raises `WorktreeUnusable`, and then there is none.
    """
    with TemporaryDirectory(prefix="inspan-") as scratch:
        here = UserGit(folder=repository.top, scratch=scratch)
        base = _run(_find_base_steps(here, repository.top, start), worktree)
        worktree = _make_branch(msgspec.structs.replace(worktree, base=base, status="making"), scratch, branches)
        with _take_away_if_it_fails(worktree):
            filters = _run(_make_steps(worktree, scratch), worktree)
            worktree = msgspec.structs.replace(worktree, status="ready")
            save_worktree(worktree)
            uncommitted = _run(_count_steps(here), worktree)
    return MadeWorktree(worktree, [*filter(None, [filters]), *_warn(worktree, uncommitted)])


def restore_worktree(worktree: Worktree) -> MadeWorktree:
    """Makes a removed worktree again, with what was saved of it; the caller holds its lock.

    Raises `WorktreeUnusable`.
    """
    if not os.path.isdir(worktree.common):
        raise WorktreeUnusable(
            f"The worktree {worktree.path} cannot be made again: its repository, {worktree.common}, is gone.",
            next_step="Bring the repository back to that place, or start a new run.",
        )
    with TemporaryDirectory(prefix="inspan-") as scratch:
        found = _find_salvage(worktree, scratch)
        making = msgspec.structs.replace(found.worktree, status="making")
        save_worktree(making)
        filters = _run(_restore_steps(making, scratch), making)
        clear_leftovers(making.path)
        made = msgspec.structs.replace(making, status="ready")
        save_worktree(made)
    return MadeWorktree(made, [*found.warnings, *filter(None, [filters])])


def _find_salvage(worktree: Worktree, scratch: str) -> FoundSalvage:
    try:
        return run_steps(find_salvage_steps(worktree, scratch), limit_s=LIMIT_S)
    except SnapshotError as error:
        raise WorktreeUnusable(
            f"The worktree {worktree.path} cannot be made again as it was: {error}",
            next_step=f"Take what you need from {worktree.patch}, or from a copy of the repository.",
        ) from error


@contextmanager
def _take_away_if_it_fails(worktree: Worktree) -> Generator[None]:
    try:
        yield
    except BaseException:
        with suppress(InspanError):  # Why it could not be made is told; `inspan worktrees prune` tries again.
            remove_worktree(worktree, forget=True)
        raise


def _run(steps: Steps[T], worktree: Worktree) -> T:
    try:
        return run_steps(steps, limit_s=LIMIT_S)
    except SnapshotError as error:
        raise WorktreeUnusable(
            f"A worktree of {worktree.checkout or worktree.common} cannot be made: {error}",
            next_step="Correct that, or leave `worktree` out of --sandbox.",
        ) from error


def _find_base_steps(git: UserGit, top: str, start: str) -> Steps[str]:
    if start:
        if found := (
            yield from try_steps(git, "rev-parse", "-q", "--verify", "--end-of-options", f"{start}^{{commit}}")
        ):
            return found
        step = "Name one that `git log` shows, a branch or a tag."
        raise WorktreeUnusable(f"The repository {top} has no commit {start!r} to begin at.", next_step=step)
    try:
        return (yield from read_steps(git, "rev-parse", "--quiet", "--verify", "HEAD^{commit}"))
    except SnapshotError as error:
        # Without a commit git says nothing, and else what is wrong.
        why = "" if "did not say why" in str(error) else f" {error}"
        branch = yield from try_steps(git, "symbolic-ref", "--short", "HEAD")
        if branch and (yield from try_steps(git, "for-each-ref", "--count=1", "refs/heads")):
            raise WorktreeUnusable(
                f"The branch {branch}, which {top} is on, has no commit that a worktree could be made of.{why}",
                next_step="Make one: git commit --allow-empty -m 'First commit'; or check out a branch that has one.",
            ) from error
        raise WorktreeUnusable(
            f"The repository {top} has no commit that a worktree could be made of.{why}",
            next_step="Make one: git commit --allow-empty -m 'First commit'.",
        ) from error


def _make_branch(worktree: Worktree, scratch: str, names: Sequence[str]) -> Worktree:
    """Makes the first of these branches that can be made. Each is in the record before it is there: whoever is killed
    leaves none behind, and one that is somebody else's is never taken for ours."""
    git = UserGit(folder=worktree.common, scratch=scratch)
    for name in names:
        if _run(try_steps(git, "rev-parse", "-q", "--verify", f"refs/heads/{name}"), worktree):
            continue
        named = msgspec.structs.replace(worktree, branch=name)
        save_worktree(named)
        if _run(branch_steps(git, name, worktree.base), worktree):
            return named
    save_worktree(worktree)
    return worktree


def _make_steps(worktree: Worktree, scratch: str) -> Steps[str]:
    git = UserGit(folder=worktree.common, scratch=scratch)
    filters = yield from checkout_steps(git, worktree.path, worktree.base)
    if worktree.branch:
        yield from _check_out_steps(_git_inside(worktree, scratch), worktree.branch)
    return filters


def _check_out_steps(git: UserGit, branch: str) -> Steps[None]:
    """Puts HEAD on a branch whose commit is checked out already."""
    yield from check_step(git.step("symbolic-ref", "-m", "inspan", "HEAD", f"refs/heads/{branch}"))


def _restore_steps(worktree: Worktree, scratch: str) -> Steps[str]:
    """Checks out what was saved, and then goes back to the commit below it, so that it is uncommitted again."""
    salvage = worktree.salvage
    git = UserGit(folder=worktree.common, scratch=scratch, settings=NO_REPLACEMENTS if salvage else ())
    # Of one that was saved before this was known, it is its own.
    branch = worktree.branch if worktree.on is None else worktree.on
    ref = f"refs/heads/{branch}"
    tip = (yield from try_steps(git, "rev-parse", "-q", "--verify", ref)) if branch else ""
    head = worktree.head if salvage else tip or worktree.head or worktree.base
    filters = yield from checkout_steps(git, worktree.path, salvage or head)
    inside = _git_inside(worktree, scratch)
    if salvage:
        yield from rewrite_steps(worktree, salvage)
    if head != salvage:
        yield from check_step(inside.step("reset", "--quiet", "--mixed", head))
    taken = yield from list_checked_out_steps(git)
    is_own = branch == worktree.branch  # Another one that is gone was deleted by whoever made it.
    is_free = bool(branch) and (
        ref not in taken if tip == head else not tip and is_own and (yield from branch_steps(git, branch, head))
    )
    if is_free:
        yield from _check_out_steps(inside, branch)
    return filters


def _count_steps(git: UserGit) -> Steps[int]:
    try:
        return (yield from count_uncommitted_steps(git))
    except SnapshotError:  # The user's index may be damaged; the worktree does not need it.
        return 0


def _git_inside(worktree: Worktree, scratch: str) -> UserGit:
    return UserGit(folder=worktree.path, scratch=scratch, git_dir=find_linked_git_dir(worktree))


def _warn(worktree: Worktree, uncommitted: int) -> Iterator[str]:
    if uncommitted:
        changes = "1 uncommitted change" if uncommitted == 1 else f"{uncommitted} uncommitted changes"
        are = "is" if uncommitted == 1 else "are"
        yield (
            f"{changes} in {worktree.checkout} {are} not in the worktree, "
            f"which begins at commit {worktree.base[:_COMMIT_CHARACTERS]}."
        )
    if os.path.exists(os.path.join(worktree.path, ".gitmodules")):
        yield "Submodules are empty in the worktree: `git submodule update --init` fills them."
    if not worktree.branch:
        yield "The worktree has no branch: none of its own could be made. Commits in it are kept when it is removed."
