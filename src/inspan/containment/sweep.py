"""The last net under containment: whatever still carries an ended run's id in its environment is killed."""

import os
import signal
from contextlib import suppress

from inspan.system.platform import has_variable, list_pids


def kill_run_processes(run_id: str) -> int:
    """Kills every process of this user that was started by the run; gives how many there were.

    It looks again until it finds nobody new: what is killed may have had a child since.
    """
    found: set[int] = set()
    while new := {pid for pid in set(list_pids()) - found - {os.getpid()} if has_variable(pid, "JRUN_ID", run_id)}:
        found |= new
        for pid in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return len(found)
