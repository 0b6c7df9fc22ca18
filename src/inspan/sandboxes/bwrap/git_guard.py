"""A repository in which a box can commit, and can leave nothing that git runs later, outside.

git takes hooks and the names of programs from some places in its folder. These are mounted read-only; the folder itself
is a mount point, which can be neither moved nor replaced.
"""

import os
from collections.abc import Iterator

from inspan.contracts.sandbox import GitFolders

from .view import Mount

# A folder whose `commondir` names another has its configuration and hooks there. One that names itself is what it was
# without, and can be mounted over: git would read any other that a box puts there.
_COMMON_DIR = "commondir"
_ITSELF = ".\n"
_WORKTREE_CONFIG = "config.worktree"
_PER_WORKTREE = (_WORKTREE_CONFIG, _COMMON_DIR, "gitdir")


def protect_git(git: GitFolders, *, writable: bool) -> Iterator[Mount]:
    """The mounts, outer ones first among equals."""
    if not writable:
        yield from (("--ro-bind", path, path) for path in {git.common: 0, git.git_dir: 0})
        return
    _prepare(git.common)
    yield ("--bind", git.common, git.common)
    pinned = (*_list_common(git), *_list_worktree(git), *_list_outside(git))
    yield from (("--ro-bind", path, path) for path in pinned if os.path.exists(path))
    if git.git_dir != git.common:
        yield ("--bind", git.git_dir, git.git_dir)


def _prepare(common: str) -> None:
    """Makes what has to be there to be mounted over: a name that is free could be taken."""
    os.makedirs(os.path.join(common, "hooks"), exist_ok=True)
    _make_file(os.path.join(common, _COMMON_DIR), _ITSELF)
    if _has_worktree_config(common):
        _make_file(os.path.join(common, _WORKTREE_CONFIG), "")


def _make_file(path: str, text: str) -> None:
    try:
        with open(path, "x", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        pass


def _has_worktree_config(common: str) -> bool:
    """Whether git reads a second file of settings there; one that says so in a way of its own is not an obstacle."""
    with open(os.path.join(common, "config"), encoding="utf-8", errors="replace") as file:
        return "worktreeconfig" in file.read().lower()


def _list_common(git: GitFolders) -> Iterator[str]:
    names = ("config", "hooks", _COMMON_DIR, _WORKTREE_CONFIG, "modules", "worktrees")
    yield from (os.path.join(git.common, name) for name in names)


def _list_worktree(git: GitFolders) -> Iterator[str]:
    if git.git_dir != git.common:
        yield from (os.path.join(git.git_dir, name) for name in _PER_WORKTREE)


def _list_outside(git: GitFolders) -> Iterator[str]:
    """The pointers of work trees to their git data, and hooks that lie among the files."""
    yield from (path for tree in (git.top, *git.submodules) if os.path.isfile(path := os.path.join(tree, ".git")))
    if git.hooks:
        yield git.hooks
