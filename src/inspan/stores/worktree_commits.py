"""What only a worktree's own git directory knows: commits that no branch has, and an operation that is not finished.

Both go with the worktree: a commit that was amended, reset or left behind is named by the log of its HEAD alone.
"""

import os
import re
from collections.abc import Iterator

import msgspec

from inspan.system.tree_walk import walk_paths

from .git import SnapshotError, Steps, UserGit, check_step, read_file, try_steps, write_file
from .worktree import Worktree

_OBJECT = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
# Binary, or of what git builds anew; everything else in there is text that may name commits.
_PASSED_OVER = ("index", "info", "objects")
_LOG_BYTES = 64 * 1024 * 1024
# Refs that go with the worktree, and what was saved of others, which their users may delete.
_NOT_KEPT = ("refs/bisect/*", "refs/worktree/*", "refs/rewritten/*", "refs/inspan/*")
_EXCLUDES = tuple(f"--exclude={pattern}" for pattern in _NOT_KEPT)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of git's that waits to be continued, and how it is given up."""

    name: str
    abort: str


# In this order: a rebase stops in the middle of a cherry-pick.
_OPERATIONS = (
    ("rebase-apply/applying", Operation(name="git am", abort="am --abort")),
    ("rebase-apply", Operation(name="a rebase", abort="rebase --abort")),
    ("rebase-merge", Operation(name="a rebase", abort="rebase --abort")),
    ("CHERRY_PICK_HEAD", Operation(name="a cherry-pick", abort="cherry-pick --abort")),
    ("REVERT_HEAD", Operation(name="a revert", abort="revert --abort")),
    ("sequencer", Operation(name="a cherry-pick or revert", abort="cherry-pick --abort")),
    ("BISECT_LOG", Operation(name="a bisect", abort="bisect reset")),
)


def find_operation(git_dir: str) -> Operation | None:
    """The operation in a worktree that was not finished, of those whose state no commit can hold; a merge is none."""
    return next((each for name, each in _OPERATIONS if os.path.lexists(os.path.join(git_dir, name))), None)


def list_unreachable_steps(git: UserGit, worktree: Worktree, git_dir: str) -> Steps[list[list[str]]]:
    """The commits that the worktree's git directory or the log of its branch names, or that lead to these, and that
    neither HEAD, what was saved of it before nor any ref that stays has: each with its parents."""
    head = yield from try_steps(git, "rev-parse", "-q", "--verify", "HEAD^{commit}")
    names = {name.decode() for path in _list_files(worktree, git_dir) for name in _read_objects(path)}
    named = sorted(names - {worktree.base, head, "0" * len(worktree.base)})
    if not named:
        return []
    write_file(git.file("named"), "".join(f"{name}\n" for name in named).encode())
    yield from check_step(git.step("cat-file", "--batch-check", stdin="named", stdout="kinds"))
    rows = [line.split() for line in read_file(git.file("kinds")).decode().splitlines()]
    commits = [row[0] for row in rows if row[1:2] in (["commit"], ["tag"])]
    if not commits:
        return []
    before = yield from find_saved_steps(git, worktree)
    limits = [f"^{before}"] if before else []
    write_file(git.file("named"), "".join(f"{name}\n" for name in [*commits, *limits]).encode())
    # `--all` has HEAD, too, and git refuses it where that is damaged.
    kept = ("--not", *_EXCLUDES, "--all") if head else ("--not", *_EXCLUDES, "--glob=refs/*")
    yield from check_step(git.step("rev-list", "--parents", "--stdin", *kept, stdin="named", stdout="unreachable"))
    return [line.split() for line in read_file(git.file("unreachable")).decode().splitlines()]


def find_saved_steps(git: UserGit, worktree: Worktree) -> Steps[str]:
    """The commit that has what was saved of a worktree before: by its record, since any run could move the ref; by the
    ref where whoever saved it was killed before that was recorded. Empty where there is none."""
    for name in filter(None, (worktree.salvage, worktree.salvage_ref)):
        if found := (yield from try_steps(git, "rev-parse", "-q", "--verify", f"{name}^{{commit}}")):
            return found
    return ""


def find_tips(commits: list[list[str]]) -> list[str]:
    """Those of the commits, each with its parents, from which all of them can be reached."""
    parents = {parent for _, *those in commits for parent in those}
    return [name for name, *_ in commits if name not in parents]


def _list_files(worktree: Worktree, git_dir: str) -> Iterator[str]:
    if worktree.branch:
        yield os.path.join(worktree.common, "logs/refs/heads", worktree.branch)
    for folder, folders, names in walk_paths(git_dir) if git_dir else ():
        if folder == git_dir:
            folders[:] = [name for name in folders if name not in _PASSED_OVER]
            names = [name for name in names if name not in _PASSED_OVER and not name.startswith("sharedindex.")]
        yield from (os.path.join(folder, name) for name in names)


def _read_objects(path: str) -> Iterator[bytes]:
    if not os.path.isfile(path):
        return iter(())
    if os.path.getsize(path) > _LOG_BYTES:
        raise SnapshotError(f"{path} is too large to be looked through for commits.")
    return (found[0] for found in _OBJECT.finditer(read_file(path)))
