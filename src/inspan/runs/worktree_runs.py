"""What a worktree is to the runs: which of them work in it, and what becomes of it when the last one is deleted.

What lies in the folder of worktrees and has no record, as after a crash, is adopted: git knows where it belongs.
"""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import msgspec

from inspan.errors import RunBusy, StateUnusable
from inspan.protocol.ids import RunId
from inspan.stores.box_folder import find_boxes_in
from inspan.stores.git import read_file
from inspan.stores.orphans import list_run_folders
from inspan.stores.repository import find_repository
from inspan.stores.run_folder import RunFolder, is_locked
from inspan.stores.worktree import (
    Worktree,
    find_worktree,
    find_worktree_users,
    list_worktree_paths,
    load_worktree,
    lock_worktree,
    read_run_cwd,
    save_worktree,
)
from inspan.stores.worktree_removal import remove_worktree
from inspan.system.paths import is_within

from .relations import list_living, read_relation


def remove_worktree_of_run(state: str, folder: RunFolder) -> None:
    """Removes the worktree of a run that is to be deleted, unless another run worked there, too; what it had and no
    commit has is saved. Raises `WorktreeUnusable` or `RunBusy`, and then the run should stay."""
    worktree = find_worktree_of(state, folder)
    if worktree is None:
        return
    others = [other for other in list_runs_in(state, worktree) if other != folder.run_id]
    if others:
        return
    with lock_worktree(worktree.path):
        worktree = adopt(worktree.path) or worktree
        refuse_used(state, worktree)
        remove_worktree(worktree, forget=True)


def goes_with_runs(state: str, worktree: Worktree, going: AbstractSet[str]) -> bool:
    """Whether a worktree is removed when these runs are deleted: none but they worked in it."""
    runs = {*list_runs_in(state, worktree)} or {worktree.id}
    return runs <= going


def adopt(path: str) -> Worktree | None:
    """The record of a worktree; one that has none, or a damaged one, gets it from what git knows of the folder."""
    try:
        known = load_worktree(path)
    except StateUnusable:
        known = None
    if known:
        return known
    found = find_repository(path) if os.path.isdir(path) else None
    if found is None or found.top != path or found.common == found.git_dir:
        return None  # It is none of git's worktrees: nothing that could be saved, and nothing to delete.
    project, run_id = path.split(os.sep)[-2:]
    adopted = Worktree(
        id=run_id,
        project=project,
        path=path,
        common=found.common,
        checkout=os.path.dirname(found.common) if os.path.basename(found.common) == ".git" else "",
        base=_read_first_commit(found.git_dir),
        branch=_read_branch(found.git_dir),
        created_at=os.stat(path).st_mtime,
    )
    adopted = msgspec.structs.replace(adopted, folder=adopted.checkout)
    save_worktree(adopted)
    return adopted


def _read_first_commit(git_dir: str) -> str:
    """The commit that a worktree was made at: the first in the log of its HEAD."""
    try:
        first = read_file(os.path.join(git_dir, "logs/HEAD")).partition(b"\n")[0]
    except OSError:
        return ""
    return first.split(b" ")[1].decode() if first.count(b" ") > 1 else ""


def _read_branch(git_dir: str) -> str:
    try:
        head = os.fsdecode(read_file(os.path.join(git_dir, "HEAD"))).strip()
    except OSError:
        return ""
    name = head.removeprefix("ref: refs/heads/")
    return name if name != head and name.startswith("inspan/") else ""


def find_folder(state: str, worktree: Worktree) -> RunFolder | None:
    """The folder of the run that a worktree was made for, if it is there."""
    for entry in list_run_folders(state, project=worktree.project):
        if entry.name == worktree.id:
            return RunFolder(run_id=RunId(worktree.id), path=entry.path)
    return None


def find_worktree_of(state: str, folder: RunFolder) -> Worktree | None:
    """The worktree that a run works or worked in; one that is named after it where its description cannot be read."""
    if cwd := read_run_cwd(folder):
        return find_worktree(state, cwd)
    paths = [path for path in list_worktree_paths(state) if os.path.basename(path) == folder.run_id]
    return adopt(paths[0]) if paths else None


def list_runs_in(state: str, worktree: Worktree) -> Iterator[str]:
    """The runs of its project that work or worked in a worktree."""
    for entry in list_run_folders(state, project=worktree.project):
        folder = RunFolder(run_id=RunId(entry.name), path=entry.path)
        if is_within(read_run_cwd(folder), worktree.path):
            yield folder.run_id


def find_users(state: str, worktree: Worktree) -> list[str]:
    """The living runs and open sandboxes that work in a worktree, and the living loops and blueprints whose runs did:
    the next of them will."""
    loops = list_living(state)
    paths = list(list_run_folders(state, project=worktree.project)) if loops else []
    folders = [RunFolder(run_id=RunId(entry.name), path=entry.path) for entry in paths]
    inside = [folder for folder in folders if is_within(read_run_cwd(folder), worktree.path)]
    parents = {read_relation(folder, "parent") for folder in inside}
    parents |= {read_relation(folder, "parent") for folder in folders if folder.run_id in parents}
    runs = find_worktree_users(state, worktree.path)
    return [*runs, *sorted(loops & parents), *find_boxes_in(state, worktree.path)]


def refuse_used(state: str, worktree: Worktree, *, besides: str = "") -> None:
    """Raises `RunBusy` while a run, a loop or an open sandbox works in a worktree, `besides` that one."""
    users = [user for user in find_users(state, worktree) if user != besides]
    folder = None if users else find_folder(state, worktree)
    # A run that is being started has no description yet.
    if folder and is_locked(folder) and not read_run_cwd(folder):
        users = [folder.run_id]
    if users and users[0] in find_boxes_in(state, worktree.path):
        message = f"A program has a sandbox open that works in the worktree {worktree.path}."
        raise RunBusy(message, next_step="Wait for that program, or end it.")
    if users:
        raise RunBusy(
            f"Run {users[0]} is working in the worktree {worktree.path}.",
            next_step=f"Wait for it, or stop it: `inspan stop {users[0]}`.",
        )
