"""Children of this process that live on their own."""

import os
import threading
from contextlib import suppress


def reap(pid: int) -> None:
    """Waits, in a thread of its own, for a child to leave: a program that stays would collect dead ones otherwise.

    0 is none.
    """
    if pid:
        threading.Thread(target=_wait_for, args=(pid,), name="inspan-reaper", daemon=True).start()


def _wait_for(pid: int) -> None:
    with suppress(ChildProcessError):  # Somebody else's watcher took it, or children are ignored here.
        os.waitpid(pid, 0)
