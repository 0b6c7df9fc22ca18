"""Folders that are opened name by name, none of which is a link: who can write there cannot lead the opener elsewhere.

For a path without links and `..` the kernel's own way, `openat2`, promises no more than this, and is not everywhere.
"""

import errno
import os

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY = "a link or a file is in the place of a folder"


def open_plain_folder(path: str) -> int:
    """The folder at a whole path, which the caller closes; raises `OSError`, also for a link on the way."""
    top = os.open("/", _FOLDER)
    try:
        return open_inner_folder(top, path.lstrip("/"))
    finally:
        os.close(top)


def open_inner_folder(folder: int, path: str, *, make: bool = False) -> int:
    """The folder at a path below an open one, which the caller closes; with `make`, those that are missing are made.

    Raises `OSError`, also for a link on the way and for a path that leads up.
    """
    at = os.dup(folder)
    try:
        for name in path.split("/"):
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            if name not in ("", "."):
                at = _step_into(at, name, make=make)
        return at
    except BaseException as error:
        os.close(at)
        if isinstance(error, NotADirectoryError):
            raise NotADirectoryError(errno.ENOTDIR, _IN_THE_WAY, path) from error
        raise


def _step_into(folder: int, name: str, *, make: bool) -> int:
    """The folder of that name in an open one, which is closed once it is left."""
    if make:
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            pass
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner
