"""Starting the process of a loop, or of other work that has runs: it goes on without whoever started it."""

import asyncio
import marshal
import os
import sys
from contextlib import suppress
from typing import Protocol

import msgspec

from inspan.protocol.task import Task
from inspan.running.start import environment_without, spawn_detached
from inspan.system import file_locks
from inspan.system.platform import create_memory_file, open_exit_fd
from inspan.system.programs import list_exposed_folders, list_trusted_modules
from inspan.transports.process import move_fd_up

from .prepare import PreparedLoop


class WorkPlan(Protocol):
    """What the process of any such work is given: a value that also has its environment and secrets."""

    @property
    def folder(self) -> str: ...
    @property
    def task(self) -> Task: ...
    @property
    def env(self) -> dict[str, str]: ...
    @property
    def secrets(self) -> tuple[tuple[str, str], ...]: ...


def start_loop(prepared: PreparedLoop) -> int:
    """Starts the loop's process and hands it the lock; gives its pid: a program that stays has to reap it.

    Raises `OSError` where it cannot be started; the loop is then found lost.
    """
    plan = prepared.plan
    stripped = msgspec.structs.replace(plan, env={}, secrets=())
    return start_work(plan, msgspec.msgpack.encode(stripped), lock=prepared.lock, entry="inspan.loop.process")


def start_work(plan: WorkPlan, encoded: bytes, *, lock: int, entry: str) -> int:
    """The same for work whose process runs `run_process` of the module `entry`; `encoded` is the plan without its
    environment and secrets."""
    given = move_fd_up(create_memory_file("work"))
    payload = {
        "path": list_trusted_modules(list_exposed_folders(plan.task.cwd, *plan.task.extra_dirs)),
        # Beside the plan: an environment need not be UTF-8, which msgpack insists on.
        "env": plan.env,
        "secrets": plan.secrets,
        "plan": encoded,
        "lock": lock,
        "entry": entry,
    }
    try:
        with open(given, "wb", closefd=False) as file:
            marshal.dump(payload, file)
        os.lseek(given, 0, os.SEEK_SET)
        script = os.path.join(os.path.dirname(__file__), "boot.py")
        argv = [sys.executable, "-I", "-S", script, str(given)]
        log = os.path.join(plan.folder, "supervisor.log")
        return spawn_detached(argv, environment_without(plan.secrets), log, inherited_fds=[given, lock])
    finally:
        os.close(given)
        file_locks.hand_on(lock)


class Children:
    """Waits for the processes that were started here to leave, so that nothing of them stays in the list of
    processes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reapers: set[asyncio.Task[None]] = set()

    def add(self, pid: int) -> None:
        """One more, from any thread; 0 where none was started."""
        if pid:
            self._loop.call_soon_threadsafe(self._watch, pid)

    def _watch(self, pid: int) -> None:
        self._reapers.add(task := self._loop.create_task(_reap(pid)))
        task.add_done_callback(self._reapers.discard)


async def _reap(pid: int) -> None:
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    exit_fd = open_exit_fd(pid)
    loop.add_reader(exit_fd, lambda: exited.done() or exited.set_result(None))
    try:
        await exited
    finally:
        loop.remove_reader(exit_fd)
        os.close(exit_fd)
        _take_status(pid)


def _take_status(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
