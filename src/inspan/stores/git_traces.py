"""What a run that may commit has left in git data for later, and no mount has kept it from leaving.

A mount protects the repositories that were found at the start, and no other; git writes through symbolic links in its
own folder, and looks into a repository inside of another one as soon as somebody asks for the state of the outer one:
then it runs what the inner one's settings name.
"""

import os
import re
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from inspan.contracts.sandbox import Box
from inspan.errors import SandboxUnusable
from inspan.system.inner_folders import open_plain_folder
from inspan.system.paths import is_below
from inspan.system.programs import helper_path
from inspan.system.tree_walk import walk_paths

from .git import QUIET_SETTINGS, find_git, format_settings
from .git_obstacles import find_obstacle
from .git_settings import read_git_sources
from .nested_repositories import search_repositories
from .repository import Repository, find_repository, is_own_git_data, read_bare_repository
from .settings_file import UnreadableSettings, list_file_settings

_LONGEST_S = 10.0
# How many repositories git is asked about, and how much is told: a run could leave any number.
_MOST_ASKED, _MOST_TOLD, _MOST_KEYS = 200, 100, 20
_CLOCK_S = 2.0
_SETTINGS = ("config", "config.worktree")
_ALTERNATES = ("info/alternates", "info/http-alternates")
_SAMPLE = ".sample"
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
_GIT_LINK = b"160000 "
# What every repository has, and what names neither a program nor another file of settings.
_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)"
    r"|remote\.(url|pushurl|fetch|push|tagopt|prune)|branch\.\w+|user\.(name|email|signingkey)|init\.defaultbranch|pull\.\w+|push\.\w+"
    r"|extensions\.(worktreeconfig|objectformat|partialclone)|index\.\w+|submodule\.(url|active)"
    r"|core\.(sparsecheckout|sparsecheckoutcone)"
)


class _Start(NamedTuple):
    """When a run began, and the times of changes that were seen then."""

    at: float
    seen: Mapping[str, int]

    def precedes(self, path: str, found: os.stat_result) -> bool:
        """Whether a file is as it was. By the clock alone, one that was written just before would be the run's."""
        return found.st_ctime < self.at or self.seen.get(path) == found.st_ctime_ns


def list_recent(box: Box) -> dict[str, int]:
    """When files that a box protects were changed, of those that were changed just now: for `disarm_git` to know them
    again."""
    folders = dict.fromkeys(each for git in box.repositories for each in (git.common, git.git_dir))
    data = (os.path.join(folder, name) for folder in folders for name in (*_SETTINGS, "hooks"))
    named = (path for git in box.repositories for path in (*git.files, *git.hooks))
    paths = () if box.read_only else (*data, *named, *box.pinned)
    files = (each for path in paths for each in (_list_files(path) if os.path.isdir(path) else [path]))
    earliest = time.time() - 2 * _CLOCK_S
    found: dict[str, int] = {}
    for path in files:
        with suppress(OSError, UnicodeEncodeError):
            path.encode()  # Any other is told of, rather than noted in a way that nobody can write down.
            if (state := os.lstat(path)).st_ctime >= earliest:
                found[path] = state.st_ctime_ns
    return found


def _list_files(folder: str) -> list[str]:
    with suppress(OSError):
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    return []


def disarm_git(
    folders: Sequence[str], *, since: float, besides: Sequence[str] = (), seen: Mapping[str, int] | None = None
) -> list[str]:
    """Removes links that were made in git data since a time, and tells of these, of hooks and settings by which git
    runs something, and of new repositories inside others. `besides` are folders that the run could not write; `seen` is
    what `list_recent` has found at its start.

    It looks at every repository in the folders, however deep it lies and whoever made it. Nothing is raised: a folder
    that cannot be looked at is told of.
    """
    look = _Look(folders, start=_Start(since - _CLOCK_S, seen or {}), besides=besides)
    for folder in folders:
        look.search(folder)
    return look.list_told()


