"""What stays with the process that opened it: the locks, pipes and sockets of runs.

A lock is free, and the end of a pipe is seen, once the last copy is closed. A child that a program forks meanwhile, as
multiprocessing does, has a copy of everything and may live for ever: it leaves these behind in its first moment.
"""

import os
from _thread import RLock  # Start-up time: `threading` has the same one.
from contextlib import suppress
from functools import cache
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

_own: set[int] = set()
_own_sockets: "WeakSet[socket]" = WeakSet()

opening = RLock()
"""Held from opening a descriptor until it is one's own: no child is forked in between."""


def own(fd: int) -> int:
    """Keeps a descriptor from children; the same one is given back. It is closed by `close`, or after `disown`."""
    _watch_forks()
    with opening:
        _own.add(fd)
    return fd


def own_socket(made: "socket") -> "socket":
    """Keeps a socket from children for as long as it is open, whoever closes it."""
    _watch_forks()
    with opening:
        _own_sockets.add(made)
    return made


def disown(fd: int) -> None:
    """For whoever closes a descriptor in a way of its own, just before that; idempotent."""
    with opening:
        _own.discard(fd)


def close(fd: int) -> None:
    """Closes a descriptor, whether it was kept from children or not."""
    with opening:
        _own.discard(fd)
        os.close(fd)


@cache
def _watch_forks() -> None:
    os.register_at_fork(before=opening.acquire, after_in_parent=opening.release, after_in_child=_leave_behind)


def _leave_behind() -> None:
    """Empties the descriptors in a child. Their numbers stay taken: objects that it has copies of still close them."""
    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        null = -1
    for fd in (*_own, *(made.fileno() for made in _own_sockets)):
        with suppress(OSError):
            if fd >= 0 and null >= 0:
                os.dup2(null, fd, inheritable=False)
            elif fd >= 0:
                os.close(fd)
    if null >= 0:
        os.close(null)
    _own.clear()
    _own_sockets.clear()
    opening.release()
