"""Locks between processes, each on a file: taken, let go of, handed on. The kernel frees those of whoever dies."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress

from inspan.system import forking

_FIRST_FREE = 3
_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def take(path: str, *, folder: bool = False, wait: bool = False) -> int:
    """Locks a file, which is made where there is none, or a folder, and gives the descriptor that holds the lock.

    Raises `OSError`; `BlockingIOError` while another one has it, unless `wait` is set.
    """
    fd = _open(path, _FOLDER if folder else _FILE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        forking.close(fd)
        raise
    return fd


def release(fd: int) -> None:
    """Lets go of a lock for good: also where a child that was forked in another way still has a copy."""
    unlock(fd)
    forking.close(fd)


def hand_on(fd: int) -> None:
    """Lets go of our copy of a lock that another process has got, and holds from now on."""
    forking.close(fd)


def unlock(fd: int) -> None:
    """Frees what a descriptor holds, and leaves it open."""
    with suppress(OSError):  # A file system without locks.
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def lock_file(path: str, *, folder: bool = False) -> Generator[None]:
    """Waits for a lock and holds it; raises `OSError` where it cannot be had."""
    fd = take(path, folder=folder, wait=True)
    try:
        yield
    finally:
        release(fd)


def is_held(path: str) -> bool:
    """Whether a process holds the lock on this file; looking never takes it away from an owner to be."""
    try:
        fd = _open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        release(fd)
    return False


def _open(path: str, flags: int) -> int:
    """Never on a standard descriptor: somebody may print there, and what is handed on has to lie above them."""
    with forking.opening:
        fd = os.open(path, flags, 0o600)
        if fd < _FIRST_FREE:
            low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
            os.close(low)
        return forking.own(fd)
