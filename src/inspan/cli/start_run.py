"""Starting a run from the command line: a signal finds either nothing of it, or a run that can be stopped."""

import os
import signal
import sys
from collections.abc import Mapping

from inspan.planning.prepare import prepare
from inspan.protocol.task import Task
from inspan.running.prepared_run import PreparedRun
from inspan.running.start import start_supervisor
from inspan.system.programs import list_exposed_folders, list_trusted_modules

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_run(task: Task, *, env: Mapping[str, str] = os.environ) -> PreparedRun:
    """Prepares a run of a configured task and starts its supervisor; raises `InspanError` and then leaves no trace.

    A signal ends this command until the run is claimed. A later one waits: it is meant for the run, and is blocked
    until `StopSignals` takes it.
    """
    prepared = prepare(task, env=env, configured=True, on_claim=_hold_signals)
    if prepared.plan.process.private:
        # What this command still has to load, it does not load from where the agent works.
        sys.path[:] = list_trusted_modules(list_exposed_folders(task.cwd, *task.extra_dirs))
    start_supervisor(prepared)
    return prepared


def _hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
