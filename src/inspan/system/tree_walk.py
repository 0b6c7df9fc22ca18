"""Looking through a folder and deleting it, however deep it goes and whoever has made it.

Whoever can write to a folder can nest others in it by the thousand: deeper than a function may call itself, and than a
path may be long. So each folder is opened by its name in the one around it, never by way of a link, and a few of them
are held open at a time.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Nearly no tree is deeper. In one that is, the way back up is by `..`, which somebody could lead elsewhere meanwhile.
_HELD = 16
_OURS = 0o700
_LONGEST_PATH = 4095
_MOVED = "it was moved while it was looked through"


class OpenFolder(NamedTuple):
    """A folder that is open for the moment: `names` lead to it from the top, `folders` and `others` are in it.

    Who takes a folder out of `folders` before those in it are entered has it passed over.
    """

    fd: int
    names: Sequence[str]
    folders: list[str]
    others: list[str]


class _Level:
    """A folder on the way down to the one that is looked at; `fd` is -1 while it is not held."""

    def __init__(self, fd: int) -> None:
        found = os.fstat(fd)
        self.fd = fd
        self.identity = (found.st_dev, found.st_ino)
        self.folders: list[str] = []
        self.others: list[str] = []
        self.entered = 0

    def read(self) -> None:
        with os.scandir(self.fd) as entries:
            for each in entries:
                (self.folders if each.is_dir(follow_symlinks=False) else self.others).append(each.name)

    def reopen(self, inner: int) -> None:
        """Opens it again, from a folder in it; raises `OSError` where that is not in it any more."""
        self.fd = os.open("..", _FOLDER, dir_fd=inner)
        found = os.fstat(self.fd)
        if (found.st_dev, found.st_ino) != self.identity:
            raise OSError(errno.ESTALE, _MOVED)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def ignore_error(error: OSError) -> None:
    """For a look at whatever can be looked at."""


def raise_error(error: OSError) -> None:
    """For whoever needs all of it."""
    raise error


def walk_tree(
    path: str,
    *,
    dir_fd: int | None = None,
    inner_first: bool = False,
    unlocks: bool = False,
    on_error: Callable[[OSError], None] = ignore_error,
) -> Generator[OpenFolder]:
    """The folder at a path and all that are in it, each before those in it, or after them with `inner_first`.

    With `unlocks`, their owner may read and write each of them from then on. Raises `OSError` for the path itself;
    what else cannot be looked at is given to `on_error` and left out.
    """
    levels, names = [_enter(path, dir_fd, unlocks=unlocks)], list[str]()
    try:
        while levels:
            level = levels[-1]
            if level.entered == 0 and not inner_first:
                yield OpenFolder(level.fd, names, level.folders, level.others)
            inner = _enter_next(level, unlocks=unlocks, on_error=on_error)
            if inner:
                levels.append(inner)
                names.append(level.folders[level.entered - 1])
                if len(levels) > _HELD:
                    levels[-_HELD - 1].close()
                continue
            if inner_first:
                yield OpenFolder(level.fd, names, level.folders, level.others)
            try:
                if len(levels) > 1 and levels[-2].fd < 0:
                    levels[-2].reopen(level.fd)
            except OSError as error:  # There is no other way back to what is left.
                on_error(error)
                return
            levels.pop().close()
            del names[len(levels) - 1 :]
    finally:
        for level in levels:
            level.close()


def walk_paths(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The same by paths, as `os.walk` gives them; nothing for a folder that cannot be looked at, nor for one to which
    no path leads, being too long."""
    with suppress(OSError):
        for each in walk_tree(path):
            folder = os.path.join(path, *each.names)
            if len(os.fsencode(folder)) > _LONGEST_PATH:
                each.folders.clear()  # The system takes no path to what is in it.
            else:
                yield folder, each.folders, each.others


def delete_folder(path: str, *, dir_fd: int | None = None, on_error: Callable[[OSError], None] = raise_error) -> None:
    """Deletes a folder, also where it holds some that even their owner may not write to, as caches of tools do.

    Doing it twice, or twice at once, is no error. What cannot be deleted, such as a link, is given to `on_error`.
    """

    def remove(act: Callable[..., None], name: str, folder: int | None) -> None:
        try:
            act(name, dir_fd=folder)
        except FileNotFoundError:
            pass  # Somebody else deletes it at the same moment.
        except OSError as error:
            on_error(error)

    def tell(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            on_error(error)

    try:
        for each in walk_tree(path, dir_fd=dir_fd, inner_first=True, unlocks=True, on_error=tell):
            for name in each.others:
                remove(os.unlink, name, each.fd)
            for name in each.folders:
                remove(os.rmdir, name, each.fd)
    except OSError as error:
        tell(error)
    else:
        remove(os.rmdir, path, dir_fd)


def _enter_next(level: _Level, *, unlocks: bool, on_error: Callable[[OSError], None]) -> _Level | None:
    """The next folder in an open one, if there is one more."""
    while level.entered < len(level.folders):
        level.entered += 1
        try:
            return _enter(level.folders[level.entered - 1], level.fd, unlocks=unlocks)
        except OSError as error:
            on_error(error)
    return None


def _enter(name: str, folder: int | None, *, unlocks: bool) -> _Level:
    try:
        fd = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        if not unlocks:
            raise
        _unlock(name, folder)
        fd = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if unlocks and (stat.S_IMODE(os.fstat(fd).st_mode) & _OURS) != _OURS:
            with suppress(OSError):  # It is somebody else's, and perhaps nothing is in it.
                os.fchmod(fd, _OURS)
        level = _Level(fd)
        level.read()
    except BaseException:
        os.close(fd)
        raise
    return level


def _unlock(name: str, folder: int | None) -> None:
    """Lets the owner read a folder, which is no link, though it may not even be opened."""
    if hasattr(os, "O_PATH"):
        held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{held}", _OURS)
        finally:
            os.close(held)
    else:
        os.chmod(name, _OURS, dir_fd=folder, follow_symlinks=False)
