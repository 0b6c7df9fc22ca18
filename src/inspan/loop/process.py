"""The detached process that owns exactly one loop."""

import asyncio
import signal
from typing import Protocol

import msgspec

from inspan.folds.summary import Summary
from inspan.protocol.commands import Cancel, Command, Reply
from inspan.protocol.events import RunEnded, RunStarted
from inspan.protocol.known_types import know_type
from inspan.running.control_server import ControlServer
from inspan.running.finalize import finalize_run
from inspan.stores.event_log import RunLog, resume_log
from inspan.stores.run_folder import RunFolder, open_folder
from inspan.system import file_locks
from inspan.transports.process import ENDING_SIGNALS

from .history import load_before
from .plan import LoopPlan
from .prepare import PreparedLoop
from .worker import LoopWorker


def run_process(plan: bytes, *, env: dict[str, str], secrets: tuple[tuple[str, str], ...], lock: int) -> None:
    """The whole life of a loop's process; returns when its log has ended."""
    decoded = msgspec.msgpack.decode(plan, type=know_type(LoopPlan))
    decoded = msgspec.structs.replace(decoded, env=env, secrets=secrets)
    folder = open_folder(decoded.folder)
    log = resume_log(folder.log)
    try:
        asyncio.run(run_loop(decoded, folder, log))
    finally:
        log.close()
        file_locks.release(lock)


async def run_loop(plan: LoopPlan, folder: RunFolder, log: RunLog) -> RunEnded:
    """Runs a claimed loop to its end, with a socket over which it can be ended."""
    worker = LoopWorker(plan, log, before=load_before(plan.state, plan.task.continues))
    obey_signals(worker)
    return await run_worker(worker, plan, folder)


async def run_inside(prepared: PreparedLoop) -> RunEnded:
    """Runs a claimed loop in the process of who has it among others, and lets go of its lock."""
    plan, folder = prepared.plan, prepared.folder
    log = None
    try:
        log = resume_log(folder.log)
        worker = LoopWorker(plan, log, before=load_before(plan.state, plan.task.continues))
        return await run_worker(worker, plan, folder)
    finally:
        if log:
            log.close()
        file_locks.release(prepared.lock)


class Worker(Protocol):
    """Whoever has a log, takes commands and comes to an end."""

    def handle_command(self, command: Command, /) -> Reply: ...
    def cancel(self, command: Cancel, /) -> None: ...
    async def run(self) -> RunEnded: ...


def obey_signals(worker: Worker) -> None:
    """Lets the signals that end a process end the work politely."""
    loop = asyncio.get_running_loop()
    for number in map(signal.Signals, ENDING_SIGNALS):
        loop.add_signal_handler(number, worker.cancel, Cancel(by="stopped"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)  # One that came before is obeyed now.


async def run_worker(worker: Worker, plan: "StartedPlan", folder: RunFolder) -> RunEnded:
    """Runs it with a socket over which it can be told things, and leaves what others look it up by."""
    control = ControlServer(folder, worker.handle_command)
    await control.open()
    try:
        ended = await worker.run()
    finally:
        control.close()
    summary = Summary()
    summary.add(plan.started)
    summary.add(ended)
    finalize_run(plan.state, folder, summary, secrets=plan.secrets)
    return ended


class StartedPlan(Protocol):
    """What is needed of a plan at its end."""

    @property
    def state(self) -> str: ...
    @property
    def secrets(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def started(self) -> RunStarted: ...
