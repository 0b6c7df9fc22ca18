"""What differs in a worktree from the commit it began as, now."""

from tempfile import TemporaryDirectory

import msgspec

from .git import SnapshotError, UserGit, run_steps
from .worktree import Worktree
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
        return run_steps(changes_steps(git, worktree.base), limit_s=limit_s)
