"""The folder of a sandbox that is open: its snapshots, and which control groups are its own.

Whoever opened it holds its lock, and the kernel frees the lock of whoever dies: so a folder whose lock is free is what
a dead program has left.
"""

import os

import msgspec

from inspan.protocol.known_types import know_type
from inspan.system import file_locks

from .deletion import discard_tree
from .orphans import Orphan, disk_bytes, is_old
from .paths import make_private_folder, state_error
from .run_folder import write_text

_LOCK, _RECORD = "lock", "box.json"
_DRAFT = ".new"


class BoxFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed folder; `lock` is the descriptor that holds it."""

    path: str
    lock: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def snapshots(self) -> str:
        return snapshots_of(self.path)


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[str] = []
    worktree: str = ""


def claim_box(state: str) -> BoxFolder:
    """A new folder, locked; raises `StateUnusable`. It gets its name once it is, so that nobody takes it for what a
    dead program has left.
    """
    boxes = make_private_folder(os.path.join(make_private_folder(state), "boxes"))
    path = os.path.join(boxes, f"box-{os.urandom(8).hex()}")
    draft = path + _DRAFT
    try:
        os.mkdir(draft, 0o700)
        lock = file_locks.take(os.path.join(draft, _LOCK))
        try:
            os.rename(draft, path)
        except BaseException:
            file_locks.release(lock)
            raise
    except OSError as error:
        raise state_error(path, error) from error
    return BoxFolder(path=path, lock=lock)


def record_box(folder: BoxFolder, *, groups: list[str], worktree: str = "") -> None:
    """Written before they are made: whoever is killed in between leaves none that nobody knows of."""
    record = _Record(groups=groups, worktree=worktree)
    write_text(os.path.join(folder.path, _RECORD), msgspec.json.encode(record).decode())


def read_groups(path: str) -> list[str]:
    """The control groups of a box, by its folder; none where it has no record."""
    return _read(path).groups


def find_boxes_in(state: str, worktree: str) -> list[str]:
    """The names of the sandboxes that are open and work in a worktree, by its path."""
    boxes = os.path.join(state, "boxes")
    try:
        names = [name for name in sorted(os.listdir(boxes)) if not name.endswith(_DRAFT)]
    except OSError:
        return []
    inside = [name for name in names if _read(os.path.join(boxes, name)).worktree == worktree]
    return [name for name in inside if file_locks.is_held(os.path.join(boxes, name, _LOCK))]


def has_open_boxes(state: str, *, besides: str = "") -> bool:
    """Whether any sandbox is open, `besides` the one of this name, wherever it works."""
    boxes = os.path.join(state, "boxes")
    try:
        others = [name for name in os.listdir(boxes) if name != besides]
        return any(file_locks.is_held(os.path.join(boxes, name, _LOCK)) for name in others)
    except OSError:
        return False


def _read(path: str) -> _Record:
    try:
        with open(os.path.join(path, _RECORD), "rb") as file:
            return msgspec.json.decode(file.read(), type=know_type(_Record))
    except (OSError, msgspec.MsgspecError):
        return _Record()


def snapshots_of(path: str) -> str:
    """Where the snapshots of a box lie."""
    return os.path.join(path, "box")


def discard_box(folder: BoxFolder) -> None:
    """Removes a folder of one's own, with all that is in it."""
    discard_tree(folder.path)
    file_locks.release(folder.lock)


def find_orphan_boxes(state: str) -> list[Orphan]:
    """The folders of sandboxes whose program died."""
    try:
        with os.scandir(os.path.join(state, "boxes")) as entries:
            found = sorted((each for each in entries if each.is_dir(follow_symlinks=False)), key=lambda each: each.name)
    except OSError:
        return []
    return [Orphan(path=each.path, size_bytes=disk_bytes(each.path)) for each in found if _is_left(each)]


def take_orphan_box(path: str) -> BoxFolder | None:
    """The folder of a dead one, claimed in order to be removed; None where somebody lives in it, or it is gone."""
    try:
        return BoxFolder(path=path, lock=file_locks.take(os.path.join(path, _LOCK)))
    except OSError:
        return None


def _is_left(entry: "os.DirEntry[str]") -> bool:
    """A draft is one for a moment: then its lock is not yet taken."""
    if entry.name.endswith(_DRAFT) and not is_old(entry):
        return False
    return not file_locks.is_held(os.path.join(entry.path, _LOCK))
