"""What a run that may commit has left in git data for later, and no mount has kept it from leaving.

A mount protects the repositories that were found at the start, and no other; git writes through symbolic links in its
own folder, and looks into a repository inside of another one as soon as somebody asks for the state of the outer one:
then it runs what the inner one's settings name.

What was git data at the start is judged by what was changed in it. In what has become git data since, all is new,
however old its files are: a run could have left them where nobody looks for git data, for the next one to put there.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspan.errors import SandboxUnusable
from inspan.protocol.plan import SeenGit
from inspan.system.inner_folders import open_plain_folder
from inspan.system.paths import is_below, is_within

from .git_notes import CLOCK_S, SETTINGS, DataFolder, UnknownIndex, list_git_links, list_index_files, walk_git_data
from .git_settings import read_git_sources
from .nested_repositories import search_repositories
from .repository import Repository, find_repository, is_own_git_data, read_bare_repository, read_inode
from .settings_file import UnreadableSettings, list_file_settings

# How many repositories and files git is asked about, and how much is told: a run could leave any number.
_MOST_ASKED, _MOST_TOLD, _MOST_KEYS = 200, 100, 20
_ALTERNATES = ("objects/info/alternates", "objects/info/http-alternates")
_SAMPLE = ".sample"
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
# What every repository has, and what names neither a program nor another file of settings.
_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)"
    r"|remote\.(url|pushurl|fetch|push|tagopt|prune)|branch\.\w+|user\.(name|email|signingkey)|init\.defaultbranch|pull\.\w+|push\.\w+"
    r"|extensions\.(worktreeconfig|objectformat|partialclone)|index\.\w+|submodule\.(url|active)"
    r"|core\.(sparsecheckout|sparsecheckoutcone)"
)
_IN_FAN_OUT = re.compile(r"/objects/[0-9a-f]{2}/")


class _Start:
    """What was there when a run began: by the times that were noted, by the numbers of folders, and, where nothing was
    noted, by the times of all folders around. `roots` are those that the run could not move.
    """

    def __init__(self, at: float, seen: SeenGit, roots: Iterable[str]) -> None:
        self._at = at
        self._seen = seen
        self._roots = sorted({each for root in roots for each in (root, os.path.realpath(root))}, key=len)
        self._settled: dict[str, bool] = {}

    def precedes(self, path: str, found: os.stat_result) -> bool:
        """Whether a file is as it was. By the clock alone, one that was written just before would be the run's."""
        return found.st_ctime < self._at or self._seen.changed.get(path) == found.st_ctime_ns

    def knows(self, folder: str) -> bool:
        return self._seen.folders.get(folder, -1) == read_inode(folder)

    def settles(self, folder: str) -> bool:
        """Whether a folder is where it was, so that its files are as old as they say."""
        if folder not in self._settled:
            self._settled[folder] = self.knows(folder) or self.is_in_place(folder)
        return self._settled[folder]

    def is_in_place(self, path: str) -> bool:
        """By the times alone: those around it could be moved away, and something else be put there."""
        return all(map(self._is_older, dict.fromkeys((path, os.path.realpath(path)))))

    def has_listed(self, link: str) -> bool:
        """Whether links as they were are all noted, where this one lies."""
        listed = [data for data in self._seen.listed if is_below(link, data)]
        return any(map(self.knows, listed)) and not _IN_FAN_OUT.search(link)

    def has_noted(self, link: str, found: os.stat_result) -> bool:
        return self._seen.changed.get(link) == found.st_ctime_ns

    def is_inner(self, folder: str) -> bool:
        """Whether an index had this folder as a repository inside, and it still is the one it was."""
        return folder in self._seen.inner and self.knows(folder)

    def _is_older(self, path: str) -> bool:
        root = next((each for each in self._roots if is_within(path, each)), os.sep)
        while is_below(path, root):
            try:
                if not self.precedes(path, os.lstat(path)):
                    return False
            except OSError:
                return False
            path = os.path.dirname(path)
        return True


