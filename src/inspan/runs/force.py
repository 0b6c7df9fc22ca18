"""The end of what may not end by itself: it is asked, watched, and killed with everything that it has started."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

from inspan.containment.sweep import kill_run_processes
from inspan.errors import RunBusy
from inspan.protocol.commands import Cancel, Ping
from inspan.protocol.outcome import Reason
from inspan.stores.run_folder import RunFolder, is_locked, lock_run
from inspan.system import file_locks
from inspan.system.platform import list_holders

from .control_client import ask_run
from .find import stop
from .lost import declare_lost
from .names import list_active_folders
from .relations import read_relation

_ANSWER_S = 3.0
_SILENT_S = 10.0
_MOST_KILLING_S = 30.0
_POLL_S = 0.1
_DEATH_S = 5.0
_SILENT = "its owner did not answer, and was killed"
_TOO_SLOW = "it was killed, and had not ended after that"


def end_run(state: str, folder: RunFolder, *, command: Cancel) -> bool:
    """Asks a run, or work that has runs, to end, and waits until it has; says whether it has.

    One whose owner does not answer is ended by force; so is one that is to be killed, however long its owner takes. A
    program in which a run lives is never killed: what the run has started there is, where that was asked for.
    """
    patience_s = _ANSWER_S if command.now else _SILENT_S
    began_at = heard_at = time.monotonic()
    order: Cancel | Ping = command
    while is_locked(folder):
        if ask_run(folder.socket, order, timeout_s=_ANSWER_S):
            order, heard_at = Ping(), time.monotonic()
        if time.monotonic() - heard_at >= patience_s:
            may_be_killed = command.now or _find_owner(folder)
            return bool(may_be_killed) and end_by_force(state, folder, reason=command.by)
        if command.now and time.monotonic() - began_at >= _MOST_KILLING_S:
            return end_by_force(state, folder, reason=command.by, message=_TOO_SLOW)
        time.sleep(_POLL_S)
    return True


def order_end(state: str, folder: RunFolder, *, command: Cancel) -> bool:
    """Asks a run to end and does not wait for it; says whether it heard, or was ended by force because it did not."""
    heard = stop(folder, command=command)
    return heard or (command.now and is_locked(folder) and end_by_force(state, folder, reason=command.by))


def is_silent(folder: RunFolder) -> bool:
    """Whether a living run has not answered for a while."""
    until = time.monotonic() + _ANSWER_S
    while is_locked(folder) and not ask_run(folder.socket, Ping(), timeout_s=_ANSWER_S):
        if time.monotonic() >= until:
            return is_locked(folder)
        time.sleep(_POLL_S)
    return False


def end_by_force(state: str, folder: RunFolder, *, reason: Reason, message: str = _SILENT) -> bool:
    """Kills the owner of a run, and after it the runs that belong to it; says whether all of them have ended."""
    _kill(folder)
    belonging = list(_list_belonging(state, folder))
    for each in belonging:
        _kill(each)
    ended = [_declare(state, each, reason, message) for each in (folder, *belonging)]
    return all(ended)


def _kill(folder: RunFolder) -> None:
    for pid in _find_owner(folder):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    kill_run_processes(folder.run_id)


def _find_owner(folder: RunFolder) -> list[int]:
    """The process that is a run's alone: a program in which a run lives does not write to its `supervisor.log`."""
    return list_holders(folder.file("lock"), folder.file("supervisor.log"))


def _list_belonging(state: str, folder: RunFolder) -> Iterator[RunFolder]:
    """The living runs of this work, and theirs."""
    living = [each for each in list_active_folders(state) if is_locked(each)]
    owners = {str(folder.run_id)}
    # Whatever belongs to something was started after it.
    for each in sorted(living, key=lambda each: each.run_id):
        if read_relation(each, "parent") in owners:
            owners.add(each.run_id)
            yield each


def _declare(state: str, folder: RunFolder, reason: Reason, message: str) -> bool:
    until = time.monotonic() + _DEATH_S
    while True:
        try:
            lock = lock_run(folder)
            break
        except RunBusy:
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
    try:
        declare_lost(state, folder, reason=reason, message=message)
    finally:
        file_locks.release(lock)
    return True
