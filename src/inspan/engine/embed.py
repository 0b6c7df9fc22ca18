"""Running a task inside the caller's own process: the same session, without a supervisor."""

from collections.abc import Callable

from inspan.protocol.events import Event, RunEnded
from inspan.protocol.task import Task
from inspan.stores.log import RunLog
from inspan.transports.spawn import Spawned, spawn

from . import registry
from .closing import close_run, fail_to_start
from .plan import Prepared, prepare
from .session import Session


async def run(task: Task, *, on_event: Callable[[Event], None] | None = None) -> RunEnded:
    """Runs the task to its end and gives its last event; raises `InspanError` for what cannot be started.

    The agent is contained as ever, but it dies with the calling process instead of outliving it, and cancelling the
    call ends the run. `on_event` gets every event in order, before redaction (pieces of
    text and texts over 1 MB come redacted); if it raises, the run goes on without it.
    """
    prepared = prepare(task)
    plan, folder = prepared.plan, prepared.folder
    try:
        log = RunLog(folder.log)
        spawned = _spawned(prepared)
        if isinstance(spawned, str):
            if prepared.listener:
                prepared.listener.close()
            return fail_to_start(plan, folder, log, spawned)
        session = Session(
            plan,
            spawned,
            driver=registry.driver(plan.agent),
            log=log,
            listener=prepared.listener,
            on_event=on_event,
        )
        try:
            return await session.run()
        finally:
            close_run(plan.state, folder, session.summary, secrets=plan.secrets)
    finally:
        prepared.close()


def _spawned(prepared: Prepared) -> Spawned | str:
    plan = prepared.plan
    try:
        return spawn(plan.argv, plan.env, stdin=plan.stdin, life_line=plan.life_line)
    except OSError as error:
        return f"{plan.argv[0]} cannot be started: {error.strerror}"