class _Look:
    """What was looked at, and what there is to tell."""

    def __init__(self, folders: Sequence[str], *, start: _Start, besides: Sequence[str]) -> None:
        self._folders = folders
        self._start = start
        self._besides = besides
        self._told: dict[str, None] = {}
        self._looked_at: set[str] = set()
        self._asked = 0
        self._asks_git = True

    def search(self, folder: str) -> None:
        """The repository that a folder is in, the one that it is itself, and those in it."""
        search = search_repositories(folder, besides=list(self._list_kept(folder)))
        if bare := read_bare_repository(folder):
            self._look_at(bare, [bare.git_dir])
        if outer := find_repository(folder):
            self._look_at(outer, (outer.common, outer.git_dir))
            self._tell(_tell_of_nested(outer, start=self._start))
        for each in search.found:
            self._look_at(each, [path for path in (each.common, each.git_dir) if is_below(path, folder)])
        if not search.is_whole:
            self._tell([f"{folder} holds too many folders: nobody has looked for git repositories in all of them."])

    def list_told(self) -> list[str]:
        told = list(self._told)
        if (more := len(told) - _MOST_TOLD) > 0:
            told[_MOST_TOLD:] = [f"There is more of this: {more} other files. Look at them before you use git there."]
        return told

    def _look_at(self, repository: Repository, git_dirs: Iterable[str]) -> None:
        for git_dir in git_dirs:
            if git_dir not in self._looked_at:
                self._looked_at.add(git_dir)
                self._tell(_look_through(git_dir, start=self._start))
        if repository.top == repository.git_dir or is_own_git_data(repository):
            self._ask_git(repository)
        else:
            self._tell(_tell_of_pointer(repository, start=self._start))

    def _ask_git(self, repository: Repository) -> None:
        """Settings that git cannot read may wait for something that a run has put there, and so may those of others."""
        self._asked += 1
        if self._asks_git and self._asked <= _MOST_ASKED:
            try:
                self._tell(_tell_of_named(repository, self._folders, start=self._start))
            except SandboxUnusable as error:
                self._asks_git = False
                self._tell([f"{error.message} Look at them before you use git there."])
        elif self._asks_git:
            self._tell([f"What git would run in more than {_MOST_ASKED} repositories was not looked at in the others."])

    def _list_kept(self, folder: str) -> Iterator[str]:
        inside = (path for path in self._besides if is_below(path, folder))
        return (path for path in inside if _is_in_place(path, folder, start=self._start))

    def _tell(self, problems: Iterable[str]) -> None:
        self._told |= dict.fromkeys(problems)


def _is_in_place(path: str, folder: str, *, start: _Start) -> bool:
    """Whether a folder that could not be written is still the one it was: those around it could be moved away."""
    while is_below(path, folder):
        try:
            if not start.precedes(path, os.lstat(path)):
                return False
        except OSError:
            return False
        path = os.path.dirname(path)
    return True


def _look_through(git_dir: str, *, start: _Start) -> Iterator[str]:
    """What is new in git data: links go; settings and hooks that make git run something are told of, and what makes it
    show the objects of another repository.
    """
    for folder, names, files in walk_paths(git_dir):
        if folder == git_dir and "objects" in names:
            names.remove("objects")
        for name in (*names, *files):
            path = os.path.join(folder, name)
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if start.precedes(path, found):
                continue
            if stat.S_ISLNK(found.st_mode):
                yield _remove_link(path)
            elif stat.S_ISREG(found.st_mode):
                yield from _tell_of_file(path, found)
    yield from _look_through_objects(os.path.join(git_dir, "objects"), start=start)


def _look_through_objects(objects: str, *, start: _Start) -> Iterator[str]:
    """Of very many files, which are found by their content, none is looked at but links and what names other places."""
    for link in filter(partial(_is_new, start=start), _list_links(objects)):
        yield _remove_link(link)
    for name in _ALTERNATES:
        path = os.path.join(objects, name)
        if _is_new(path, start=start) and os.path.isfile(path):
            yield (
                f"{path} was changed in the run, or from outside meanwhile: git shows the objects of the repositories "
                "that are named there. Look at it before you use git there."
            )


def _list_links(folder: str) -> Iterator[str]:
    folders = [folder]
    if os.path.islink(folder):
        yield folders.pop()
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for each in entries:
                if each.is_symlink():
                    yield each.path
                elif each.is_dir(follow_symlinks=False):
                    folders.append(each.path)


def _tell_of_file(path: str, found: os.stat_result) -> Iterator[str]:
    """Of one that was written in the run; a branch may have the name of a file of settings, and lies in no git data."""
    folder, name = os.path.split(path)
    if name in _SETTINGS and _is_git_data(folder):
        if keys := _list_running_keys(path):
            yield (
                f"{path} was changed in the run, or from outside meanwhile, and names {', '.join(keys)}: git may run "
                "what stands there. Look at it before you use git there."
            )
    elif os.path.basename(folder) == "hooks" and _is_git_data(os.path.dirname(folder)) and _is_hook(name, found):
        yield _describe_hook(path)


