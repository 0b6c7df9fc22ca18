"""A repository in which a box can commit, and can leave nothing that git runs later, outside.

git takes hooks and the names of programs from some places in its folder. These are mounted read-only; the folder itself
is a mount point, which can be neither moved nor replaced.
"""

import os
from collections.abc import Iterator

from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import SandboxUnusable

from .view import Mount

# A folder whose `commondir` names another has its configuration and hooks there. One that names itself is what it was
# without, and can be mounted over: git would read any other that a box puts there.
_COMMON_DIR = "commondir"
_ITSELF = ".\n"
_WORKTREE_CONFIG = "config.worktree"
_PER_WORKTREE = (_WORKTREE_CONFIG, _COMMON_DIR, "gitdir")
# Folders from which git takes settings, hooks, addresses and other repositories; made where they are not there.
_PINNED_FOLDERS = ("hooks", "modules", "worktrees", "remotes", "branches")
# What a commit in a linked worktree writes to of the repository; all else there is of the user's own checkout.
_SHARED = ("objects", "refs", "logs/refs")


def protect_git(git: GitFolders, box: Box) -> Iterator[Mount]:
    """The mounts, outer ones first among equals; raises `SandboxUnusable` where there is something to be protected that
    a mount does not protect.
    """
    if box.read_only:
        yield from (("--ro-bind", path, path) for path in {git.common: 0, git.git_dir: 0})
        return
    linked = git.git_dir != git.common
    own = os.path.join(git.top, ".git")
    shared = [os.path.join(git.common, name) for name in _SHARED] if linked else []
    pinned = [] if linked else _list_common(git)
    pinned = [*pinned, *_list_worktree(git), *git.files, *git.hooks]
    for path in (own, *pinned, *shared):
        _refuse_links(path, git, box)
    _prepare(git, linked=linked)
    pinned = [path for path in pinned if os.path.lexists(path)]
    yield from (("--bind", path, path) for path in _list_between([own, *pinned], git, box))
    yield ("--ro-bind" if linked else "--bind", git.common, git.common)
    yield from (("--bind", path, path) for path in shared)
    yield from (("--ro-bind", path, path) for path in pinned)
    if linked:
        yield ("--bind", git.git_dir, git.git_dir)


def pin_files(box: Box) -> Iterator[Mount]:
    """The mounts that keep `pinned` files as they are, wherever they lie in what the box may write."""
    for path in box.pinned if not box.read_only else ():
        _refuse_links(path, None, box)
        yield from (("--bind", folder, folder) for folder in _list_parents(path, within=_find_root(path, box)))
        yield ("--ro-bind", path, path)


def _list_between(pinned: list[str], git: GitFolders, box: Box) -> Iterator[str]:
    """The folders that lie between one that may be written and what is pinned in it: a mount does not keep the folder
    around it from being moved, with all that is in it, and replaced.
    """
    yield from dict.fromkeys(
        folder
        for path in pinned
        if not _is_within(path, git.common)
        for folder in _list_parents(path, within=_find_root(path, box))
    )


def _refuse_links(path: str, git: GitFolders | None, box: Box) -> None:
    """A symbolic link cannot be mounted over, and whoever may write the folder that it lies in can replace it."""
    root = _find_root(path, box) or (git.common if git and _is_within(path, git.common) else "")
    for each in (path, *_list_parents(path, within=root)) if root else ():
        if os.path.islink(each):
            raise SandboxUnusable(
                f"{each} is a symbolic link, which a sandbox could replace: git would then run what it finds there.",
                next_step="Put a file or a folder in its place, or name the folder of hooks with core.hooksPath.",
            )


def _find_root(path: str, box: Box) -> str:
    """The outermost folder with this path in it that may be written; empty where there is none."""
    around = [root for root in (box.cwd, *box.writable) if _is_within(path, root)]
    return min(around, key=len, default="")


def _list_parents(path: str, *, within: str) -> Iterator[str]:
    """The folders around a path that lie below another, outer ones first."""
    parts = os.path.relpath(path, within).split(os.sep)[:-1] if within else []
    yield from (os.path.join(within, *parts[: count + 1]) for count in range(len(parts)))


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _prepare(git: GitFolders, *, linked: bool) -> None:
    """Makes what has to be there to be mounted over: a name that is free could be taken."""
    names = _SHARED if linked else _PINNED_FOLDERS
    for folder in (*(os.path.join(git.common, name) for name in names), *git.hooks):
        if not os.path.lexists(folder):
            os.makedirs(folder)
    for path in git.files:
        _make_file(path, "")
    if linked:
        return
    _make_file(os.path.join(git.common, _COMMON_DIR), _ITSELF)
    if _has_worktree_config(git.common):
        _make_file(os.path.join(git.common, _WORKTREE_CONFIG), "")


def _make_file(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "x", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        pass


def _has_worktree_config(common: str) -> bool:
    """Whether git reads a second file of settings there; one that says so in a way of its own is not an obstacle."""
    path = os.path.join(common, "config")
    if not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return "worktreeconfig" in file.read().lower()


def _list_common(git: GitFolders) -> list[str]:
    names = ("config", _COMMON_DIR, _WORKTREE_CONFIG, *_PINNED_FOLDERS)
    return [os.path.join(git.common, name) for name in names]


def _list_worktree(git: GitFolders) -> Iterator[str]:
    if git.git_dir != git.common:
        yield from (os.path.join(git.git_dir, name) for name in _PER_WORKTREE)
