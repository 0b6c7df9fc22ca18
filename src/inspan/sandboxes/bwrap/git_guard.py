"""A repository in which a box can commit, and can leave nothing that git runs later, outside.

git takes hooks and the names of programs from some places in its folder. These are mounted read-only; the folder itself
is a mount point, which can be neither moved nor replaced.
"""

import os
from collections.abc import Iterable, Iterator

from inspan.contracts.sandbox import Box, GitFolders
from inspan.errors import SandboxUnusable
from inspan.system.paths import is_below, is_within

from .view import Mount

# A folder whose `commondir` names another has its configuration and hooks there. One that names itself is what it was
# without, and can be mounted over: git would read any other that a box puts there.
_COMMON_DIR = "commondir"
_ITSELF = ".\n"
_WORKTREE_CONFIG = "config.worktree"
_PER_WORKTREE = (_WORKTREE_CONFIG, _COMMON_DIR, "gitdir")
# Folders from which git takes settings, hooks, addresses and other repositories; made where they are not there.
_PINNED_FOLDERS = ("hooks", "modules", "worktrees", "remotes", "branches")
# They name other repositories, whose objects git then shows as if they were here.
_ALTERNATES = ("objects/info/alternates", "objects/info/http-alternates")
_OBJECT_FOLDERS = ("objects", "objects/info")
# What a commit in a linked worktree writes to of the repository; all else there is of the user's own checkout.
_SHARED = (*_OBJECT_FOLDERS, "refs", "logs/refs")
# Where Git LFS keeps files by their content, in a repository that uses it.
_SHARED_WHERE_USED = ("lfs",)
# What whoever replaces a link comes to, and what to do instead.
_LINKS_TO_GIT = (
    "git would then run",
    "Put a file or a folder in its place, or name the folder of hooks with core.hooksPath.",
)
_LINKS_TO_OURS = ("inspan or git would then obey", "Put a file or a folder in its place, or work in another folder.")


def protect_git(git: GitFolders, box: Box) -> Iterator[Mount]:
    """The mounts, outer ones first among equals; raises `SandboxUnusable` where there is something to be protected that
    a mount does not protect.
    """
    if box.read_only:
        yield from (("--ro-bind", path, path) for path in {git.common: 0, git.git_dir: 0})
        return
    linked = git.git_dir != git.common
    # Of a repository without a work tree, the folder itself is all there is.
    own = [git.common] if git.top == git.common else [os.path.join(git.top, ".git"), git.common]
    shared = list(_list_shared(git)) if linked else [os.path.join(git.common, name) for name in _OBJECT_FOLDERS]
    pinned = [*_list_common(git, linked=linked), *_list_worktree(git), *git.files, *git.hooks]
    for path in (*own, *pinned, *shared):
        _refuse_links(path, git, box)
    _prepare(git, linked=linked)
    pinned = [path for path in pinned if os.path.lexists(path)]
    yield from (("--bind", path, path) for path in _list_between([*own, *pinned], git, box))
    yield ("--ro-bind" if linked else "--bind", git.common, git.common)
    yield from (("--bind", path, path) for path in shared)
    yield from (("--ro-bind", path, path) for path in pinned)
    if linked:
        yield ("--bind", git.git_dir, git.git_dir)


def pin_files(box: Box) -> Iterator[Mount]:
    """The mounts that keep `pinned` files as they are, wherever they lie in what the box may write, and what is hidden
    at its place; raises `SandboxUnusable` as above.
    """
    if box.read_only:
        return
    for path in (*box.pinned, *box.hidden):
        _refuse_links(path, None, box)
        yield from (
            ("--bind", each, each) for each in _keep_open(_list_parents(path, within=_find_root(path, box)), box)
        )
    for path in box.made_files:
        _make_file(path, "")
    for path in box.made_folders:
        os.makedirs(path, mode=0o700, exist_ok=True)
    yield from (("--ro-bind", path, path) for path in box.pinned)


def _list_between(pinned: list[str], git: GitFolders, box: Box) -> Iterator[str]:
    """The folders that lie between one that may be written and what is pinned in it: a mount does not keep the folder
    around it from being moved, with all that is in it, and replaced.
    """
    between = dict.fromkeys(
        folder for path in pinned for folder in _list_parents(path, within=_find_base(path, git, box))
    )
    yield from _keep_open((folder for folder in between if folder not in (git.common, git.git_dir)), box)


