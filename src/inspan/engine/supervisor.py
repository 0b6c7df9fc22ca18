"""The detached process that owns exactly one run, and how it is started."""

import asyncio
import marshal
import os
import signal
import socket
import sys

import msgspec

from inspan.protocol.events import RunEnded
from inspan.stores.folder import RunFolder, open_folder
from inspan.stores.log import RunLog
from inspan.transports.spawn import Spawned

from . import registry
from .closing import close_run, fail_to_start
from .control import ControlServer
from .plan import Plan, Prepared
from .session import Session


def start(prepared: Prepared) -> None:
    """Starts the supervisor of a prepared run and hands it the lock and the listener; the run goes on without us."""
    plan, listener = prepared.plan, prepared.listener
    inherited = [prepared.lock, *([listener.fileno()] if listener else [])]
    given = os.memfd_create("plan")
    with open(given, "wb", closefd=False) as file:
        marshal.dump(_blob(prepared), file)
    os.lseek(given, 0, os.SEEK_SET)
    for fd in (given, *inherited):
        os.set_inheritable(fd, True)
    script = os.path.join(os.path.dirname(__file__), "boot.py")
    try:
        _spawn([sys.executable, "-I", "-S", script, str(given)], os.path.join(plan.folder, "supervisor.log"))
    except OSError as error:
        problem = f"the supervisor cannot be started with {sys.executable}: {error.strerror}"
        fail_to_start(plan, prepared.folder, RunLog(prepared.folder.log), problem)
    finally:
        os.close(given)
        os.close(prepared.lock)
        if listener:
            listener.close()


def supervise(plan: bytes, spawned: Spawned | None, *, problem: str, lock: int, listener: int) -> None:
    """The whole life of a supervisor; returns when the run's log has ended."""
    decoded = msgspec.msgpack.decode(plan, type=Plan)
    folder = open_folder(decoded.folder)
    for fd in (lock, *([listener] if listener >= 0 else [])):
        os.set_inheritable(fd, False)
    log = RunLog(folder.log)
    if spawned is None:
        fail_to_start(decoded, folder, log, problem)
    else:
        accepting = socket.socket(fileno=listener) if listener >= 0 else None
        asyncio.run(_supervise(decoded, folder, spawned, log, accepting))
    os.close(lock)


async def _supervise(
    plan: Plan, folder: RunFolder, spawned: Spawned, log: RunLog, listener: socket.socket | None
) -> RunEnded:
    session = Session(plan, spawned, driver=registry.driver(plan.agent), log=log, listener=listener)
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


def _blob(prepared: Prepared) -> dict[str, object]:
    """What the boot script reads before it can import anything: plain values only."""
    plan = prepared.plan
    return {
        "path": [path for path in sys.path if path],
        "argv": plan.argv,
        "env": plan.env,
        "stdin": plan.stdin,
        "life_line": plan.life_line,
        "plan": msgspec.msgpack.encode(msgspec.structs.replace(plan, env={}, stdin=b"")),
        "lock": prepared.lock,
        "listener": prepared.listener.fileno() if prepared.listener else -1,
    }


def _spawn(argv: list[str], log: str) -> None:
    """Starts a process in a session of its own that keeps nothing of ours but the descriptors it is meant to have."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)
