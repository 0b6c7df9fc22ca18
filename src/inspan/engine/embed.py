"""Running a task inside the caller's own process: the same session, without a supervisor."""

import asyncio

import msgspec

from inspan.folds.summary import Summary, summarize
from inspan.protocol.task import Task
from inspan.protocol.wire import decode_event, encode
from inspan.redaction import Gate, SecretSet
from inspan.stores.folder import RunFolder
from inspan.stores.log import RunLog, read_log
from inspan.transports.spawn import Spawned, spawn

from .closing import close_run, fail_to_start
from .narrowing import narrowed
from .plan import Plan, Prepared, discard, prepare
from .presets import driver_of
from .session import Session
from .telling import Listener, Telling

_asked: set[str] = set()


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, and all that is known of it."""

    folder: RunFolder
    task: Task
    summary: Summary


async def run_here(task: Task, *, on_event: Listener | None = None, on_redacted: Listener | None = None) -> Finished:
    """Runs the task to its end; raises `InspanError` for what cannot be started.

    The agent is contained as ever, but it dies with the calling process instead of outliving it, and cancelling the
    call ends the run. `on_event` gets events as they are, `on_redacted` as the log has them.
    """
    prepared = await prepared_apart(task)
    try:
        log = RunLog(prepared.folder.log)
    except BaseException:
        discard(prepared)
        raise
    try:
        return await _started(prepared, log, _listeners(prepared.plan, on_event, on_redacted))
    finally:
        prepared.close()


async def prepared_apart(task: Task) -> Prepared:
    """Prepares a run without holding up the loop; a cancelled one is undone.

    The first run of an agent asks programs, and a key command may take seconds: those go to a thread, which costs more
    than all the rest of a prepared run does. However often the call is cancelled, that thread is waited for.
    """
    if task.agent in _asked and not task.key_from.startswith(("cmd:", "keyring:")):
        return prepare(task)
    cancelled: asyncio.CancelledError | None = None
    work = asyncio.get_running_loop().run_in_executor(None, prepare, task)
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        prepared = work.result()
        _asked.add(task.agent)
        return prepared
    if work.exception() is None:
        discard(work.result())
    raise cancelled


async def _started(prepared: Prepared, log: RunLog, listeners: tuple[Listener, ...]) -> Finished:
    plan, folder = prepared.plan, prepared.folder
    spawned = _spawned(prepared)
    if isinstance(spawned, str):
        return await _failed(prepared, log, spawned, listeners)
    session = Session(
        plan,
        spawned,
        driver=narrowed(driver_of(plan.task, agent=plan.agent), channel=plan.channel, way=plan.way),
        log=log,
        listener=prepared.listener,
        on_event=listeners or None,
    )
    try:
        await session.run()
    finally:
        close_run(plan.state, folder, session.summary, secrets=plan.secrets)
    return Finished(folder=folder, task=plan.task, summary=session.summary)


async def _failed(prepared: Prepared, log: RunLog, problem: str, listeners: tuple[Listener, ...]) -> Finished:
    if prepared.listener:
        prepared.listener.close()
    fail_to_start(prepared.plan, prepared.folder, log, problem)
    events = [record.event for record in read_log(prepared.folder.log)]
    telling = Telling(listeners, on_problem=lambda _: None)  # The log has ended: it takes no complaint.
    telling.tell(events)
    await telling.close()
    return Finished(folder=prepared.folder, task=prepared.plan.task, summary=summarize(events))


def _spawned(prepared: Prepared) -> Spawned | str:
    plan = prepared.plan
    try:
        return spawn(plan.argv, plan.env, stdin=None if plan.keeps_stdin else plan.stdin, life_line=plan.life_line)
    except OSError as error:
        return f"{plan.argv[0]} cannot be started: {error.strerror}"


def _listeners(plan: Plan, on_event: Listener | None, on_redacted: Listener | None) -> tuple[Listener, ...]:
    redacting = _redacting(on_redacted, plan.secrets) if on_redacted else None
    return tuple(listener for listener in (on_event, redacting) if listener)


def _redacting(listener: Listener, secrets: dict[str, str]) -> Listener:
    gate = Gate(SecretSet.shared(secrets), encode=encode)
    return lambda event: listener(decode_event(gate.event(event)))
