"""The empty files and folders that stand where a box must not put anything: made for a run, and removed at its end.

One that somebody has filled, or that git knows by now, is no stand-in any more. While another run may have it mounted,
it stays: Linux takes the mount away with it.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from inspan.contracts.sandbox import Box
from inspan.errors import StateUnusable
from inspan.system.paths import is_within
from inspan.system.programs import helper_path

from .box_folder import has_open_boxes
from .git import QUIET_SETTINGS, find_git, format_settings
from .git_obstacles import find_obstacle
from .repository import find_repository
from .run_folder import RunFolder, active_runs, is_locked, read_json

_LONGEST_S = 10.0


def list_stand_ins(box: Box) -> list[str]:
    """What a box will make: what it protects and is not there, with the folders around that are not either, inner ones
    first.
    """
    named = (path for git in box.repositories for path in (*git.files, *git.hooks))
    paths = () if box.read_only else (*named, *box.made_files, *box.made_folders)
    missing = (each for path in paths for each in _list_upward(path) if not os.path.lexists(each))
    return sorted(dict.fromkeys(missing), key=len, reverse=True)


def remove_stand_ins(state: str, paths: Sequence[str], *, run_id: str = "", box: str = "") -> None:
    """Removes what was missing before this run, or before the open sandbox of this name, and is empty now, unless git
    or another run needs it; raises nothing.
    """
    with suppress(OSError, StateUnusable, subprocess.SubprocessError):
        if has_open_boxes(state, besides=box):
            return
        needed = [folder for run in _list_others(state, run_id) for folder in _list_folders(run)]
        for path in paths:
            if not any(is_within(path, folder) for folder in needed):
                _remove_empty(path)


def _list_upward(path: str) -> Iterator[str]:
    while path != os.path.dirname(path):
        yield path
        path = os.path.dirname(path)


def _list_others(state: str, run_id: str) -> Iterator[RunFolder]:
    return (folder for folder in active_runs(state) if folder.run_id != run_id and is_locked(folder))


def _list_folders(run: RunFolder) -> list[str]:
    """Where a run works; everywhere, for all one knows, while it has no description."""
    try:
        task: Any = read_json(run.file("run.json")).get("task") or {}
    except StateUnusable:
        return [os.sep]
    return [task.get("cwd", os.sep), *task.get("extra_dirs", ())]


def _remove_empty(path: str) -> None:
    with suppress(OSError):
        if os.path.isdir(path):
            os.rmdir(path)
        elif os.path.isfile(path) and not os.path.getsize(path) and not _is_known(path):
            os.unlink(path)


def _is_known(path: str) -> bool:
    """Whether git has it in its index; git runs nothing to tell."""
    repository = find_repository(os.path.dirname(path))
    if repository is None or is_within(path, repository.git_dir):
        return False
    if find_obstacle(repository.top, [repository.git_dir]):
        return True  # Git cannot be asked.
    env = {name: value for name, value in os.environ.items() if name == "HOME"}
    env |= {"PATH": helper_path(avoid=(repository.top,)), "GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"}
    env |= format_settings(QUIET_SETTINGS) | {"GIT_DIR": repository.git_dir, "GIT_WORK_TREE": repository.top}
    done = subprocess.run(
        [find_git(repository.top), "ls-files", "-z", "--", os.path.relpath(path, repository.top)],
        cwd=repository.top,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LONGEST_S,
        check=True,
    )
    return bool(done.stdout)
