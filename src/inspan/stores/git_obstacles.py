"""Pipes and devices in the place of files that git reads: it would wait for a writer for ever, or read without end.

Whoever can write to a work tree or to git data can put one there.
"""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from inspan.system.tree_walk import walk_tree

_IGNORES, _ATTRIBUTES = ".gitignore", ".gitattributes"
# What git reads in its data for nearly everything that it is asked for.
_DATA = (
    "HEAD",
    "index",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
)
_POINTER, _REF = b"gitdir: ", b"ref: "
_POINTER_BYTES = 4096
_SEARCH_S = 2.0


def find_obstacle(top: str, git_dirs: Sequence[str] = (), *, ignores: bool = True) -> str:
    """A sentence that names the first of such files, at the top of a work tree or in git data; empty where there is
    none. Without `ignores` git is not going to ask what it shall ignore."""
    paths = [os.path.join(top, name) for name in ((_IGNORES, _ATTRIBUTES) if ignores else (_ATTRIBUTES,))]
    found = next((path for path in (*paths, *_list_data(git_dirs)) if _is_endless(path)), "")
    return f"{found} is {_name_kind(found)}, which git would read without an end: delete it." if found else ""


def find_git_dirs(folder: str) -> list[str]:
    """Where the git data of a folder may lie that is a work tree, or git data itself."""
    own = os.path.join(folder, ".git")
    pointer = _read(own)
    if pointer.startswith(_POINTER):
        own = os.path.join(folder, os.fsdecode(pointer.removeprefix(_POINTER).rstrip(b"\r\n")))
    return [folder, own]


def find_deep_obstacle(top: str) -> str:
    """The same for the whole of a work tree, as far as it can be looked through in a moment."""
    deadline = time.monotonic() + _SEARCH_S
    with suppress(OSError):
        for each in walk_tree(top):
            if not each.names and ".git" in each.folders:
                each.folders.remove(".git")
            for name in {_IGNORES, _ATTRIBUTES}.intersection(each.others):
                if stat.S_ISFIFO(os.stat(name, dir_fd=each.fd, follow_symlinks=False).st_mode):
                    path = os.path.join(top, *each.names, name)
                    return f"{path} is a pipe, which git would read without an end: delete it."
            if time.monotonic() > deadline:
                break
    return ""


def _list_data(git_dirs: Sequence[str]) -> Iterator[str]:
    for git_dir in git_dirs:
        head = _read(os.path.join(git_dir, "HEAD"))
        common = os.fsdecode(_read(os.path.join(git_dir, "commondir")).rstrip(b"\r\n"))
        folders = [git_dir, os.path.join(git_dir, common)] if common else [git_dir]
        names = [*_DATA, *([os.fsdecode(head.removeprefix(_REF).rstrip())] if head.startswith(_REF) else [])]
        yield from (os.path.join(folder, name) for folder in folders for name in names)


def _read(path: str) -> bytes:
    """The start of a file; nothing, where there is none or it is no file."""
    with suppress(OSError, ValueError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_POINTER_BYTES)
    return b""


def _is_endless(path: str) -> bool:
    """Whether it is a pipe or a device, or a link to one; the empty device is read at once."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev != os.stat(os.devnull).st_rdev
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISBLK(found.st_mode)


def _name_kind(path: str) -> str:
    return "a pipe" if stat.S_ISFIFO(os.stat(path).st_mode) else "a device"
