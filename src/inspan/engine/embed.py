"""Running a task inside the caller's own process: the same session, without a supervisor."""

import asyncio

import msgspec

from inspan.folds.summary import Summary, summarize
from inspan.protocol.task import Task
from inspan.stores.folder import RunFolder
from inspan.stores.log import RunLog, read_log
from inspan.transports.spawn import Spawned, spawn

from . import registry
from .closing import close_run, fail_to_start
from .plan import Prepared, discard, prepare
from .session import Session
from .telling import Teller

_asked: set[str] = set()


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, and all that is known of it."""

    folder: RunFolder
    task: Task
    summary: Summary


async def run_here(task: Task, *, on_event: Teller | None = None) -> Finished:
    """Runs the task to its end; raises `InspanError` for what cannot be started.

    The agent is contained as ever, but it dies with the calling process instead of outliving it, and cancelling the
    call ends the run.
    """
    prepared = await prepared_apart(task)
    plan, folder = prepared.plan, prepared.folder
    try:
        log = RunLog(folder.log)
        spawned = _spawned(prepared)
        if isinstance(spawned, str):
            if prepared.listener:
                prepared.listener.close()
            fail_to_start(plan, folder, log, spawned)
            summary = summarize(each.event for each in read_log(folder.log))
            return Finished(folder=folder, task=plan.task, summary=summary)
        session = Session(
            plan,
            spawned,
            driver=registry.driver(plan.agent),
            log=log,
            listener=prepared.listener,
            on_event=on_event,
        )
        try:
            await session.run()
        finally:
            close_run(plan.state, folder, session.summary, secrets=plan.secrets)
        return Finished(folder=folder, task=plan.task, summary=session.summary)
    finally:
        prepared.close()


async def prepared_apart(task: Task) -> Prepared:
    """Prepares a run without holding up the loop; a cancelled one is undone.

    The first run of an agent asks programs, and a key command may take seconds: those go to a thread, which costs more
    than all the rest of a prepared run does.
    """
    if task.agent in _asked and not task.key_from.startswith(("cmd:", "keyring:")):
        return prepare(task)
    _asked.add(task.agent)
    work = asyncio.get_running_loop().run_in_executor(None, prepare, task)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            await asyncio.wait({work})
        if not work.exception():
            discard(work.result())
        raise


def _spawned(prepared: Prepared) -> Spawned | str:
    plan = prepared.plan
    try:
        return spawn(plan.argv, plan.env, stdin=plan.stdin, life_line=plan.life_line)
    except OSError as error:
        return f"{plan.argv[0]} cannot be started: {error.strerror}"