def _is_git_data(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "HEAD"))


def _is_hook(name: str, found: os.stat_result) -> bool:
    return bool(found.st_mode & _EXECUTABLE) and stat.S_ISREG(found.st_mode) and not name.endswith(_SAMPLE)


def _describe_hook(path: str) -> str:
    return (
        f"{path} was changed in the run, or from outside meanwhile: git runs it. Look at it before you use git there."
    )


def _tell_of_pointer(repository: Repository, *, start: _Start) -> Iterator[str]:
    """A work tree that was led to the git data of another, where settings and hooks of its own may lie."""
    own = os.path.join(repository.top, ".git")
    pointers = [own] if os.path.isfile(own) else []
    if any(_is_new(path, start=start) for path in (*pointers, os.path.join(repository.git_dir, "commondir"))):
        yield (
            f"{own} was made in the run to name the git data {repository.common}, which does not name "
            f"{repository.top}: git would run what is named there. Delete {own} before you use git there."
        )


def _is_new(path: str, *, start: _Start) -> bool:
    """Whether there is one that was written or put there since; in an empty one, as a box has to mount, nothing is."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not start.precedes(path, found) and found.st_size > 0


def _tell_of_named(repository: Repository, folders: Sequence[str], *, start: _Start) -> Iterator[str]:
    """What settings name among the files, and was changed."""
    sources = read_git_sources(repository)
    data = (repository.git_dir, repository.common)
    hooks = (path for folder in sources.hooks for path in _list_hooks(folder, sources.hooks))
    for path in (*sources.files, *hooks):
        is_looked_at = os.path.dirname(path) in data and os.path.basename(path) in _SETTINGS
        if not is_looked_at and _is_in(path, (*folders, *data)) and _is_new(path, start=start):
            yield _describe_hook(path)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def _list_hooks(folder: str, folders: Sequence[str]) -> Iterator[str]:
    """The hooks in a folder; where one of the `folders` lies in another they are husky's, which a shell reads."""
    are_read = any(is_below(each, folder) or is_below(folder, each) for each in folders)
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                found = each.stat(follow_symlinks=False)
                if _is_hook(each.name, found) or (are_read and stat.S_ISREG(found.st_mode)):
                    yield each.path
    except OSError:
        return


def _list_running_keys(path: str) -> list[str]:
    """The settings in a file that are not known to be harmless; that it cannot be read is told as one."""
    try:
        settings = list_file_settings(path)
    except UnreadableSettings as error:
        return [f"what cannot be read ({error})"]
    found = list(dict.fromkeys(each.kind for each in settings if not _HARMLESS.fullmatch(each.kind)))
    more = len(found) - _MOST_KEYS
    return [*found[:_MOST_KEYS], f"{more} more"] if more > 0 else found


def _remove_link(path: str) -> str:
    """By the folder that it lies in: another run may put a link in the place of that, and none of it may go."""
    try:
        folder = open_plain_folder(os.path.dirname(path))
        try:
            name = os.path.basename(path)
            target = os.readlink(name, dir_fd=folder)
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        return f"{path} was made a link in the run, by which git may write, and cannot be removed: {error.strerror}."
    return f"{path} was made a link to {target} in the run, by which git would have written there: it was removed."


def _tell_of_nested(repository: Repository, *, start: _Start) -> Iterator[str]:
    for name in _list_git_links(repository):
        path = os.path.join(repository.top, name)
        if _is_new(os.path.join(path, ".git"), start=start):
            yield (
                f"The run has put the repository {path} into this one: `git status` runs what its settings name. "
                f"Look at {path}/.git/config first, or rename {path}/.git."
            )


def _list_git_links(repository: Repository) -> list[str]:
    """The paths in the index that stand for other repositories; git runs nothing to list them."""
    if find_obstacle(repository.top, [repository.git_dir]):
        return []
    env = {name: value for name, value in os.environ.items() if name == "HOME"}
    env["PATH"] = helper_path(avoid=(repository.top,))
    env |= format_settings(QUIET_SETTINGS) | {"GIT_DIR": repository.git_dir, "GIT_WORK_TREE": repository.top}
    try:
        done = subprocess.run(
            [find_git(repository.top), "ls-files", "-z", "--stage"],
            cwd=repository.top,
            env=env | {"GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line for line in done.stdout.split(b"\0") if line.startswith(_GIT_LINK)]
    return [os.fsdecode(line.partition(b"\t")[2]) for line in lines]