def _keep_open(folders: Iterable[str], box: Box) -> Iterator[str]:
    """Those that are not pinned themselves: mounted once more, what lies in them could be written again."""
    fixed = [*box.pinned, *(path for git in box.repositories for path in (*git.files, *git.hooks))]
    yield from (folder for folder in folders if not any(is_within(folder, path) for path in fixed))


def _find_base(path: str, git: GitFolders, box: Box) -> str:
    """The folder around a path that is written as a whole; empty in git data of which only some folders are."""
    if is_below(path, git.git_dir):
        return git.git_dir
    is_read_only = is_below(path, git.common) and not (is_below(path, git.top) and is_below(git.top, git.common))
    return "" if is_read_only else _find_root(path, box)


def _refuse_links(path: str, git: GitFolders | None, box: Box) -> None:
    """A symbolic link cannot be mounted over, and whoever may write the folder that it lies in can replace it."""
    root = _find_root(path, box) or (git.common if git and is_below(path, git.common) else "")
    consequence, step = _LINKS_TO_GIT if git else _LINKS_TO_OURS
    for each in (path, *_list_parents(path, within=root)) if root else ():
        if os.path.islink(each):
            message = f"{each} is a symbolic link, which a sandbox could replace: {consequence} what it finds there."
            raise SandboxUnusable(message, next_step=step)


def _find_root(path: str, box: Box) -> str:
    """The outermost folder with this path in it that may be written; empty where there is none."""
    around = [root for root in (box.cwd, *box.writable) if is_below(path, root)]
    return min(around, key=len, default="")


def _list_parents(path: str, *, within: str) -> Iterator[str]:
    """The folders around a path that lie below another, outer ones first."""
    parts = os.path.relpath(path, within).split(os.sep)[:-1] if within else []
    yield from (os.path.join(within, *parts[: count + 1]) for count in range(len(parts)))


def _prepare(git: GitFolders, *, linked: bool) -> None:
    """Makes what has to be there to be mounted over: a name that is free could be taken."""
    names = _SHARED if linked else (*_OBJECT_FOLDERS, *_PINNED_FOLDERS)
    for folder in (*(os.path.join(git.common, name) for name in names), *git.hooks):
        if not os.path.lexists(folder):
            os.makedirs(folder)
    for path in (*git.files, *(os.path.join(git.common, name) for name in _ALTERNATES)):
        _make_file(path, "")
    # Read as soon as somebody lets git read it, as `git sparse-checkout` does; empty, it says nothing.
    _make_file(os.path.join(git.git_dir, _WORKTREE_CONFIG), "")
    if not linked:
        _make_file(os.path.join(git.common, _COMMON_DIR), _ITSELF)


def _make_file(path: str, text: str) -> None:
    if os.path.lexists(path):
        return
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="ascii") as file:
            file.write(text)
    except (FileExistsError, NotADirectoryError) as error:
        if not os.path.lexists(path):
            raise _refuse_place(path) from error


def _refuse_place(path: str) -> SandboxUnusable:
    return SandboxUnusable(
        f"{path} is named in git's settings, and cannot be made: a file lies where its folder should be. A sandbox "
        "could put a program there.",
        next_step="Take it out of git's settings, as `git config --list --show-origin` shows them.",
    )


def _list_common(git: GitFolders, *, linked: bool) -> list[str]:
    names = () if linked else ("config", _COMMON_DIR, _WORKTREE_CONFIG, *_PINNED_FOLDERS)
    return [os.path.join(git.common, name) for name in (*names, *_ALTERNATES)]


def _list_shared(git: GitFolders) -> Iterator[str]:
    yield from (os.path.join(git.common, name) for name in _SHARED)
    used = (os.path.join(git.common, name) for name in _SHARED_WHERE_USED)
    yield from (path for path in used if os.path.lexists(path))


def _list_worktree(git: GitFolders) -> Iterator[str]:
    if git.git_dir != git.common:
        yield from (os.path.join(git.git_dir, name) for name in _PER_WORKTREE)
