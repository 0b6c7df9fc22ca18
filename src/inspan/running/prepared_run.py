"""A run that was claimed and not yet started: what its creator holds for it."""

import socket

import msgspec

from inspan.protocol.plan import Plan
from inspan.stores.run_folder import RunFolder
from inspan.system import file_locks


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed run: its plan, its lock and its session's, and the gateway's listener where it has one.

    Whoever gets it lets go of them.
    """

    plan: Plan
    folder: RunFolder
    lock: int
    session_lock: int
    listener: socket.socket | None

    def release(self) -> None:
        """Lets go of the locks: there is no such run any more, or it has ended."""
        for lock in (self.session_lock, self.lock):
            file_locks.release(lock)

    def hand_on(self) -> None:
        """Lets go of our copies of locks that a supervisor has got."""
        for lock in (self.session_lock, self.lock):
            file_locks.hand_on(lock)
