"""Snapshots of a folder that can be put back: as many as are asked for, in a folder of their own.

They are made as a run's are: what git ignores is neither kept nor put back, and the repository's index, HEAD and
objects are not touched. A folder that is in no repository is treated the same way.
"""

import os
import stat
import threading
from collections.abc import Mapping, Sequence

from inspan.errors import BadInput, UndoRefused

from . import file_versions
from .deletion import discard_tree
from .file_swap import FileSwap, SwapError, recover_swap, swap_files
from .file_versions import ABSENT, GITLINK_MODE, Version, lstat_inside
from .git import Git, SnapshotError, Steps, check_step, read_file, run_steps
from .git_tree import FileNotKept, tree_steps
from .repository import Repository, find_repository
from .run_folder import write_text
from .snapshot import RAW_DIFF, VersionPair, build_git, parse_pairs
from .snapshot_steps import first_snapshot_steps

_LIMIT_S = 600.0
# All that one snapshot copies: files that are neither ignored nor in the repository, or differ from it.
LIMIT_BYTES = 1024**3
_RESTORE = "restore"
_FOLDER_MODE = "040000"
_PLAIN_MODES, _PERMISSIONS = (0o644, 0o755, 0o777), 0o777
_NAMED_FILES = 20
_RETRY = "Nothing was put back. Look at these files, and try again."


class Checkpoints:
    """Keeps snapshots of `work_dir` in `folder`, which it makes with the first one. `hidden` is never looked into."""

    def __init__(self, work_dir: str, *, folder: str, hidden: Sequence[str] = ()) -> None:
        self._work_dir = work_dir
        self._folder = folder
        self._hidden = (*hidden, folder)
        self._taken: dict[str, dict[str, int]] = {}
        self._top = ""

    def take(self, *, stop: threading.Event | None = None) -> str:
        """Keeps the files as they are now and gives the snapshot's name; raises `UndoRefused` where it cannot, or soon
        after somebody sets `stop`."""
        try:
            name = run_steps(self._take_steps(), limit_s=_LIMIT_S, stop=stop)
            modes = run_steps(self._modes_steps(), limit_s=_LIMIT_S, stop=stop)
        except SnapshotError as error:
            step = "Check that git is installed and that the folder can be read."
            if isinstance(error, FileNotKept):
                step = "Move it away, or have git ignore it: what `.gitignore` names is neither kept nor put back."
            raise UndoRefused(f"No snapshot was taken of {self._work_dir}: {error}", next_step=step) from error
        self._taken[name] = modes
        return name

    def restore(self, name: str, *, stop: threading.Event | None = None) -> None:
        """Puts all files below the working folder back as they were, or none; raises `UndoRefused`, also where somebody
        sets `stop` before the first of them is moved, and `BadInput` for a snapshot that was not taken here.
        """
        if name not in self._taken:
            step = "Give what `snapshot` gave, of the same sandbox."
            raise BadInput("snapshot", name, "there is no such snapshot.", next_step=step)
        work = os.path.join(self._folder, _RESTORE)
        try:
            recover_swap(work)
            discard_tree(work)
            os.makedirs(os.path.join(work, "scratch"), mode=0o700)
            os.mkdir(os.path.join(work, "files"), mode=0o700)
            wanted = run_steps(self._restore_steps(name, work), limit_s=_LIMIT_S, stop=stop)
            self._swap(wanted, work)
        except SnapshotError as error:
            raise UndoRefused(f"{self._work_dir} was not put back: {error}", next_step=_RETRY) from error
        except SwapError as error:
            raise _explain_swap(self._work_dir, error) from error
        discard_tree(work)

    def _take_steps(self) -> Steps[str]:
        if not self._top:
            repository = find_repository(self._work_dir) or self._make_repository()
            first = yield from first_snapshot_steps(
                self._folder, repository, hidden=self._hidden, take_steps=_take_whole_steps
            )
            self._top = repository.top
            return first.before
        return (yield from _take_whole_steps(build_git(self._folder, top=self._top)))

    def _modes_steps(self) -> Steps[dict[str, int]]:
        """The permissions of files that git does not keep, by their paths."""
        git = build_git(self._folder, top=self._top)
        yield from check_step(git.step("ls-files", "-z", stdout="listed"))
        names = [os.fsdecode(name) for name in read_file(git.file("listed")).split(b"\0") if name]
        places = {name: _find_place(self._top, name) for name in names}
        modes = {name: found.st_mode & _PERMISSIONS for name, found in places.items() if found}
        return {name: mode for name, mode in modes.items() if mode not in _PLAIN_MODES}

    def _make_repository(self) -> Repository:
        """An empty one, for a folder that has none."""
        path = os.path.join(self._folder, "empty")
        for name in ("objects", "refs"):
            os.makedirs(os.path.join(path, name), mode=0o700, exist_ok=True)
        write_text(os.path.join(path, "HEAD"), "ref: refs/heads/none\n")
        return Repository(top=self._work_dir, git_dir=path, common=path)

    def _restore_steps(self, name: str, work: str) -> Steps[dict[str, Version]]:
        """Lays the files that have to be written into `work`; gives every path that differs, with what it shall be."""
        git = build_git(self._folder, top=self._top)
        now = yield from tree_steps(git)
        yield from check_step(git.step(*RAW_DIFF, now, name, stdout="pairs"))
        pairs = [pair for pair in _parse(read_file(git.file("pairs"))) if self._is_inside(pair.path)]
        wanted = {pair.path: _read_version(pair.modes[1], pair.objects[1]) for pair in pairs}
        staged = Git(
            git_dir=git.git_dir, top=os.path.join(work, "files"), run_id="", scratch=os.path.join(work, "scratch")
        )
        yield from file_versions.lay_rules_steps(staged, self._top, wanted)
        yield from _refuse_steps(staged, self._top, pairs, wanted)
        yield from file_versions.checkout_steps(staged, wanted)
        for path, mode in self._taken[name].items():
            if path in wanted and not os.path.islink(written := os.path.join(staged.top, path)):
                os.chmod(written, mode)
        return wanted

    def _is_inside(self, path: str) -> bool:
        return f"{os.path.join(self._top, path)}".startswith(f"{self._work_dir.rstrip('/')}/")

    def _swap(self, wanted: Mapping[str, Version], work: str) -> None:
        swaps = [
            FileSwap(
                target=os.path.join(self._top, path),
                source="" if version.is_absent else os.path.join(work, "files", path),
                place=_find_place(self._top, path),
            )
            for path, version in wanted.items()
        ]
        # What is not there any more and shall not be needs nothing.
        needed = [swap for swap in swaps if swap.source or swap.place]
        if needed:
            swap_files(self._work_dir, needed, folder=work, kept=(self._work_dir,))


