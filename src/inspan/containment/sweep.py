"""The last net under containment: whatever still carries an ended run's id in its environment is killed."""

import os
import signal
from contextlib import suppress

from inspan.system.platform import has_variable, list_pids, list_values

_RUN_ID, _COMMAND_ID = "JRUN_ID", "JCOMMAND_ID"


def kill_run_processes(run_id: str) -> int:
    """Kills every process of this user that was started by the run; gives how many there were.

    It looks again until it finds nobody new: what is killed may have had a child since.
    """
    return _kill_marked(_RUN_ID, run_id)


def kill_command_processes(command_id: str) -> int:
    """The same for one command of several that run for the same run."""
    return _kill_marked(_COMMAND_ID, command_id)


def _kill_marked(variable: str, value: str) -> int:
    found: set[int] = set()
    while new := {pid for pid in set(list_pids()) - found - {os.getpid()} if has_variable(pid, variable, value)}:
        found |= new
        for pid in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return len(found)


def list_runs_with_processes() -> frozenset[str]:
    """The runs of which any process lives, at one look for all of them: for whoever is to sweep many."""
    return frozenset(list_values(_RUN_ID))
