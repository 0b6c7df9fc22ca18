"""Replaces, makes and removes many files of a work tree, all of them or none.

What is new is written first, beside what is there; then names change, and nothing has to be written any more. What was
there is kept until all names have changed, and put back if one cannot. After a crash, `recover_swap` does that.

Somebody may work in the tree meanwhile, and confined to it: so nothing is reached by way of a link (`OpenTree`).
"""

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from inspan.system.paths import is_below

from .git import read_file, write_file
from .open_tree import OpenTree

_HOLD = ".inspan-undo-"
_JOURNAL, _COMMITTED = "journal", "committed"
_EXECUTE, _PERMISSIONS = 0o111, 0o777
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileSwap(msgspec.Struct, frozen=True, kw_only=True):
    """One file: where it is, what is to be there (a file or link elsewhere, or nothing), and what is there now."""

    target: str
    source: str = ""
    place: os.stat_result | None = None


class SwapError(OSError):
    """A swap that failed, and was taken back as far as `problems`, empty where all is as it was, does not say else."""

    def __init__(self, error: OSError, problems: Sequence[str]) -> None:
        super().__init__(error.errno, error.strerror or str(error), error.filename)
        self.problems = list(problems)


def swap_files(top: str, swaps: Sequence[FileSwap], *, folder: str, kept: Sequence[str] = ()) -> None:
    """Carries out all of the swaps below `top`, or none and raises `SwapError`.

    Folders that become empty are removed, but for those in `kept`. `folder` is for a journal, by which a swap that was
    killed half-way is taken back: nobody else may use it meanwhile.
    """
    hold = os.path.join(top, f"{_HOLD}{os.urandom(6).hex()}")
    _write_journal(folder, hold, swaps)
    done: list[_Act] = []
    tree = OpenTree(hold)
    try:
        tree.open(make=True)
        for number, swap in enumerate(swaps):
            if swap.source:
                _write_draft(tree, swap, _draft(hold, number))
        _change_names(tree, top, hold, swaps, done, kept=kept)
        os.rename(os.path.join(folder, _JOURNAL), os.path.join(folder, _COMMITTED))
    except BaseException as error:
        problems = _take_back(tree, done)
        if not problems:
            tree.remove_hold()
            os.unlink(os.path.join(folder, _JOURNAL))
        if isinstance(error, OSError):
            raise SwapError(error, problems) from error
        raise
    else:
        tree.remove_hold()
        os.unlink(os.path.join(folder, _COMMITTED))
    finally:
        tree.close()


def recover_swap(folder: str) -> None:
    """Puts back what a swap that was killed has moved away, and removes what it had written; raises `OSError`."""
    for name in (_COMMITTED, _JOURNAL):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            hold, *targets = [os.fsdecode(word) for word in read_file(path).split(b"\0")]
            _recover(hold, targets if name == _JOURNAL else ())
            os.unlink(path)


def _recover(hold: str, targets: Sequence[str]) -> None:
    tree = OpenTree(hold)
    try:
        tree.open(make=False)
    except FileNotFoundError:
        return  # Nothing was moved yet, or the whole work tree is gone.
    else:
        for number, target in enumerate(targets):
            _put_back(tree, _aside(hold, number), target)
        tree.remove_hold()
    finally:
        tree.close()


def _put_back(tree: OpenTree, aside: str, target: str) -> None:
    """Puts a file back that was moved away, unless another is in its place; empty folders give way."""
    if not tree.look(aside):
        return
    tree.remove_empty_folders(target)
    if not tree.look(target):
        with suppress(FileExistsError, NotADirectoryError):  # A new file is in the place of a folder above it.
            _make_parents(tree, target, [])
            tree.rename(aside, target)


# A rename (from, to), a folder made ("", path), a folder removed (path, "") with its mode.
_Act = tuple[str, str, int]


def _change_names(
    tree: OpenTree, top: str, hold: str, swaps: Sequence[FileSwap], done: list[_Act], *, kept: Sequence[str]
) -> None:
    for number, swap in enumerate(swaps):
        if swap.place:
            _check_place(tree, swap.target, swap.place)
            _rename(tree, swap.target, _aside(hold, number), done)
    _remove_empty_folders(tree, top, swaps, done, kept=kept)
    for number, swap in enumerate(swaps):
        if swap.source:
            _make_parents(tree, swap.target, done)
            _remove_folder(tree, swap.target, done)
            if tree.look(swap.target):
                raise FileExistsError(errno.EEXIST, "it came up meanwhile", swap.target)
            _rename(tree, _draft(hold, number), swap.target, done)


