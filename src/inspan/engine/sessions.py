"""Which session of its agent a run goes on with: found by run, `@last` or the agent's own id, and taken for it."""

import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import BadInput, RunNotFound, SessionNotFound, StateUnusable
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.stores.folder import RunFolder, active_runs
from inspan.stores.paths import private_folder, state_home
from inspan.stores.sessions import (
    SessionRecord,
    editing,
    forget_run,
    lock_session,
    read_session,
    session_folder,
    session_of,
    sessions,
    write_session,
)

from .keys import at_home
from .presets import driver_of

_TAIL_BYTES = 4_000_000


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A session that one run has for itself: the run's owner closes `lock`; `resumed` is the agent's id, or empty."""

    record: SessionRecord
    lock: int
    resumed: str = ""


def with_session(task: Task, env: Mapping[str, str]) -> tuple[Task, SessionRecord | None]:
    """The task as its session wants it, and that session: agent, folder and profile are the session's own.

    So is the model, unless the task names another. Raises `SessionNotFound`, or `BadInput` where the task asks for
    another agent or folder than the session has.
    """
    if not task.resume:
        if task.fork:
            raise BadInput("fork", True, "there is nothing to fork.", next_step="Name the session with --resume.")
        return task, None
    name, record = _found(state_home(env), task)
    agent = driver_of(task).name if task.agent else record.agent
    if agent != record.agent:
        raise BadInput("agent", task.agent, f"the session is one of {record.agent}.", next_step="Leave --agent out.")
    if task.cwd and os.path.realpath(task.cwd) != os.path.realpath(record.cwd):
        raise BadInput(
            "cwd",
            task.cwd,
            f"the session belongs to {record.cwd}.",
            next_step="Leave --cwd out to go on there, or start a new session here.",
        )
    if not os.path.isdir(record.cwd):
        raise BadInput(
            "cwd",
            record.cwd,
            "the folder of the session is gone.",
            next_step="Make it again, or start a new session elsewhere.",
        )
    own = {
        "agent": task.agent or record.agent,
        "cwd": record.cwd,
        "profile": record.profile,
        "model": task.model or record.model,
    }
    own["channel"] = task.channel or record.channel
    return msgspec.structs.replace(task, resume=name, **own), record


def take(state: str, task: Task, *, record: SessionRecord | None, run_id: str, agent: str) -> Taken:
    """Takes the session for a run, and makes a new one where it is fresh or a fork.

    Raises `SessionBusy`, or `SessionNotFound` for one that was deleted since it was found.
    """
    with editing(state):
        known = read_session(state, record.key) if record else None
        if record and record.runs and not (known and known.runs):
            raise SessionNotFound(
                f"The session of run {record.key} has just been deleted.", next_step="Start a new one."
            )
        if record and not task.fork:
            return _entered(state, task, known or record, run_id=run_id, resumed=record.session_id)
        new = SessionRecord(
            key=run_id, home=run_id, agent=agent, profile=task.profile, cwd=task.cwd, channel=task.channel
        )
        if record:
            home = record.home if record.profile == "clean" else run_id
            new = msgspec.structs.replace(new, home=home, told=(known or record).told)
        return _entered(state, task, new, run_id=run_id, resumed=record.session_id if record else "")


def _entered(state: str, task: Task, record: SessionRecord, *, run_id: str, resumed: str) -> Taken:
    record = msgspec.structs.replace(record, model=task.model or record.model, runs=(*record.runs, run_id))
    taken = Taken(record=record, lock=lock_session(state, record.key), resumed=resumed)
    try:
        write_session(state, record)
    except BaseException:
        os.close(taken.lock)
        raise
    return taken


def correct_told(state: str, taken: Taken, told: Told) -> None:
    """Keeps what the agent is found to have told before, so that it is not lost with a turn that breaks off."""
    if told == taken.record.told:
        return
    with editing(state):
        record = read_session(state, taken.record.key) or taken.record
        write_session(state, msgspec.structs.replace(record, told=told))


def config_folder(state: str, record: SessionRecord) -> str:
    """Where the agent keeps its settings and transcripts in the profile `clean`."""
    return private_folder(os.path.join(session_folder(state, record.home), "config"))


def told_before(driver: Driver, taken: Taken, *, config: str, env: Mapping[str, str]) -> Told:
    """What the agent will count on from: by its own transcript, which knows of turns that broke off, else by ours."""
    if not taken.resumed or not driver.told_in or not driver.transcripts:
        return taken.record.told
    from glob import escape, glob  # Start-up time: only going on with a session needs it.

    pattern = driver.transcripts.format(session_id=taken.resumed)
    for path in glob(os.path.join(escape(state_root(driver, config, env)), pattern)):
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                return driver.told_in(file.read()) or taken.record.told
        except OSError:
            continue
    return taken.record.told


def state_root(driver: Driver, config: str, env: Mapping[str, str]) -> str:
    """Where the agent keeps its sessions: in the session's own config folder, or where the user's lie."""
    if named := config or env.get(driver.config_variable, ""):
        return os.path.join(named, driver.state_below)
    return at_home(driver.state_paths[0], env)


def release(state: str, key: str, run_id: str) -> None:
    """Undoes what `take` entered, for a run that never started."""
    forget_run(state, key, run_id)


def _found(state: str, task: Task) -> tuple[str, SessionRecord]:
    """The session that a task means, and its name in full: of the run that was found, else as it was given."""
    from .runs import find  # Start-up time: only going on with a session needs it.

    try:
        folder = find(state, task.resume)
    except RunNotFound as error:
        record = _by_id(state, task.resume) or (_foreign(task) if task.profile == "user" else None)
        if record is None:
            message = error.message if task.resume == "@last" else f"{error.message} No session has this id either."
            step = f"{error.next_step} A session is deleted with its last run."
            raise SessionNotFound(message, next_step=step) from None
        return task.resume, record
    return folder.run_id, _of_run(state, folder)


def _of_run(state: str, folder: RunFolder) -> SessionRecord:
    from .runs import settle  # Start-up time: as above.

    summary = settle(state, folder)
    record = _settled(state, session_of(folder))
    # A run that has not ended has not told the session's record; its log has the id.
    session_id = record.session_id or summary.session_id if record else ""
    if record is None or not record.runs or not session_id:
        raise SessionNotFound(
            f"Run {folder.run_id} opened no session that could be continued.", next_step="Start a new one."
        )
    return msgspec.structs.replace(record, session_id=session_id)


def _by_id(state: str, session_id: str) -> SessionRecord | None:
    from .runs import find  # Start-up time: as above.

    unknown: list[SessionRecord] = []
    for record in sessions(state):
        if record.session_id == session_id and record.runs:
            return _settled(state, record.key)
        if not record.session_id and record.runs:
            unknown.append(record)
    for record in unknown:  # Living, lost, or never opened.
        with suppress(StateUnusable, SessionNotFound):
            known = _of_run(state, find(state, record.runs[-1]))
            if known.session_id == session_id:
                return known
    return None


def _settled(state: str, key: str) -> SessionRecord | None:
    """The session's record once its lost runs are known as such: nothing of them lives, and their words are counted."""
    from .runs import settle  # Start-up time: as above.

    record = read_session(state, key)
    unsettled = [folder for folder in active_runs(state) if record and folder.run_id in record.runs]
    for folder in unsettled:
        with suppress(StateUnusable):  # Another run of the session that cannot be read is no hindrance.
            settle(state, folder)
    return read_session(state, key) if unsettled else record


def _foreign(task: Task) -> SessionRecord | None:
    """A session that the user began without inspan: the agent itself knows whether it exists.

    Nothing for what can be no session of this agent.
    """
    driver = driver_of(task)
    if not driver.session_ids.fullmatch(task.resume) or "/" in task.resume:
        return None
    key = f"{driver.name}-{task.resume}"
    cwd = task.cwd or os.getcwd()
    return SessionRecord(key=key, home=key, agent=driver.name, profile=task.profile, cwd=cwd, session_id=task.resume)
