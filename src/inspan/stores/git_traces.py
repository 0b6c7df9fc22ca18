"""What a run that may commit has left in git data for later, and no mount can keep it from leaving.

git writes through symbolic links in its own folder, and looks into a repository inside of another one as soon as
somebody asks for the state of the outer one: then it runs what the inner one's settings name.
"""

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence

from inspan.system.programs import helper_path

from .git import QUIET_SETTINGS, find_git, format_settings
from .repository import Repository, find_repository

_LONGEST_S = 10.0
_CLOCK_S = 2.0
_GIT_LINK = b"160000 "


def disarm_git(folders: Sequence[str], *, since: float) -> list[str]:
    """Removes links that were made in git data since a time, and tells of these and of new repositories inside others.

    Nothing is raised: a folder that cannot be looked at is told of.
    """
    told: list[str] = []
    looked_at: set[str] = set()
    for folder in folders:
        repository = find_repository(folder)
        if repository is None or repository.git_dir in looked_at:
            continue
        looked_at.add(repository.git_dir)
        for git_dir in dict.fromkeys((repository.common, repository.git_dir)):
            told += [_remove_link(path) for path in _find_links(git_dir, since=since - _CLOCK_S)]
        told += _tell_of_nested(repository, since=since - _CLOCK_S)
    return told


def _find_links(git_dir: str, *, since: float) -> Iterator[str]:
    """The symbolic links in there that are new; objects are found by their content, whatever they are linked to."""
    for folder, names, files in os.walk(git_dir):
        if folder == git_dir and "objects" in names:
            names.remove("objects")
        for name in (*names, *files):
            path = os.path.join(folder, name)
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISLNK(found.st_mode) and found.st_ctime >= since:
                yield path


def _remove_link(path: str) -> str:
    try:
        target = os.readlink(path)
        os.unlink(path)
    except OSError as error:
        return f"{path} was made a link in the run, by which git may write, and cannot be removed: {error.strerror}."
    return f"{path} was made a link to {target} in the run, by which git would have written there: it was removed."


def _tell_of_nested(repository: Repository, *, since: float) -> Iterator[str]:
    for name in _list_git_links(repository):
        path = os.path.join(repository.top, name)
        try:
            made_at = os.lstat(os.path.join(path, ".git")).st_ctime
        except OSError:
            continue
        if made_at >= since:
            yield (
                f"The run has put the repository {path} into this one: `git status` runs what its settings name. "
                f"Look at {path}/.git/config first, or rename {path}/.git."
            )


def _list_git_links(repository: Repository) -> list[str]:
    """The paths in the index that stand for other repositories; git runs nothing to list them."""
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