def _check_place(tree: OpenTree, target: str, place: os.stat_result) -> None:
    """Raises `OSError` for a file that was written to since it was looked at."""
    now = tree.look(target)
    if now is None:
        raise FileNotFoundError(errno.ENOENT, "it is gone", target)
    # Of a file with two names, the time of the last change is new as soon as the other name has moved.
    times = ("st_mtime_ns",) if place.st_nlink > 1 else ("st_mtime_ns", "st_ctime_ns")
    for name in ("st_ino", "st_dev", "st_size", *times):
        if getattr(now, name) != getattr(place, name):
            raise OSError(errno.EBUSY, "it was changed meanwhile", target)


def _remove_empty_folders(
    tree: OpenTree, top: str, swaps: Sequence[FileSwap], done: list[_Act], *, kept: Sequence[str]
) -> None:
    """Folders that the removed files leave empty; one that something comes into stays, and so do the `kept`."""
    stays = {top, *kept} | {parent for swap in swaps if swap.source for parent in _list_parents(swap.target)}
    folders = {parent for swap in swaps if swap.place for parent in _list_parents(swap.target)} - stays
    for folder in sorted((each for each in folders if each.startswith(f"{top}/")), key=len, reverse=True):
        _remove_folder(tree, folder, done)


def _remove_folder(tree: OpenTree, path: str, done: list[_Act]) -> None:
    found = tree.look(path)
    if found and stat.S_ISDIR(found.st_mode):
        with suppress(OSError):  # It is not empty, or may not go: nothing is lost by a folder that stays.
            tree.remove_folder(path)
            done.append((path, "", stat.S_IMODE(found.st_mode)))


def _list_parents(path: str) -> list[str]:
    found: list[str] = []
    while (parent := os.path.dirname(path)) != path:
        found.append(parent)
        path = parent
    return found


def _make_parents(tree: OpenTree, target: str, done: list[_Act]) -> None:
    missing = [parent for parent in _list_parents(target) if is_below(parent, tree.top) and not tree.look(parent)]
    for parent in reversed(missing):
        tree.make_folder(parent)
        done.append(("", parent, 0))


def _rename(tree: OpenTree, source: str, target: str, done: list[_Act]) -> None:
    tree.rename(source, target)
    done.append((source, target, 0))


def _take_back(tree: OpenTree, done: Sequence[_Act]) -> list[str]:
    """The other way round, as far as it goes; a sentence for each step that does not."""
    problems: list[str] = []
    for source, target, mode in reversed(done):
        try:
            if not source:
                tree.remove_folder(target)
            elif not target:
                tree.remake_folder(source, mode)
            else:
                tree.rename(target, source)
        except OSError as error:
            problems.append(f"{source or target}: {error.strerror or error}")
    return problems


def _write_draft(tree: OpenTree, swap: FileSwap, draft: str) -> None:
    """The new file under another name, with the permissions of the one that it replaces but for the executable bit."""
    if os.path.islink(swap.source):
        tree.create_link(draft, os.readlink(swap.source))
        return
    try:
        with open(swap.source, "rb") as source, open(tree.create_file(draft), "wb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            _set_permissions(file.fileno(), os.fstat(source.fileno()), swap.place)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(error.errno, error.strerror, swap.target) from error


def _set_permissions(draft: int, source: os.stat_result, place: os.stat_result | None) -> None:
    """Never the bits by which a program runs as its owner: who works in the tree decides on its contents."""
    wanted = source.st_mode & _PERMISSIONS
    if place and stat.S_ISREG(place.st_mode):
        mode = place.st_mode & _PERMISSIONS & ~_EXECUTE
        wanted = mode | (mode & 0o444) >> 2 if wanted & _EXECUTE else mode
        if place.st_uid != os.geteuid():
            with suppress(PermissionError):  # Only root can give a file away.
                os.fchown(draft, place.st_uid, place.st_gid)
    os.fchmod(draft, wanted)


def _write_journal(folder: str, hold: str, swaps: Sequence[FileSwap]) -> None:
    words = [hold, *(swap.target for swap in swaps)]
    write_file(os.path.join(folder, _JOURNAL), b"\0".join(map(os.fsencode, words)))


def _draft(hold: str, number: int) -> str:
    return os.path.join(hold, f"{number}.new")


def _aside(hold: str, number: int) -> str:
    return os.path.join(hold, f"{number}.old")
