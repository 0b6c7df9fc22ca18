"""What the start of a run notes of git data: its end tells by that what was there already, whatever time a file bears.

A file keeps its time when the folder around it is moved, and a folder that was moved keeps its number (inode). So a
file is an old one if its own time is, and if it lies in a folder that has the number which was noted.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from inspan.contracts.sandbox import Box, GitFolders
from inspan.protocol.plan import SeenGit
from inspan.system.paths import is_below
from inspan.system.plain_file import read_plain_file
from inspan.system.programs import helper_path

from .git import QUIET_SETTINGS, find_git, format_settings
from .git_obstacles import find_obstacle
from .repository import read_inode

CLOCK_S = 2.0
SETTINGS = ("config", "config.worktree")
_LONGEST_S = 10.0
_LARGEST_INDEX_BYTES = 1 << 30
# What lies in git data and is looked at by the folder that it is in.
_NOTED = ("", "hooks", "objects/info")
# Of git's folders for objects, each with many files and no others.
_OBJECTS, _FAN_OUT = "objects", re.compile(r"[0-9a-f]{2}")
_TYPE, _GIT_LINK = 0o170000, 0o160000
_LINK_IN_INDEX = _GIT_LINK.to_bytes(4, "big")


class DataFolder(NamedTuple):
    """A folder of git data, and the names of the links and files in it."""

    path: str
    links: list[str]
    files: list[str]


class UnknownIndex(Exception):
    """Why nobody knows what is in an index: a few words."""


def note_git(box: Box) -> SeenGit:
    """What a box starts with, in its folders and in the git data that was found there."""
    if box.read_only:
        return SeenGit()
    listed = _leave_out_inner(each for git in box.repositories for each in (git.common, git.git_dir))
    inside = [each for data in listed for each in walk_git_data(data, objects=False)]
    data = dict.fromkeys((*listed, *box.git_data, *(each.path for each in inside if _is_data_of_its_own(each))))
    links = (os.path.join(each.path, name) for each in inside for name in each.links)
    inner = [path for git in box.repositories for path in _list_inner(git)]
    return SeenGit(
        changed=_read_times(links, earliest=0.0)
        | _read_times(_list_obeyed(box, data), earliest=time.time() - 2 * CLOCK_S),
        folders=_read_numbers((*_list_folders(box, data), *inner)),
        listed=tuple(filter(_can_be_written_down, listed)),
        inner=tuple(filter(_can_be_written_down, inner)),
    )


def walk_git_data(data: str, *, objects: bool = True) -> Iterator[DataFolder]:
    """The folders of git data, outer ones first; without `objects`, those are left out that hold most of them."""
    waiting = [data]
    while waiting:
        folder = waiting.pop()
        links: list[str] = []
        files: list[str] = []
        are_objects = os.path.basename(folder) == _OBJECTS
        with suppress(OSError), os.scandir(folder) as entries:
            for each in entries:
                if each.is_symlink():
                    links.append(each.name)
                elif not each.is_dir(follow_symlinks=False):
                    files.append(each.name)
                elif objects or not (are_objects and _FAN_OUT.fullmatch(each.name)):
                    waiting.append(each.path)
        yield DataFolder(folder, links, files)


def list_git_links(top: str, git_dir: str) -> list[str]:
    """The paths in the index that stand for other repositories; git runs nothing to tell. Raises `UnknownIndex`."""
    if obstacle := find_obstacle(top, [git_dir]):
        raise UnknownIndex(obstacle)
    env = {name: value for name, value in os.environ.items() if name == "HOME"}
    env["PATH"] = helper_path(avoid=(top,))
    env |= format_settings(QUIET_SETTINGS) | {"GIT_DIR": git_dir, "GIT_WORK_TREE": top}
    try:
        done = subprocess.run(
            [find_git(top), "ls-files", "-z", "--stage"],
            cwd=top,
            env=env | {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except FileNotFoundError:
        return []  # Nobody uses git here.
    except subprocess.TimeoutExpired:
        raise UnknownIndex(f"no answer within {_LONGEST_S:g} s") from None
    except OSError as error:
        raise UnknownIndex(error.strerror or str(error)) from None
    if done.returncode:
        raise UnknownIndex(done.stderr.decode(errors="replace").strip().removeprefix("fatal: "))
    lines = (line.partition(b"\t") for line in done.stdout.split(b"\0") if line)
    # git takes for one what has its type, whatever else is set in its mode.
    return [os.fsdecode(path) for mode, _, path in lines if int(mode.partition(b" ")[0], 8) & _TYPE == _GIT_LINK]


def list_index_files(git_dir: str) -> list[str]:
    """The files that an index consists of."""
    with suppress(OSError):
        names = (name for name in os.listdir(git_dir) if name == "index" or name.startswith("sharedindex."))
        return [os.path.join(git_dir, name) for name in names]
    return []


def _list_inner(git: GitFolders) -> list[str]:
    """The folders of the repositories in the index; git is asked only where there seems to be one."""
    try:
        if git.top != git.git_dir and any(map(_seems_to_hold_link, list_index_files(git.git_dir))):
            return [os.path.join(git.top, name) for name in list_git_links(git.top, git.git_dir)]
    except (OSError, UnknownIndex):
        pass
    return []


def _seems_to_hold_link(index: str) -> bool:
    return _LINK_IN_INDEX in read_plain_file(index, most_bytes=_LARGEST_INDEX_BYTES, follow=True)


def _leave_out_inner(folders: Iterable[str]) -> list[str]:
    found = dict.fromkeys(folders)
    return [each for each in found if not any(is_below(each, other) for other in found)]


def _is_data_of_its_own(folder: DataFolder) -> bool:
    """Whether git data lies in other git data, such as a submodule's, and has settings or hooks."""
    has_hooks = os.path.isdir(os.path.join(folder.path, "hooks"))
    return "HEAD" in (*folder.files, *folder.links) and (has_hooks or not {*SETTINGS}.isdisjoint(folder.files))


def _list_obeyed(box: Box, data: Iterable[str]) -> Iterator[str]:
    """The files that git obeys, in git data and elsewhere."""
    yield from (os.path.join(folder, name) for folder in data for name in SETTINGS)
    hooks = (os.path.join(folder, "hooks") for folder in data)
    named = (path for git in box.repositories for path in (*git.files, *git.hooks))
    for path in (*hooks, *named, *box.pinned):
        yield from _list_files(path) if os.path.isdir(path) else [path]


def _list_folders(box: Box, data: Iterable[str]) -> Iterator[str]:
    yield from (os.path.join(folder, name).rstrip(os.sep) for folder in data for name in _NOTED)
    for git in box.repositories:
        yield git.top
        yield from git.hooks
        yield from map(os.path.dirname, git.files)
    yield from box.pinned
    yield from map(os.path.dirname, box.pinned)


def _list_files(folder: str) -> list[str]:
    with suppress(OSError):
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    return []


def _read_times(paths: Iterable[str], *, earliest: float) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in filter(_can_be_written_down, paths):
        with suppress(OSError):
            if (state := os.lstat(path)).st_ctime >= earliest:
                found[path] = state.st_ctime_ns
    return found


def _read_numbers(folders: Iterable[str]) -> dict[str, int]:
    known = {path: read_inode(path) for path in dict.fromkeys(folders) if _can_be_written_down(path)}
    return {path: number for path, number in known.items() if number}


def _can_be_written_down(path: str) -> bool:
    """Any other is told of, rather than noted in a way that nobody can read."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