def _take_whole_steps(git: Git) -> Steps[str]:
    """What cannot be put back later is refused now."""
    return tree_steps(git, whole=True, limit_bytes=LIMIT_BYTES)


def recover_restore(folder: str) -> None:
    """Takes back a restore in the middle of which the program was killed, by the folder of its snapshots; raises
    `OSError`.
    """
    recover_swap(os.path.join(folder, _RESTORE))


def _parse(raw: bytes) -> list[VersionPair]:
    return [pair for pair in parse_pairs(raw, errors="surrogateescape") if _FOLDER_MODE not in pair.modes]


def _read_version(mode: str, name: str) -> Version:
    return ABSENT if mode == ABSENT.mode else Version(mode, name)


def _refuse_steps(staged: Git, top: str, pairs: Sequence[VersionPair], wanted: Mapping[str, Version]) -> Steps[None]:
    """Raises `SnapshotError` with the files of which the snapshot does not know enough."""
    versions = {path: _read_version(pair.modes[0], pair.objects[0]) for pair in pairs for path in (pair.path,)}
    every = {*versions.values(), *wanted.values()}
    not_kept = yield from file_versions.stand_in_steps(staged, every)
    there = [path for path, version in wanted.items() if not version.is_absent]
    filtered = yield from file_versions.filter_steps(staged, there)
    unknown = [
        path
        for path in wanted
        if path in filtered
        or wanted[path] in not_kept
        # A file that goes is not needed any more; a repository is a folder, which does not go.
        or (versions[path] in not_kept and os.path.isdir(os.path.join(top, path)))
        or GITLINK_MODE in (versions[path].mode, wanted[path].mode)
    ]
    if unknown:
        named = ", ".join(sorted(unknown)[:_NAMED_FILES])
        raise SnapshotError(
            f"its snapshot does not have the content of {named} "
            "(too large, not readable, a repository of its own, or stored by a filter of git's)."
        )


def _find_place(top: str, path: str) -> os.stat_result | None:
    """What is to be moved out of the way; a folder is not, for what is in it is listed by itself."""
    place = lstat_inside(top, path)
    return None if place is None or stat.S_ISDIR(place.st_mode) else place


def _explain_swap(work_dir: str, error: SwapError) -> UndoRefused:
    where = f"{error.filename}: " if error.filename else ""
    if error.problems:
        told = "; ".join(error.problems)
        return UndoRefused(f"{where}{error.strerror}. Not everything could be moved back: {told}.", next_step=_RETRY)
    return UndoRefused(f"{work_dir} was not put back: {where}{error.strerror}.", next_step=_RETRY)
