"""Control groups: how much memory, processor time and how many processes a run may use, all that it starts together.

Version 1, where each of the three has a tree of its own, and version 2, which has one. A group is made below the one
that we are in, or, in version 2, below the nearest above it that may have others.
"""

import os
import time
from collections.abc import Iterable, Sequence

import msgspec

from inspan.errors import SandboxUnusable
from inspan.protocol.limits import Limits

_MOUNTS, _OWN = "/proc/self/mountinfo", "/proc/self/cgroup"
_MEMBERS = "cgroup.procs"
_PERIOD_US = 100_000
_REMOVE_S = 1.0
_NEXT_STEP = "Leave --memory, --cpus and --pids out, or run where control groups can be made: `inspan doctor` tells."


class _Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Where groups of one controller can be made."""

    folder: str
    unified: bool


def create_groups(run_id: str, limits: Limits, *, within: Sequence[str] = ()) -> list[str]:
    """Makes the groups of a run, with their limits; gives their folders. Raises `SandboxUnusable` for what the machine
    cannot give, and then leaves none.

    Where there are groups that it is `within`, those of an open sandbox, its own are made in them: what it uses counts
    for both.
    """
    made: list[str] = []
    try:
        for parent in within:
            _make_group(os.path.join(parent, f"inspan-{run_id}"), made)
        for controller, settings in _list_settings(limits).items():
            tree = _find_inner_tree(within, controller, *settings[0]) or _find_tree(controller)
            folder = os.path.join(tree.folder, f"inspan-{run_id}")
            _make_group(folder, made)
            _apply(folder, settings[tree.unified])
    except (OSError, SandboxUnusable) as error:
        remove_groups(made)
        if isinstance(error, SandboxUnusable):
            raise
        reason = f"{error.filename or 'a control group'}: {error.strerror}"
        raise SandboxUnusable(f"This machine cannot limit a run: {reason}.", next_step=_NEXT_STEP) from error
    return made


def locate_groups(run_id: str, limits: Limits) -> list[str]:
    """The folders that `create_groups` would make; raises `SandboxUnusable`."""
    trees = [_find_tree(controller) for controller in _list_settings(limits)]
    return list(dict.fromkeys(os.path.join(tree.folder, f"inspan-{run_id}") for tree in trees))


def add_inner_groups(folders: Iterable[str], name: str) -> list[str]:
    """A group without limits of its own in each of these; raises `SandboxUnusable`."""
    try:
        made: list[str] = []
        for folder in folders:
            _make_group(os.path.join(folder, name), made)
    except OSError as error:
        message = f"This machine cannot limit a run: {error.filename}: {error.strerror}."
        raise SandboxUnusable(message, next_step=_NEXT_STEP) from error
    return made


def list_member_files(folders: Iterable[str]) -> list[str]:
    """The files by which a process joins these groups."""
    return [os.path.join(folder, _MEMBERS) for folder in folders]


def remove_groups(folders: Iterable[str], *, waits: bool = True) -> None:
    """Removes groups whose processes have ended, with those in them; one that has not is waited for, a moment, where
    it `waits`.
    """
    deadline = time.monotonic() + (_REMOVE_S if waits else 0)
    for folder in folders:
        while os.path.isdir(folder):
            try:
                for inner in _list_inner_groups(folder):
                    os.rmdir(inner)
                os.rmdir(folder)
            except OSError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)


def count_memory_kills(folders: Iterable[str]) -> int:
    """How many processes of these groups were killed because the memory was used up."""
    names = ("memory.events", "memory.oom_control")
    found = (_read_number(os.path.join(folder, name), "oom_kill") for folder in folders for name in names)
    return max(found, default=0)


def count_refused_processes(folders: Iterable[str]) -> int:
    """How often a process of these groups could start no other one because there were as many as there may be."""
    return max((_read_number(os.path.join(folder, "pids.events"), "max") for folder in folders), default=0)


def _list_settings(limits: Limits) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """By controller, what is written in version 1 and in version 2."""
    found: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    if limits.memory_bytes is not None:
        most = str(limits.memory_bytes)
        # Without a limit on swap as well, a group that is full goes on there. Older kernels count what is used in
        # inner groups only where they are told to.
        found["memory"] = (
            {"memory.limit_in_bytes": most, "?memory.memsw.limit_in_bytes": most, "?memory.use_hierarchy": "1"},
            {"memory.max": most, "?memory.swap.max": "0"},
        )
    if limits.cpus is not None:
        quota = str(max(1000, round(limits.cpus * _PERIOD_US)))
        found["cpu"] = (
            {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": quota},
            {"cpu.max": f"{quota} {_PERIOD_US}"},
        )
    if limits.pids is not None:
        found["pids"] = ({"pids.max": str(limits.pids)}, {"pids.max": str(limits.pids)})
    return found


def _make_group(folder: str, made: list[str]) -> None:
    if folder not in made:
        os.mkdir(folder)
        made.append(folder)


def _list_inner_groups(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _find_inner_tree(within: Sequence[str], controller: str, setting: str, *_: str) -> _Tree | None:
    """That of these groups which has the controller: in version 1 the setting is there, in version 2 groups in it get
    the controller by being told so.
    """
    for folder in within:
        if controller in _read_words(os.path.join(folder, "cgroup.controllers")):
            with open(os.path.join(folder, "cgroup.subtree_control"), "w", encoding="ascii") as file:
                file.write(f"+{controller}")
            return _Tree(folder=folder, unified=True)
        if os.path.exists(os.path.join(folder, setting)):
            return _Tree(folder=folder, unified=False)
    return None


def _apply(folder: str, settings: dict[str, str]) -> None:
    """A name with a question mark is for those machines that have it."""
    for name, value in settings.items():
        path = os.path.join(folder, name.removeprefix("?"))
        if not name.startswith("?") or os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(value)


def _find_tree(controller: str) -> _Tree:
    for mount, root, kind, options in _list_mounts():
        own = _find_own_group(controller if kind == "cgroup" else "")
        if kind == "cgroup" and controller in options and own is not None:
            return _Tree(folder=_join(mount, root, own), unified=False)
    for mount, root, kind, _ in _list_mounts():
        own = _find_own_group("")
        if (
            kind == "cgroup2"
            and own is not None
            and (folder := _find_parent(mount, _join(mount, root, own), controller))
        ):
            return _Tree(folder=folder, unified=True)
    raise SandboxUnusable(f"This machine has no control groups for {controller} that we may use.", next_step=_NEXT_STEP)


def _find_parent(mount: str, own: str, controller: str) -> str:
    """The nearest group above that has the controller for those below it. Ours has processes: it may not."""
    folder = own
    while folder.startswith(mount):
        if controller in _read_words(os.path.join(folder, "cgroup.subtree_control")) and os.access(folder, os.W_OK):
            return folder
        if folder == mount:
            break
        folder = os.path.dirname(folder)
    return ""


def _list_mounts() -> list[tuple[str, str, str, list[str]]]:
    """Mount point, the group that it shows, file system and its options, of every tree of groups."""
    found: list[tuple[str, str, str, list[str]]] = []
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            front, _, back = line.partition(" - ")
            kind, _, options = back.split()[:3]
            if kind in ("cgroup", "cgroup2"):
                fields = front.split()
                found.append((fields[4], fields[3], kind, options.split(",")))
    return found


def _find_own_group(controller: str) -> str | None:
    """The group that this process is in; of version 2 where no controller is named."""
    with open(_OWN, encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    return next((path for _, names, path in rows if controller in names.split(",")), None)


def _join(mount: str, root: str, group: str) -> str:
    """A container sees a part of the tree, under names that begin above it."""
    below = group[len(root) :] if root != "/" and group.startswith(root) else group
    return os.path.join(mount, below.strip("/")).rstrip("/")


def _read_words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def _read_number(path: str, name: str) -> int:
    words = _read_words(path)
    return int(words[words.index(name) + 1]) if name in words[:-1] else 0
