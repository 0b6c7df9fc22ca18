"""The detached process that owns exactly one run."""

import asyncio
import signal
import socket

import msgspec

from inspan.agents.presets import driver_for_task
from inspan.agents.select import narrow_driver
from inspan.protocol.events import RunEnded
from inspan.protocol.known_types import know_type
from inspan.protocol.plan import Plan
from inspan.stores.event_log import RunLog, resume_log
from inspan.stores.run_folder import RunFolder, open_folder
from inspan.system import file_locks
from inspan.transports.process import ENDING_SIGNALS, Spawned

from .control_server import ControlServer
from .execution import RunExecution
from .finalize import finalize_run, record_failed_start


def supervise(
    plan: bytes,
    spawned: Spawned | None,
    *,
    secrets: tuple[tuple[str, str], ...],
    alternative_envs: list[dict[str, str]],
    problem: str,
    locks: tuple[int, int],
    listener: int,
) -> None:
    """The whole life of a supervisor; returns when the run's log has ended."""
    decoded = msgspec.structs.replace(msgspec.msgpack.decode(plan, type=know_type(Plan)), secrets=secrets)
    decoded = _restore_environments(decoded, alternative_envs)
    folder = open_folder(decoded.folder)
    log = resume_log(folder.log)
    if spawned is None:
        record_failed_start(decoded, folder, log, problem)
    else:
        accepting = socket.socket(fileno=listener) if listener >= 0 else None
        asyncio.run(_supervise(decoded, folder, spawned, log, accepting))
    for lock in locks:
        file_locks.release(lock)


async def _supervise(
    plan: Plan, folder: RunFolder, spawned: Spawned, log: RunLog, listener: socket.socket | None
) -> RunEnded:
    execution = RunExecution(
        plan,
        spawned,
        driver=narrow_driver(
            driver_for_task(plan.task, agent=plan.agent.name), channel=plan.agent.channel, provider=plan.agent.provider
        ),
        log=log,
        listener=listener,
    )
    control = ControlServer(folder, execution.handle_command)
    loop = asyncio.get_running_loop()
    for number in map(signal.Signals, ENDING_SIGNALS):
        loop.add_signal_handler(number, _on_signal, execution, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)  # One that came before is obeyed now.
    try:
        ended = await execution.run(on_start=control.open)
    finally:
        control.close()
    finalize_run(plan.state, folder, execution.summary, secrets=plan.secrets)
    return ended


def _restore_environments(plan: Plan, envs: list[dict[str, str]]) -> Plan:
    """The plan with what came beside it, as the secrets do: an environment need not be UTF-8."""
    others = [
        msgspec.structs.replace(each, process=msgspec.structs.replace(each.process, env=env))
        for each, env in zip(plan.alternatives, envs, strict=True)
    ]
    return msgspec.structs.replace(plan, alternatives=others)


def _on_signal(execution: RunExecution, number: signal.Signals) -> None:
    execution.end("stopped", f"the supervisor got {number.name}")
