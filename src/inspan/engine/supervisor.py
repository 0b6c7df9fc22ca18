"""The detached process that owns exactly one run."""

import asyncio
import os
import signal
import socket

import msgspec

from inspan.protocol.events import RunEnded
from inspan.stores.folder import RunFolder, open_folder
from inspan.stores.log import RunLog
from inspan.transports.spawn import Spawned

from .closing import close_run, fail_to_start
from .control import ControlServer
from .narrowing import narrowed
from .plan import Plan
from .presets import driver_of
from .session import Session


def supervise(
    plan: bytes,
    spawned: Spawned | None,
    *,
    secrets: dict[str, str],
    problem: str,
    locks: tuple[int, int],
    listener: int,
) -> None:
    """The whole life of a supervisor; returns when the run's log has ended."""
    decoded = msgspec.structs.replace(msgspec.msgpack.decode(plan, type=Plan), secrets=secrets)
    folder = open_folder(decoded.folder)
    log = RunLog(folder.log)
    if spawned is None:
        fail_to_start(decoded, folder, log, problem)
    else:
        accepting = socket.socket(fileno=listener) if listener >= 0 else None
        asyncio.run(_supervise(decoded, folder, spawned, log, accepting))
    for lock in locks:
        os.close(lock)


async def _supervise(
    plan: Plan, folder: RunFolder, spawned: Spawned, log: RunLog, listener: socket.socket | None
) -> RunEnded:
    session = Session(
        plan,
        spawned,
        driver=narrowed(driver_of(plan.task, agent=plan.agent), channel=plan.channel, way=plan.way),
        log=log,
        listener=listener,
    )
    control = ControlServer(folder.socket, session.obey)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, _told_to_go, session, number)
    try:
        ended = await session.run(on_start=control.open)
    finally:
        control.close()
    close_run(plan.state, folder, session.summary, secrets=plan.secrets)
    return ended


def _told_to_go(session: Session, number: signal.Signals) -> None:
    session.end("stopped", f"the supervisor got {number.name}")
