"""Running a task inside the caller's own process: the same execution, without a supervisor."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from inspan.agents.presets import driver_for_task
from inspan.agents.select import narrow_driver
from inspan.errors import StateUnusable, Unsupported
from inspan.folds.summary import Summary, summarize
from inspan.planning.prepare import discard, prepare
from inspan.protocol.commands import Command, Reply
from inspan.protocol.plan import Plan
from inspan.protocol.task import Task
from inspan.protocol.wire import decode_event, encode
from inspan.redaction import Gate, Secrets, SecretSet
from inspan.running.callbacks import CallbackDispatcher, EventCallback
from inspan.running.control_server import ControlServer
from inspan.running.execution import RunExecution
from inspan.running.finalize import finalize_run, record_failed_start
from inspan.running.prepared_run import PreparedRun
from inspan.running.spawn_agent import spawn_agent
from inspan.stores.event_log import RunLog, read_log, resume_log
from inspan.stores.run_folder import RunFolder
from inspan.system.cancellation import create_hidden_task, wait_for_end
from inspan.system.threads import MAX_COMPUTING, MAX_WAITING, call_in_thread
from inspan.transports.process import Spawned

OnClaim = Callable[[RunFolder], None]
HandleCommand = Callable[[Command], Reply]
OnStart = Callable[[RunFolder, HandleCommand], None]
_prepared_agents: set[str] = set()


class _Listeners(NamedTuple):
    """Who hears of what in one run."""

    on_event: tuple[EventCallback, ...]
    on_redacted: EventCallback | None
    on_claim: OnClaim | None
    on_start: OnStart | None


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, and all that is known of it."""

    folder: RunFolder
    task: Task
    summary: Summary


async def run_in_process(
    task: Task,
    *,
    on_event: EventCallback | tuple[EventCallback, ...] | None = None,
    on_redacted: EventCallback | None = None,
    on_claim: OnClaim | None = None,
    on_start: OnStart | None = None,
) -> FinishedRun:
    """Runs the task to its end; raises `InspanError` for what cannot be started.

    The agent is contained as ever, but it dies with the calling process instead of outliving it, and cancelling the
    call ends the run. `on_event` gets events as they are, `on_redacted` as the log has them. `on_claim` hears of the
    run's folder before its agent is started: from then on there is a run, whatever becomes of the call. `on_start`
    gets what takes commands, once the agent is started.
    """
    # On a task of its own: the caller may be cancelled in ways in which nothing could be waited for any more.
    hearing = (on_event,) if callable(on_event) else on_event or ()
    listeners = _Listeners(hearing, on_redacted, on_claim, on_start)
    require_loop("inspan.run")
    running = create_hidden_task(_run(task, listeners), name="inspan run")
    return await wait_for_end(running, on_cancel=running.cancel)


def require_loop(name: str) -> asyncio.AbstractEventLoop:
    """The loop that the caller runs in; raises `Unsupported` where that is none of asyncio's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise Unsupported(
            name,
            "",
            "no asyncio loop is running here, and under trio none does.",
            next_step="Run it with asyncio.run, or call inspan.run_sync in a thread.",
        ) from None


async def prepare_in_thread(task: Task, *, supervised: bool) -> PreparedRun:
    """Prepares a run without holding up the loop; a cancelled one is undone once it is prepared."""
    # The first run of an agent asks its program for its version; a key may come from a program that takes seconds.
    waits = task.agent not in _prepared_agents or task.key_from.startswith(("cmd:", "keyring:"))
    most = MAX_WAITING if waits else MAX_COMPUTING
    prepared = await call_in_thread(lambda: prepare(task, supervised=supervised), limit=most, undo=discard)
    _prepared_agents.add(task.agent)
    return prepared


async def _run(task: Task, listeners: _Listeners) -> FinishedRun:
    prepared = await prepare_in_thread(task, supervised=False)
    try:
        log = resume_log(prepared.folder.log)
    except BaseException:
        discard(prepared)
        raise
    try:
        if listeners.on_claim:
            listeners.on_claim(prepared.folder)
        return await _execute(prepared, log, listeners)
    finally:
        prepared.release()


async def _execute(prepared: PreparedRun, log: RunLog, listeners: _Listeners) -> FinishedRun:
    plan, folder = prepared.plan, prepared.folder
    callbacks = _collect_callbacks(plan, listeners.on_event, listeners.on_redacted)
    # Not in a thread: the agent is tied to the life of the one that starts it.
    spawned = _spawn_agent(prepared)
    if isinstance(spawned, str):
        return await _finish_failed_start(prepared, log, spawned, callbacks)
    execution = RunExecution(
        plan,
        spawned,
        driver=narrow_driver(
            driver_for_task(plan.task, agent=plan.agent.name), channel=plan.agent.channel, provider=plan.agent.provider
        ),
        log=log,
        listener=prepared.listener,
        on_event=callbacks or None,
    )
    control = ControlServer(folder, execution.handle_command)
    try:
        if listeners.on_start:
            listeners.on_start(folder, execution.handle_command)
        await execution.run(on_start=lambda: _open_control(control, execution))
    finally:
        control.close()
        # A loop that was dropped can wait for nothing any more; a run whose end was interrupted is told as lost later.
        if execution.summary.ended and not isinstance(sys.exception(), GeneratorExit):
            close = partial(finalize_run, plan.state, folder, execution.summary, secrets=plan.secrets)
            await call_in_thread(close, limit=MAX_WAITING)  # For the index, which another run may be writing.
    return FinishedRun(folder=folder, task=plan.task, summary=execution.summary)


async def _open_control(control: ControlServer, execution: RunExecution) -> None:
    """A program that has no place for a socket still gets its run; it can only be ended by cancelling the call."""
    try:
        await control.open()
    except (StateUnusable, OSError) as error:
        execution.report_problem(f"the run cannot be stopped from elsewhere, for it has no control socket: {error}")


async def _finish_failed_start(
    prepared: PreparedRun, log: RunLog, problem: str, callbacks: tuple[EventCallback, ...]
) -> FinishedRun:
    if prepared.listener:
        prepared.listener.close()
    await call_in_thread(lambda: record_failed_start(prepared.plan, prepared.folder, log, problem))
    events = [record.event for record in read_log(prepared.folder.log)]
    telling = CallbackDispatcher(callbacks, on_problem=lambda _: None)  # The log has ended: it takes no complaint.
    telling.dispatch(events)
    await telling.close()
    return FinishedRun(folder=prepared.folder, task=prepared.plan.task, summary=summarize(events))


def _spawn_agent(prepared: PreparedRun) -> Spawned | str:
    process = prepared.plan.process
    try:
        return spawn_agent(process)
    except OSError as error:
        return f"{process.argv[0]} cannot be started: {error.strerror}"


def _collect_callbacks(
    plan: Plan, on_event: tuple[EventCallback, ...], on_redacted: EventCallback | None
) -> tuple[EventCallback, ...]:
    redacting = (_wrap_redaction(on_redacted, plan.secrets),) if on_redacted else ()
    return (*on_event, *redacting)


def _wrap_redaction(listener: EventCallback, secrets: Secrets) -> EventCallback:
    gate = Gate(SecretSet.get_shared(secrets), encode=encode)
    return lambda event: listener(decode_event(gate.encode_event(event)))
