"""Which session of its agent a run goes on with: found by run, `@last` or the agent's own id, and taken for it."""

import os
from collections.abc import Mapping

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import BadInput, RunNotFound, SessionNotFound
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.stores.paths import private_folder, state_home
from inspan.stores.sessions import (
    SessionRecord,
    forget_run,
    lock_session,
    read_session,
    session_folder,
    session_of,
    sessions,
    write_session,
)

from . import registry

_TAIL_BYTES = 4_000_000


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A session that one run has for itself: `lock` is closed by the run's owner, `resumed` is the agent's id or empty.

    `fresh` when it was made for this run, and goes with it when the run cannot be started.
    """

    record: SessionRecord
    lock: int
    fresh: bool
    resumed: str = ""


def with_session(task: Task, env: Mapping[str, str]) -> tuple[Task, SessionRecord | None]:
    """The task as its session wants it (agent, folder and profile are the session's own), and that session.

    Raises `SessionNotFound`, or `BadInput` where the task asks for another agent or folder than the session has.
    """
    if not task.resume:
        if task.fork:
            raise BadInput("fork", True, "there is nothing to fork.", next_step="Name the session with --resume.")
        return task, None
    record = _found(state_home(env), task)
    if record is None:
        return task, _foreign(task)
    agent = registry.driver(task.agent).name if task.agent else record.agent
    if agent != record.agent:
        raise BadInput("agent", task.agent, f"the session is one of {record.agent}.", next_step="Leave --agent out.")
    if task.cwd and os.path.realpath(task.cwd) != os.path.realpath(record.cwd):
        raise BadInput(
            "cwd",
            task.cwd,
            f"the session belongs to {record.cwd}.",
            next_step="Leave --cwd out to go on there, or start a new session here.",
        )
    return msgspec.structs.replace(task, agent=record.agent, cwd=record.cwd, profile=record.profile), record


def take(state: str, task: Task, *, record: SessionRecord | None, run_id: str, agent: str) -> Taken:
    """Takes the session for a run, and makes a new one where it is fresh or a fork; raises `SessionBusy`."""
    if record and record.key and not task.fork:
        lock = lock_session(state, record.key)
        # Read again: what was told may have changed until the lock was ours.
        record = read_session(state, record.key) or record
        record = msgspec.structs.replace(record, runs=(*record.runs, run_id))
        return _entered(state, Taken(record=record, lock=lock, fresh=False, resumed=record.session_id))
    new = SessionRecord(key=run_id, home=run_id, agent=agent, profile=task.profile, cwd=task.cwd, runs=(run_id,))
    if record:
        new = msgspec.structs.replace(new, home=record.home or run_id, told=record.told)
    lock = lock_session(state, run_id)
    return _entered(state, Taken(record=new, lock=lock, fresh=True, resumed=record.session_id if record else ""))


def _entered(state: str, taken: Taken) -> Taken:
    try:
        write_session(state, taken.record)
    except BaseException:
        os.close(taken.lock)
        raise
    return taken


def config_folder(state: str, record: SessionRecord) -> str:
    """Where the agent keeps its settings and transcripts in the profile `clean`."""
    return private_folder(os.path.join(session_folder(state, record.home), "config"))


def told_before(driver: Driver, taken: Taken, *, config: str, env: Mapping[str, str]) -> Told:
    """What the agent will count on from: by its own transcript, which knows of turns that broke off, else by ours."""
    if not taken.resumed or not driver.told_in or not driver.transcripts:
        return taken.record.told
    from glob import escape, glob  # Start-up time: only going on with a session needs it.

    root = config or env.get(driver.config_variable) or os.path.expanduser(driver.state_paths[0])
    for path in glob(os.path.join(escape(root), driver.transcripts.format(session_id=taken.resumed))):
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                return driver.told_in(file.read()) or taken.record.told
        except OSError:
            continue
    return taken.record.told


def release(state: str, key: str, run_id: str) -> None:
    """Undoes what `take` entered, for a run that never started."""
    forget_run(state, key, run_id)


def _found(state: str, task: Task) -> SessionRecord | None:
    from .runs import find, settle  # Start-up time: only going on with a session needs it.

    record = next((each for each in sessions(state) if task.resume in (each.session_id, each.key)), None)
    if record and record.session_id:
        return record
    try:
        folder = find(state, task.resume)
    except RunNotFound:
        if task.profile == "user" and task.resume != "@last":
            return None
        raise SessionNotFound(
            f"There is no session {task.resume!r}, and no run of that name.",
            next_step="`inspan ps -a` lists runs; a session is deleted with its last run.",
        ) from None
    summary, record = settle(state, folder), read_session(state, session_of(folder))
    # A run that was lost has not told the session's record; its log has the id.
    session_id = summary.session_id or (record.session_id if record else "")
    if record is None or not session_id:
        raise SessionNotFound(
            f"Run {folder.run_id} opened no session that could be continued.", next_step="Start a new one."
        )
    return msgspec.structs.replace(record, session_id=session_id)


def _foreign(task: Task) -> SessionRecord:
    """A session that the user began without inspan: the agent itself knows whether it exists."""
    driver = registry.driver(task.agent)
    if not driver.session_ids.fullmatch(task.resume):
        raise SessionNotFound(
            f"There is no run {task.resume!r}, and {driver.title} has no sessions with such a name.",
            next_step="`inspan ps -a` lists runs.",
        )
    return SessionRecord(
        key="", home="", agent=driver.name, profile=task.profile, cwd=task.cwd or os.getcwd(), session_id=task.resume
    )
