"""What becomes of the worktree of a run that ends: one in which nothing changed goes, any other stays."""

import os
from typing import Any

import msgspec

from inspan.errors import InspanError, StateUnusable
from inspan.protocol.events import WorktreeLeft
from inspan.stores.box_folder import find_boxes_in
from inspan.stores.git import SnapshotError
from inspan.stores.run_folder import RunFolder, active_runs, is_locked, read_json
from inspan.stores.worktree import Worktree, find_worktree_users, load_worktree, lock_worktree
from inspan.stores.worktree_changes import inspect_worktree
from inspan.stores.worktree_removal import read_lock_reason, remove_worktree
from inspan.stores.worktree_steps import WorktreeChanges

# A run that ends does not wait longer, whatever lies there: the worktree stays.
_LIMIT_S = 20.0


def leave_worktree(state: str, path: str, *, run_id: str) -> WorktreeLeft:
    """Removes the worktree if nothing at all is in it that its first commit does not have, and tells what was done.

    Nothing is raised: what fails is told, and the worktree stays.
    """
    kept = WorktreeLeft(path=path, kept=True)
    try:
        with lock_worktree(path):
            worktree = load_worktree(path)
            if worktree is None or not os.path.isdir(path):
                return WorktreeLeft(path=path, kept=False, problem=f"the worktree {path} has vanished")
            found = inspect_worktree(worktree, limit_s=_LIMIT_S)
            kept = WorktreeLeft(
                path=path,
                kept=True,
                branch=found.branch,
                files=found.files,
                ignored=found.ignored,
                commits=found.commits,
                unreachable=found.unreachable,
                operation=found.operation,
            )
            used = find_worktree_users(state, path, besides=run_id) or find_boxes_in(state, path)
            used = used or _is_awaited(state, run_id)
            if _is_untouched(worktree, found) and not used:
                return _remove(worktree, kept)
            return kept
    except (InspanError, SnapshotError, OSError) as error:
        return WorktreeLeft(path=path, kept=os.path.isdir(path), branch=kept.branch, problem=str(error))


def _is_awaited(state: str, run_id: str) -> bool:
    """Whether a blueprint that this belongs to lives: other nodes of it may work there now, and it removes the worktree
    at its end."""
    active = {str(folder.run_id): folder for folder in active_runs(state)}
    folder = active.get(run_id)
    while folder and (folder := active.get(_read(folder, "task", "parent"))) and is_locked(folder):
        if _read(folder, "work") == "blueprint":
            return True
    return False


def _read(folder: RunFolder, *names: str) -> str:
    try:
        found: Any = read_json(folder.file("run.json"))
    except StateUnusable:
        return ""
    for name in names:
        found = found.get(name, "")
    return str(found)


def _remove(worktree: Worktree, kept: WorktreeLeft) -> WorktreeLeft:
    """Removes it unless something has to be saved that git does not see, such as other line endings."""
    after = remove_worktree(worktree, if_untouched=True)
    if after.status == "removed":
        return WorktreeLeft(path=worktree.path, kept=False)
    return msgspec.structs.replace(kept, files=len(after.as_is))


def _is_untouched(worktree: Worktree, found: WorktreeChanges) -> bool:
    changed = found.files or found.ignored or found.commits or found.head != worktree.base
    changed = changed or found.unreachable or found.operation
    return not changed and found.branch == worktree.branch and read_lock_reason(worktree) is None
