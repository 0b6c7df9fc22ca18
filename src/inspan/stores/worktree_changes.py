"""What differs in a worktree from the commit it began as, now."""

from tempfile import TemporaryDirectory

import msgspec

from .git import SnapshotError, Steps, UserGit, run_steps
from .worktree import Worktree
from .worktree_commits import find_operation, list_unreachable_steps
from .worktree_removal import find_common
from .worktree_steps import LIMIT_S, WorktreeChanges, changes_steps, find_linked_git_dir


def inspect_worktree(worktree: Worktree, *, limit_s: float = LIMIT_S) -> WorktreeChanges:
    """Files and commits that the first commit does not have; raises `SnapshotError` where git cannot tell."""
    common = find_common(worktree)
    if not common:
        raise SnapshotError(f"Its repository, {worktree.common}, is gone.")
    worktree = msgspec.structs.replace(worktree, common=common)
    git_dir = find_linked_git_dir(worktree)
    if not git_dir:
        raise SnapshotError("Its repository does not know it any more.")
    # Whoever only looks takes no lock, and may look at the same time as others.
    with TemporaryDirectory(prefix="inspan-") as scratch:
        git = UserGit(folder=worktree.path, scratch=scratch, git_dir=git_dir)
        return run_steps(_inspect_steps(git, worktree, git_dir), limit_s=limit_s)


def _inspect_steps(git: UserGit, worktree: Worktree, git_dir: str) -> Steps[WorktreeChanges]:
    found = yield from changes_steps(git, worktree.base)
    unreachable = yield from list_unreachable_steps(git, worktree, git_dir)
    operation = find_operation(git_dir)
    return msgspec.structs.replace(found, unreachable=len(unreachable), operation=operation.name if operation else "")
