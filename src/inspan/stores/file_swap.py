"""Replaces, makes and removes many files of a work tree, all of them or none.

What is new is written first, beside what is there; then names change, and nothing has to be written any more. What was
there is kept until all names have changed, and put back if one cannot. After a crash, `recover_swap` does that.
"""

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from .git import read_file, write_file

_HOLD = ".inspan-undo-"
_JOURNAL, _COMMITTED = "journal", "committed"
_EXECUTE = 0o111
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
    try:
        os.mkdir(hold, 0o700)
        for number, swap in enumerate(swaps):
            if swap.source:
                _write_draft(swap, _draft(hold, number))
        _change_names(top, hold, swaps, done, kept=kept)
        os.rename(os.path.join(folder, _JOURNAL), os.path.join(folder, _COMMITTED))
    except BaseException as error:
        problems = _take_back(done)
        if not problems:
            shutil.rmtree(hold, ignore_errors=True)
            os.unlink(os.path.join(folder, _JOURNAL))
        if isinstance(error, OSError):
            raise SwapError(error, problems) from error
        raise
    shutil.rmtree(hold, ignore_errors=True)
    os.unlink(os.path.join(folder, _COMMITTED))


def recover_swap(folder: str) -> None:
    """Puts back what a swap that was killed has moved away, and removes what it had written; raises `OSError`."""
    for name in (_COMMITTED, _JOURNAL):
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            hold, *targets = [os.fsdecode(word) for word in read_file(path).split(b"\0")]
            for number, target in enumerate(targets if name == _JOURNAL else ()):
                _put_back(_aside(hold, number), target)
            shutil.rmtree(hold, ignore_errors=True)
            os.unlink(path)


def _put_back(aside: str, target: str) -> None:
    """Puts a file back that was moved away, unless another is in its place; empty folders give way."""
    if not os.path.lexists(aside):
        return
    for folder, _, _ in os.walk(target, topdown=False):
        with suppress(OSError):  # Something is in it.
            os.rmdir(folder)
    if not os.path.lexists(target):
        with suppress(FileExistsError, NotADirectoryError):  # A new file is in the place of a folder above it.
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(aside, target)


# A rename (from, to), a folder made ("", path), a folder removed (path, "") with its mode.
_Act = tuple[str, str, int]


def _change_names(top: str, hold: str, swaps: Sequence[FileSwap], done: list[_Act], *, kept: Sequence[str]) -> None:
    for number, swap in enumerate(swaps):
        if swap.place:
            _check_place(swap.target, swap.place)
            _rename(swap.target, _aside(hold, number), done)
    _remove_empty_folders(top, swaps, done, kept=kept)
    for number, swap in enumerate(swaps):
        if swap.source:
            _make_parents(swap.target, done)
            _remove_folder(swap.target, done)
            if os.path.lexists(swap.target):
                raise FileExistsError(errno.EEXIST, "it came up meanwhile", swap.target)
            _rename(_draft(hold, number), swap.target, done)


def _check_place(target: str, place: os.stat_result) -> None:
    """Raises `OSError` for a file that was written to since it was looked at."""
    now = os.lstat(target)
    # Of a file with two names, the time of the last change is new as soon as the other name has moved.
    times = ("st_mtime_ns",) if place.st_nlink > 1 else ("st_mtime_ns", "st_ctime_ns")
    for name in ("st_ino", "st_dev", "st_size", *times):
        if getattr(now, name) != getattr(place, name):
            raise OSError(errno.EBUSY, "it was changed meanwhile", target)


def _remove_empty_folders(top: str, swaps: Sequence[FileSwap], done: list[_Act], *, kept: Sequence[str]) -> None:
    """Folders that the removed files leave empty; one that something comes into stays, and so do the `kept`."""
    stays = {top, *kept} | {parent for swap in swaps if swap.source for parent in _list_parents(swap.target)}
    folders = {parent for swap in swaps if swap.place for parent in _list_parents(swap.target)} - stays
    for folder in sorted((each for each in folders if each.startswith(f"{top}/")), key=len, reverse=True):
        _remove_folder(folder, done)


def _remove_folder(path: str, done: list[_Act]) -> None:
    with suppress(OSError):  # It is none, not empty, or may not go: nothing is lost by a folder that stays.
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        os.rmdir(path)
        done.append((path, "", mode))


def _list_parents(path: str) -> list[str]:
    found: list[str] = []
    while (parent := os.path.dirname(path)) != path:
        found.append(parent)
        path = parent
    return found


def _make_parents(target: str, done: list[_Act]) -> None:
    missing = [parent for parent in _list_parents(target) if not os.path.isdir(parent)]
    for parent in reversed(missing):
        os.mkdir(parent)
        done.append(("", parent, 0))


def _rename(source: str, target: str, done: list[_Act]) -> None:
    os.rename(source, target)
    done.append((source, target, 0))


def _take_back(done: Sequence[_Act]) -> list[str]:
    """The other way round, as far as it goes; a sentence for each step that does not."""
    problems: list[str] = []
    for source, target, mode in reversed(done):
        try:
            if not source:
                os.rmdir(target)
            elif not target:
                os.mkdir(source)
                os.chmod(source, mode)
            else:
                os.rename(target, source)
        except OSError as error:
            problems.append(f"{source or target}: {error.strerror or error}")
    return problems


def _write_draft(swap: FileSwap, draft: str) -> None:
    """The new file under another name, with the permissions of the one that it replaces but for the executable bit."""
    try:
        shutil.copyfile(swap.source, draft, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(error.errno, error.strerror, swap.target) from error  # It names what it read from.
    if os.path.islink(draft):
        return
    wanted = stat.S_IMODE(os.lstat(swap.source).st_mode)
    place = swap.place
    if place and stat.S_ISREG(place.st_mode):
        mode = stat.S_IMODE(place.st_mode) & ~_EXECUTE
        wanted = mode | (mode & 0o444) >> 2 if wanted & _EXECUTE else mode
        if place.st_uid != os.geteuid():
            with suppress(PermissionError):  # Only root can give a file away.
                os.chown(draft, place.st_uid, place.st_gid)
    os.chmod(draft, wanted)


def _write_journal(folder: str, hold: str, swaps: Sequence[FileSwap]) -> None:
    words = [hold, *(swap.target for swap in swaps)]
    write_file(os.path.join(folder, _JOURNAL), b"\0".join(map(os.fsencode, words)))


def _draft(hold: str, number: int) -> str:
    return os.path.join(hold, f"{number}.new")


def _aside(hold: str, number: int) -> str:
    return os.path.join(hold, f"{number}.old")