class _Data(NamedTuple):
    """Git data; whether it was that already, and whether the run could write it."""

    path: str
    is_old: bool
    is_exposed: bool


def disarm_git(
    folders: Sequence[str], *, since: float, besides: Sequence[str] = (), seen: SeenGit | None = None
) -> list[str]:
    """Removes links that were made in git data since a time, and tells of these, of hooks and settings by which git
    runs something, and of new repositories inside others. `besides` are folders that the run could not write; `seen` is
    what `note_git` has found at its start.

    It looks at every repository in the folders, however deep it lies and whoever made it, and at the git data of each,
    wherever that lies. Nothing is raised: a folder that cannot be looked at is told of.
    """
    look = _Look(folders, since=since - CLOCK_S, seen=seen or SeenGit(), besides=besides)
    for folder in folders:
        look.search(folder)
    return look.list_told()


class _Look:
    """What was looked at, and what there is to tell."""

    def __init__(self, folders: Sequence[str], *, since: float, seen: SeenGit, besides: Sequence[str]) -> None:
        self._exposed = [*folders, *seen.listed]
        self._folders = folders
        self._start = _Start(since, seen, self._exposed)
        self._besides = besides
        self._told: dict[str, None] = {}
        self._looked_at: set[str] = set()
        self._asked = self._read = 0
        self._asks_git = True

    def search(self, folder: str) -> None:
        """The repository that a folder is in, the one that it is itself, and those in it."""
        search = search_repositories(folder, besides=list(self._list_kept(folder)))
        if bare := read_bare_repository(folder):
            self._look_at(bare)
        if outer := find_repository(folder):
            self._look_at(outer)
            self._look_inside(outer)
        for each in search.found:
            self._look_at(each)
            if self._is_old(each) and self._has_new_index(each):
                self._look_inside(each)
        if not search.is_whole:
            self._tell([f"{folder} holds too many folders: nobody has looked for git repositories in all of them."])

    def list_told(self) -> list[str]:
        told = list(self._told)
        if (more := len(told) - _MOST_TOLD) > 0:
            told[_MOST_TOLD:] = [f"There is more of this: {more} other files. Look at them before you use git there."]
        return told

    def _look_at(self, repository: Repository) -> None:
        is_old = self._is_old(repository)
        for path in (repository.common, repository.git_dir):
            if path not in self._looked_at:
                self._looked_at.add(path)
                is_exposed = _is_in(path, self._exposed) or _is_in(os.path.realpath(path), self._exposed)
                self._look_through(_Data(path, is_old or self._start.knows(path), is_exposed))
        if repository.top == repository.git_dir or is_own_git_data(repository):
            self._ask_git(repository)
        elif not is_old:
            self._tell([_describe_pointer(repository)])

    def _is_old(self, repository: Repository) -> bool:
        """Whether it was a repository at the start, of the same git data."""
        start, data = self._start, (repository.git_dir, repository.common)
        pointers = [os.path.join(repository.git_dir, "commondir")]
        if repository.top != repository.git_dir:
            pointers.append(os.path.join(repository.top, ".git"))
        if all(map(start.knows, data)):
            files = [path for path in pointers if os.path.isfile(path)]
            return not any(self._is_new(path, is_old=True) for path in files)
        # Of a folder that the run works in itself, nothing tells when it has become git data.
        if repository.git_dir in self._folders:
            return False
        paths = (*data, os.path.join(repository.git_dir, "HEAD"), *filter(os.path.lexists, pointers))
        return all(map(start.is_in_place, paths))

    def _look_through(self, data: _Data) -> None:
        """What is new in git data: links go; settings and hooks that make git run something are told of, and what makes
        it show the objects of another repository.
        """
        known: dict[str, bool] = {}
        for folder in walk_git_data(data.path):
            path, (around, name) = folder.path, os.path.split(folder.path)
            if path == data.path:
                known[path] = data.is_old
            elif "HEAD" in (*folder.files, *folder.links):
                known[path] = data.is_old and self._start.settles(path)
            if path in known:
                self._tell(self._tell_of_settings(folder, is_old=known[path]))
            elif name == "hooks" and around in known:
                self._tell(self._tell_of_hooks(folder, is_old=known[around]))
            self._tell(self._tell_of_links(folder, data))
        self._tell(self._tell_of_alternates(data))

    def _tell_of_settings(self, folder: DataFolder, *, is_old: bool) -> Iterator[str]:
        """A branch may have the name of a file of settings, and lies in no git data."""
        for path in (os.path.join(folder.path, name) for name in SETTINGS if name in folder.files):
            if self._is_new(path, is_old=is_old) and (keys := self._list_running_keys(path)):
                yield (
                    f"{path} was changed in the run, or from outside meanwhile, and names {', '.join(keys)}: git may "
                    "run what stands there. Look at it before you use git there."
                )

    def _tell_of_hooks(self, folder: DataFolder, *, is_old: bool) -> Iterator[str]:
        for path in (os.path.join(folder.path, name) for name in folder.files):
            if _is_hook(path) and self._is_new(path, is_old=is_old, is_empty_told=True):
                yield _describe_hook(path)

    def _tell_of_links(self, folder: DataFolder, data: _Data) -> Iterator[str]:
        """Those of the run go. One that may be the user's own, and was moved with what is around it, is told of."""
        for path in (os.path.join(folder.path, name) for name in folder.links):
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if self._start.has_noted(path, found):
                continue
            if data.is_exposed and (not self._start.precedes(path, found) or self._start.has_listed(path)):
                yield _remove_link(path)
            elif not (data.is_old and self._start.precedes(path, found) and self._start.settles(folder.path)):
                yield (
                    f"{path} is a link in what the run, or somebody outside meanwhile, has put there: git may write "
                    "where it leads to. Look at it before you use git there."
                )

    def _tell_of_alternates(self, data: _Data) -> Iterator[str]:
        for path in (os.path.join(data.path, name) for name in _ALTERNATES):
            if os.path.isfile(path) and self._is_new(path, is_old=data.is_old):
                yield (
                    f"{path} was changed in the run, or from outside meanwhile: git shows the objects of the "
                    "repositories that are named there. Look at it before you use git there."
                )

    def _is_new(self, path: str, *, is_old: bool, is_empty_told: bool = False) -> bool:
        """Whether there is a file that was written or put there since, or lies in what has become git data since; in an
        empty one, as a box has to mount, nothing stands.
        """
        try:
            found = os.lstat(path)
        except OSError:
            return False
        if not found.st_size and not is_empty_told:
            return False
        return not (is_old and self._start.precedes(path, found) and self._start.settles(os.path.dirname(path)))

    def _list_running_keys(self, path: str) -> list[str]:
        """The settings in a file that are not known to be harmless; that it cannot be read is told as one."""
        self._read += 1
        if self._read > _MOST_ASKED:
            return ["what nobody has read"]
        try:
            settings = list_file_settings(path, avoid=self._folders)
        except UnreadableSettings as error:
            return [f"what cannot be read ({error})"]
        found = list(dict.fromkeys(each.kind for each in settings if not _HARMLESS.fullmatch(each.kind)))
        more = len(found) - _MOST_KEYS
        return [*found[:_MOST_KEYS], f"{more} more"] if more > 0 else found

    def _ask_git(self, repository: Repository) -> None:
        """Settings that git cannot read may wait for something that a run has put there, and so may those of others."""
        self._asked += 1
        if self._asks_git and self._asked <= _MOST_ASKED:
            try:
                self._tell(self._tell_of_named(repository))
            except SandboxUnusable as error:
                self._asks_git = False
                self._tell([f"{error.message} Look at them before you use git there."])
        elif self._asks_git:
            self._tell([f"What git would run in more than {_MOST_ASKED} repositories was not looked at in the others."])

    def _tell_of_named(self, repository: Repository) -> Iterator[str]:
        """What settings name among the files, and was changed."""
        sources = read_git_sources(repository)
        exposed = (*self._folders, repository.git_dir, repository.common)
        hooks = (path for folder in sources.hooks for path in _list_hooks(folder, sources.hooks))
        is_old = self._is_old(repository)
        for path in (*sources.files, *hooks):
            folder, name = os.path.split(path)
            is_looked_at = folder in self._looked_at and name in SETTINGS
            if is_looked_at or not _is_in(path, exposed):
                continue
            if self._is_new(path, is_old=is_old or self._start.knows(folder)):
                yield _describe_hook(path)

    def _look_inside(self, repository: Repository) -> None:
        """The repositories that the index has now, and did not have."""
        self._asked += 1
        if self._asked > _MOST_ASKED:
            self._tell([f"What git would run in more than {_MOST_ASKED} repositories was not looked at in the others."])
            return
        try:
            names = list_git_links(repository.top, repository.git_dir)
        except UnknownIndex as error:
            self._tell(
                [
                    f"Whether the run has put repositories into {repository.top} is not known ({error}): `git status` "
                    "would run what their settings name. Look at its index before you use git there."
                ]
            )
            return
        self._tell(self._tell_of_inner(os.path.join(repository.top, name) for name in names))

    def _tell_of_inner(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            if self._is_new(os.path.join(path, ".git"), is_old=self._start.is_inner(path)):
                yield (
                    f"The run has put the repository {path} into this one: `git status` runs what its settings name. "
                    f"Look at {path}/.git/config first, or rename {path}/.git."
                )

    def _has_new_index(self, repository: Repository) -> bool:
        is_bare = repository.top == repository.git_dir
        return not is_bare and any(self._is_new(path, is_old=True) for path in list_index_files(repository.git_dir))

    def _list_kept(self, folder: str) -> Iterator[str]:
        inside = (path for path in self._besides if is_below(path, folder))
        return (path for path in inside if self._start.is_in_place(path))

    def _tell(self, problems: Iterable[str]) -> None:
        self._told |= dict.fromkeys(problems)


def _is_hook(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return _is_executable(os.path.basename(path), found)


def _is_executable(name: str, found: os.stat_result) -> bool:
    return bool(found.st_mode & _EXECUTABLE) and stat.S_ISREG(found.st_mode) and not name.endswith(_SAMPLE)


def _describe_hook(path: str) -> str:
    return (
        f"{path} was changed in the run, or from outside meanwhile: git runs it. Look at it before you use git there."
    )


def _describe_pointer(repository: Repository) -> str:
    """Of a work tree that was led to the git data of another, where settings and hooks of its own may lie."""
    own = os.path.join(repository.top, ".git")
    return (
        f"{own} was made in the run to name the git data {repository.common}, which does not name "
        f"{repository.top}: git would run what is named there. Delete {own} before you use git there."
    )


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(path, folder) for folder in folders)


def _list_hooks(folder: str, folders: Sequence[str]) -> Iterator[str]:
    """The hooks in a folder; where one of the `folders` lies in another they are husky's, which a shell reads."""
    are_read = any(is_below(each, folder) or is_below(folder, each) for each in folders)
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                found = each.stat(follow_symlinks=False)
                if _is_executable(each.name, found) or (are_read and stat.S_ISREG(found.st_mode)):
                    yield each.path
    except OSError:
        return


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
        return (
            f"{path} was made a link in the run, or from outside meanwhile, by which git may write, and cannot be "
            f"removed: {error.strerror}."
        )
    return (
        f"{path} was made a link to {target} in the run, or from outside meanwhile, by which git would have written "
        "there: it was removed."
    )
