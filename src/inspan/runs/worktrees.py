"""The git worktrees of runs: which there are and what is in them; removing them, and making them again."""

import os
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Literal

import msgspec

from inspan.errors import BadInput, RunBusy, RunNotFound
from inspan.protocol.ids import make_short_name
from inspan.stores.git import SnapshotError
from inspan.stores.orphans import disk_bytes
from inspan.stores.worktree import (
    Worktree,
    find_worktree,
    forget_nothing,
    is_worktree_locked,
    list_worktree_paths,
    load_worktree,
    lock_worktree,
)
from inspan.stores.worktree_changes import inspect_worktree
from inspan.stores.worktree_creation import MadeWorktree, restore_worktree
from inspan.stores.worktree_removal import (
    clear_leftovers,
    delete_salvage,
    find_common,
    read_lock_reason,
    remove_worktree,
)
from inspan.stores.worktree_steps import WorktreeChanges
from inspan.system.paths import is_within

from .find import find_run_folder
from .names import read_own_name, tell_apart
from .projects import Scope
from .worktree_runs import adopt, find_folder, find_users, find_worktree_of, goes_with_runs, list_runs_in, refuse_used

WorktreeState = Literal["in use", "changed", "clean", "locked", "broken", "unfinished", "gone", "saved"]
"""`unfinished` was being made or removed when that was killed; `gone` has vanished; of `saved` there is what it had."""

# A worktree of these is removed by `prune`: its run has ended, and nothing of it is lost.
PRUNED: tuple[WorktreeState, ...] = ("clean", "changed", "unfinished", "gone")


class WorktreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A worktree as it is now. `run` is the run that it was made for, under its own name if it has one; `users` work
    in it; `problem` says why it cannot be looked into."""

    worktree: Worktree
    state: WorktreeState
    run: str
    changes: WorktreeChanges = WorktreeChanges()
    users: tuple[str, ...] = ()
    size_bytes: int = 0
    problem: str = ""


def list_worktrees(state: str, *, scope: Scope | None = None, sizes: bool = True) -> list[WorktreeEntry]:
    """All worktrees of a project, or of every one, and those that were removed and of which something was saved."""
    found = [adopt(path) for path in list_worktree_paths(state)]
    meant = [each for each in found if each and (scope is None or _is_in_scope(each, scope))]
    entries = [entry for each in meant if (entry := _inspect(state, each, sizes=sizes))]
    # The name of a run that was deleted may be another's by now.
    names = tell_apart([(each.worktree.id, each.run, "") for each in entries])
    return [msgspec.structs.replace(each, run=name) for each, name in zip(entries, names, strict=True)]


def find_going_with(state: str, run_ids: AbstractSet[str]) -> list[WorktreeEntry]:
    """The worktrees that are removed when these runs are deleted, as they are now."""
    there = (adopt(path) for path in list_worktree_paths(state) if os.path.isdir(path))
    going = [each for each in there if each and goes_with_runs(state, each, run_ids)]
    return [entry for each in going if (entry := _inspect(state, each, sizes=True))]


def read_salvage(entry: WorktreeEntry) -> str:
    """The commit that has what was saved of a worktree that was removed; empty where nothing had to be."""
    record = load_worktree(entry.worktree.path)
    return record.salvage if record else ""


def find_entry(state: str, name: str, *, removed: bool = False) -> WorktreeEntry:
    """The worktree of a run, by any name of it, or by the path of the worktree; raises `RunNotFound`.

    With `removed`, also one that was removed and left nothing: it can be made again.
    """
    worktree = _find_by_id(state, name) or _find_by_run(state, name)
    entry = _inspect(state, worktree, sizes=True) if worktree else None
    if worktree and not entry and removed:
        return WorktreeEntry(worktree=worktree, state="gone", run=_read_run_name(state, worktree))
    if entry is None:
        raise RunNotFound(f"Run {name!r} has no worktree.", next_step="`inspan worktrees --all` lists them.")
    return entry


def remove_entry(state: str, entry: WorktreeEntry, *, forget: bool = False) -> Worktree:
    """Removes a worktree once all that is neither committed nor ignored in it has been saved; gives its record.

    With `forget`, what was saved is deleted as well. Raises `RunBusy` while a run works there, `WorktreeUnusable` where
    something could not be saved; then it is as it was.
    """
    path = entry.worktree.path
    with lock_worktree(path):
        worktree = adopt(path) or entry.worktree
        refuse_used(state, worktree)
        removed = remove_worktree(worktree, forget=not _has_run(state, worktree))
        if forget:
            delete_salvage(removed)
        return removed


def sweep_worktrees(state: str) -> None:
    """Deletes what processes that were killed have left beside worktrees, of which nobody works on any."""
    for path in list_worktree_paths(state):
        with suppress(RunBusy), lock_worktree(path):
            clear_leftovers(path)
            forget_nothing(path)


def restore_entry(entry: WorktreeEntry) -> MadeWorktree:
    """Makes a worktree again that was removed, with what was saved of it; raises `BadInput` for one that is there."""
    path = entry.worktree.path
    with lock_worktree(path):
        worktree = load_worktree(path) or entry.worktree
        if os.path.lexists(path):
            raise BadInput("RUN", entry.run, f"its worktree is there: {path}.", next_step=f"cd {path}")
        return restore_worktree(worktree)


def _inspect(state: str, worktree: Worktree, *, sizes: bool) -> WorktreeEntry | None:
    """A worktree as it is now; nothing for one that was removed and left nothing."""
    run = _read_run_name(state, worktree)
    there = os.path.isdir(worktree.path)
    if not there and worktree.status == "removed":
        return WorktreeEntry(worktree=worktree, state="saved", run=run) if worktree.salvage else None
    size_bytes = disk_bytes(worktree.path) if sizes and there else 0
    users = tuple(find_users(state, worktree))
    entry = WorktreeEntry(worktree=worktree, state="in use", run=run, users=users, size_bytes=size_bytes)
    if not there:
        unfinished = os.path.lexists(worktree.trash) or worktree.status in ("making", "saved")
        return msgspec.structs.replace(entry, state="unfinished" if unfinished else "gone")
    try:
        changes = inspect_worktree(worktree)
    except SnapshotError as error:
        kept = "unfinished" if worktree.status == "making" else "broken"
        return msgspec.structs.replace(entry, state="in use" if _is_used(entry) else kept, problem=str(error))
    return msgspec.structs.replace(entry, state=_choose_state(entry, changes), changes=changes)


def _choose_state(entry: WorktreeEntry, changes: WorktreeChanges) -> WorktreeState:
    worktree = entry.worktree
    if _is_used(entry):
        return "in use"
    if read_lock_reason(msgspec.structs.replace(worktree, common=find_common(worktree))) is not None:
        return "locked"
    if worktree.status == "making":
        return "unfinished"
    changed = changes.files or changes.commits or changes.unreachable or changes.operation
    return "changed" if changed else "clean"


def _is_used(entry: WorktreeEntry) -> bool:
    return bool(entry.users) or is_worktree_locked(entry.worktree.path)


def _read_run_name(state: str, worktree: Worktree) -> str:
    folder = find_folder(state, worktree)
    return (read_own_name(folder) if folder else worktree.name) or make_short_name(worktree.id)


def _is_in_scope(worktree: Worktree, scope: Scope) -> bool:
    return worktree.project == scope.project or any(is_within(worktree.folder, top) for top in scope.tops)


def _find_by_id(state: str, name: str) -> Worktree | None:
    """The worktree whose run has this id, the beginning of it or its short name, whether the run is there or not."""
    paths = [
        path
        for path in list_worktree_paths(state)
        if name and (os.path.basename(path).startswith(name) or make_short_name(os.path.basename(path)) == name)
    ]
    if len(paths) > 1:
        ids = ", ".join(map(os.path.basename, paths))
        raise RunNotFound(f"{name!r} is the name of more than one run with a worktree.", next_step=f"Add more: {ids}.")
    return adopt(paths[0]) if paths else find_worktree(state, name) if os.path.isabs(name) else None


def _find_by_run(state: str, name: str) -> Worktree | None:
    """The worktree of the run of this name; where that run was deleted, the one that still has its name."""
    try:
        return find_worktree_of(state, find_run_folder(state, name))
    except RunNotFound:
        found = [each for path in list_worktree_paths(state) if (each := adopt(path)) and each.name == name]
        if len(found) != 1 or not name:
            raise
        return found[0]


def _has_run(state: str, worktree: Worktree) -> bool:
    """Whether a run is there that could go on in it."""
    return next(list_runs_in(state, worktree), "") != ""
