"""The repositories that lie in a folder: those that a sandbox protects from its start, and all there are at its end.

A search takes time for each folder. At the start it is near and short, since an agent waits for it; at the end it is
wide, and what the start has not seen is looked at by what was changed.
"""

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from inspan.errors import SandboxUnusable

from .repository import Repository, find_git_data_around, find_repository, read_bare_repository, read_work_tree

_NESTED_LEVELS, _MOST_FOLDERS, _MOST_NESTED = 3, 50_000, 50
# How many folders below the first levels are opened or looked at before an agent starts: up to 10 microseconds each.
_MOST_DEEPER = 1_000
# Thousands of folders, hardly ever a repository: of these, the start looks at the first levels alone.
_PACKAGES = frozenset(("node_modules", "site-packages"))


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The repositories that were found; `is_whole` tells that there was no folder which nobody looked at."""

    found: tuple[Repository, ...]
    is_whole: bool


class NestedRepositories(msgspec.Struct, frozen=True, kw_only=True):
    """The repositories that a sandbox protects, and those that are a project's own files, and that it may write."""

    found: tuple[Repository, ...] = ()
    unprotected: tuple[Repository, ...] = ()


def find_nested_repositories(folder: str, *, besides: Collection[str] = ()) -> NestedRepositories:
    """The repositories below a folder, of which a sandbox protects most: all in its first levels, and deeper ones as
    far as a short search finds them. Raises `SandboxUnusable` for more in the first levels than can be looked at or
    protected.

    `besides` are folders that are not looked into, because nobody can write them.
    """
    found: list[Repository] = []
    unprotected: list[Repository] = []
    near, deeper = 0, 0
    for depth, each in _walk(folder, besides=besides, packages=False):
        inner = each.inner
        if depth > _NESTED_LEVELS:
            deeper += 1 + len(inner)
            if deeper > _MOST_DEEPER or len(found) >= _MOST_NESTED:
                break
        else:
            near += len(inner)
            if near > _MOST_FOLDERS:  # A run may have made them, so that the next one finds no repository.
                _refuse_folders(folder)
        found += [repository for path in inner if (repository := read_work_tree(path))]
        if depth > 1 and each.has_head and (bare := read_bare_repository(each.path)):
            (found if _is_to_protect(bare) else unprotected).append(bare)
        if depth <= _NESTED_LEVELS and len(found) > _MOST_NESTED:
            _refuse_repositories(folder)
    return NestedRepositories(found=tuple(found[:_MOST_NESTED]), unprotected=tuple(unprotected))


def search_repositories(folder: str, *, besides: Collection[str] = ()) -> Search:
    """All repositories below a folder, with those that have no work tree, however deep they lie; up to a large number
    of folders.
    """
    found: list[Repository] = []
    for count, (depth, each) in enumerate(_walk(folder, besides=besides, packages=True), 1):
        if count > _MOST_FOLDERS:
            return Search(found=tuple(found), is_whole=False)
        if depth > 1 and (repository := _find_repository_in(each)):
            found.append(repository)
    return Search(found=tuple(found), is_whole=True)


def _find_repository_in(folder: "_Folder") -> Repository | None:
    """What its names let expect is looked for: that saves three looks at nearly every folder."""
    if folder.has_pointer and (repository := read_work_tree(folder.path)):
        return repository
    return read_bare_repository(folder.path) if folder.has_head else None


def _is_to_protect(bare: Repository) -> bool:
    """Whether one without a work tree is used from worktrees, or lies in no work tree. Others are files of a project,
    for its tests; what lies in git data is a part of it.
    """
    if bare.common != bare.git_dir or find_git_data_around(os.path.dirname(bare.top)):
        return False
    return os.path.isdir(os.path.join(bare.top, "worktrees")) or not find_repository(bare.top)


class _Folder(NamedTuple):
    """A folder that was opened, and the ones in it."""

    path: str
    inner: list[str]
    has_pointer: bool = False
    has_head: bool = False


def _walk(folder: str, *, besides: Collection[str], packages: bool) -> Iterator[tuple[int, _Folder]]:
    """The folders, outer ones first, each with how deep those in it lie. Without `packages`, such ones are left out
    below the first levels.
    """
    level, depth = [folder], 0
    while level:
        depth += 1
        below: list[str] = []
        for each in level:
            opened = _open_folder(each, besides=besides)
            yield depth, opened
            below += opened.inner
        are_left_out = not packages and depth >= _NESTED_LEVELS
        if are_left_out:
            below = [path for path in below if _PACKAGES.isdisjoint(path[len(folder) :].split(os.sep))]
        level = below


def _open_folder(folder: str, *, besides: Collection[str]) -> _Folder:
    inner: list[str] = []
    has_pointer = has_head = False
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name == ".git":
                    has_pointer = True
                elif each.is_dir(follow_symlinks=False):
                    inner.append(each.path)
                elif each.name == "HEAD":
                    has_head = True
    except OSError:
        return _Folder(folder, [])
    return _Folder(folder, [path for path in inner if path not in besides] if besides else inner, has_pointer, has_head)


def _refuse_folders(folder: str) -> None:
    raise SandboxUnusable(
        f"{folder} holds more than {_MOST_FOLDERS} folders in {_NESTED_LEVELS} levels, too many to look for "
        "repositories that a sandbox must protect.",
        next_step="Make large ones read-only, which are not looked into: --read FOLDER. Or work in one of them.",
    )


def _refuse_repositories(folder: str) -> None:
    raise SandboxUnusable(
        f"{folder} holds more than {_MOST_NESTED} git repositories in {_NESTED_LEVELS} levels, more than a sandbox can "
        "protect.",
        next_step="Make folders with others read-only, which need no more protection: --read FOLDER. Or work in one.",
    )
