"""What a sandbox that is open holds on this machine, and what is left of those whose program died.

A sandbox has a group for each limit and, in it, one for its commands; each run that works in it makes another beside
that. So the limit is one for all of them, and no process is in the group itself, where version 2 allows none.
"""

import os

import msgspec

from inspan.containment.control_groups import add_inner_groups, create_groups, locate_groups, remove_groups
from inspan.errors import SandboxUnusable
from inspan.protocol.limits import Limits
from inspan.stores.box_folder import (
    BoxFolder,
    claim_box,
    discard_box,
    read_groups,
    record_box,
    snapshots_of,
    take_orphan_box,
)
from inspan.stores.checkpoints import recover_restore
from inspan.system.file_locks import release

_LIMITS_STEP = "Leave memory, cpus and pids out, or run where control groups can be made: `inspan doctor` tells."
_OUR_GROUP = "inspan-box-"


class HeldBox(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox holds until it is released: `groups` have its limits, `command_groups` are those that commands
    join. `pid` is the program that opened it: a child that was forked has no part in it.
    """

    folder: BoxFolder
    pid: int
    groups: tuple[str, ...] = ()
    command_groups: tuple[str, ...] = ()


def hold_box(state: str, limits: Limits, *, worktree: str = "") -> HeldBox:
    """Claims a folder and makes the groups of the limits; raises `StateUnusable` and `SandboxUnusable`, and then leaves
    nothing. The `worktree` that it will work in is nobody's to remove until it is released.
    """
    folder = claim_box(state)
    try:
        groups = _open_groups(folder, limits, worktree=worktree)
        inner = add_inner_groups(groups, "commands")
    except BaseException:
        remove_groups(read_groups(folder.path))
        discard_box(folder)
        raise
    return HeldBox(folder=folder, pid=os.getpid(), groups=tuple(groups), command_groups=tuple(inner))


def release_box(held: HeldBox, *, waits: bool = True) -> None:
    """Removes all of it, once; processes that have just been killed are waited for, a moment, where it `waits`."""
    if held.pid == os.getpid():
        remove_groups(held.groups, waits=waits)
        discard_box(held.folder)


def remove_dead_box(path: str) -> str:
    """Removes what a dead program has left; gives a sentence where something stays. One that lives is left alone.

    Files of the user that a restore was just putting back are put back first.
    """
    folder = take_orphan_box(path)
    if folder is None:
        return ""
    try:
        recover_restore(snapshots_of(path))
    except OSError as error:
        release(folder.lock)
        return f"{folder.name}: a restore that was cut short cannot be taken back: {error}"
    groups = [group for group in read_groups(path) if os.path.basename(group).startswith(_OUR_GROUP)]
    remove_groups(groups)
    if used := [group for group in groups if os.path.exists(group)]:
        release(folder.lock)
        return f"{folder.name}: something still runs in its control group {used[0]}"
    discard_box(folder)
    return ""


def _open_groups(folder: BoxFolder, limits: Limits, *, worktree: str) -> list[str]:
    try:
        groups = locate_groups(folder.name, limits) if limits.resources else []
        if groups or worktree:
            record_box(folder, groups=groups, worktree=worktree)
        return create_groups(folder.name, limits) if groups else []
    except SandboxUnusable as error:
        raise SandboxUnusable(error.message, next_step=_LIMITS_STEP) from error
