"""Which session of its agent a run goes on with: found by run or by the agent's own id, and taken for it."""

import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from inspan.agents.presets import driver_for_task, driver_from_description
from inspan.contracts.driver import Driver
from inspan.errors import BadInput, RunNotFound, SessionNotFound, StateUnusable
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.runs.projects import Scope, scope_of
from inspan.stores.paths import make_private_folder, state_home
from inspan.stores.run_folder import RunFolder, active_runs, read_json
from inspan.stores.session_files import copy_session_files, keep_session_files, open_plain
from inspan.stores.sessions import (
    SessionRecord,
    forget_run,
    list_sessions,
    lock_records,
    lock_session,
    read_session,
    session_folder,
    session_key_of,
    write_session,
)
from inspan.system import file_locks
from inspan.system.paths import expand_home

from .places import is_session_place

_TAIL_BYTES = 4_000_000
_PROMPT_CHARACTERS = 60
_LEFT_OUT = '"…"'


class LockedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that one run has for itself: the run's owner closes `lock`; `resumed` is the agent's id, or empty.

    `forked` is the session that it is a copy of.
    """

    record: SessionRecord
    lock: int
    resumed: str = ""
    forked: SessionRecord | None = None


def resolve_session(task: Task, env: Mapping[str, str]) -> tuple[Task, SessionRecord | None]:
    """The task as its session wants it, and that session: agent, folder and profile are the session's own.

    So is the model, unless the task names another. Raises `SessionNotFound`, or `BadInput` where the task asks for
    another agent than the session has, or is for another folder: a task that names none is for the current one.
    """
    if not task.resume:
        if task.fork:
            raise BadInput("fork", True, "there is nothing to fork.", next_step="Name the session with --resume.")
        return task, None
    task = task if task.cwd else msgspec.structs.replace(task, cwd=current_folder())
    name, record = _find_session(state_home(env), task, env)
    agent = driver_for_task(task).name if task.agent else record.agent
    if agent != record.agent:
        raise BadInput("agent", task.agent, f"the session is one of {record.agent}.", next_step="Leave --agent out.")
    if not is_session_place(state_home(env), record.cwd, task):
        _check_folder(name, record, task)
    own = {
        "agent": task.agent or record.agent,
        "cwd": record.cwd,
        "profile": record.profile,
        "model": task.model or record.model,
    }
    own["channel"] = task.channel or record.channel
    task = msgspec.structs.replace(task, resume=name, **own)
    return task if record.session_id else _add_unheard_prompt(state_home(env), task), record


def is_session_id(state: str, word: str) -> bool:
    """Whether a session of this agent's own id is known here."""
    return bool(word) and _find_by_id(state, word) is not None


def claim_session(state: str, task: Task, *, record: SessionRecord | None, run_id: str, agent: str) -> LockedSession:
    """Takes the session for a run, and makes a new one where it is fresh or a fork.

    Raises `SessionBusy`, or `SessionNotFound` for one that was deleted since it was found.
    """
    with lock_records(state):
        known = read_session(state, record.key) if record else None
        if record and record.runs and not (known and known.runs):
            raise SessionNotFound(
                f"The session of run {record.key} has just been deleted.", next_step="Start a new one."
            )
        if record and not task.fork:
            return _lock_session_for(state, task, known or record, run_id=run_id, resumed=record.session_id)
        new = SessionRecord(key=run_id, agent=agent, profile=task.profile, cwd=task.cwd, channel=task.channel)
        if record is None:
            return _lock_session_for(state, task, new, run_id=run_id)
        new = msgspec.structs.replace(new, told=(known or record).told)
        return _lock_session_for(state, task, new, run_id=run_id, resumed=record.session_id, forked=record)


def _lock_session_for(
    state: str,
    task: Task,
    record: SessionRecord,
    *,
    run_id: str,
    resumed: str = "",
    forked: SessionRecord | None = None,
) -> LockedSession:
    record = msgspec.structs.replace(record, model=task.model or record.model, runs=(*record.runs, run_id))
    session = LockedSession(record=record, lock=lock_session(state, record.key), resumed=resumed, forked=forked)
    try:
        write_session(state, record)
    except BaseException:
        file_locks.release(session.lock)
        raise
    return session


def update_reported(state: str, session: LockedSession, reported: SessionTotals) -> None:
    """Keeps what the agent is found to have told before, so that it is not lost with a turn that breaks off."""
    if reported == session.record.told:
        return
    with lock_records(state):
        record = read_session(state, session.record.key) or session.record
        write_session(state, msgspec.structs.replace(record, told=reported))


def config_folder(state: str, record: SessionRecord) -> str:
    """Where the agent keeps its settings and transcripts in the profile `clean`."""
    return make_private_folder(os.path.join(session_folder(state, record.key), "config"))


def prepare_config(state: str, session: LockedSession, driver: Driver) -> str:
    """The config folder of a run in the profile `clean`: what its session needs of it is there, and nothing else.

    Of a fork, that is a copy: who works in the other one may be writing there.
    """
    folder = config_folder(state, session.record)
    keep_session_files(folder, driver.state.session_paths)
    if session.forked:
        copy_session_files(config_folder(state, session.forked), folder, driver.state.session_paths)
    return folder


def load_reported(driver: Driver, session: LockedSession, *, config: str, env: Mapping[str, str]) -> SessionTotals:
    """What the agent will count on from: by its own transcript, which knows of turns that broke off, else by ours."""
    if not session.resumed or not driver.sessions.read_totals or not driver.sessions.transcript_pattern:
        return session.record.told
    from glob import escape, glob  # Start-up time: only going on with a session needs it.

    pattern = driver.sessions.transcript_pattern.format(session_id=session.resumed)
    for path in glob(os.path.join(escape(state_root(driver, config, env)), pattern)):
        try:
            with open(path, "rb", opener=open_plain if config else None) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                return driver.sessions.read_totals(file.read()) or session.record.told
        except OSError:
            continue
    return session.record.told


def state_root(driver: Driver, config: str, env: Mapping[str, str]) -> str:
    """Where the agent keeps its sessions: in the session's own config folder, or where the user's lie."""
    if named := config or env.get(driver.state.config_variable, ""):
        return os.path.join(named, driver.state.state_subdir)
    return expand_home(driver.state.state_paths[0], env)


def unclaim_session(state: str, key: str, run_id: str) -> None:
    """Undoes what `claim_session` entered, for a run that never started."""
    forget_run(state, key, run_id)


def _check_folder(name: str, record: SessionRecord, task: Task) -> None:
    """Raises `BadInput` for a session that would work in another folder than the task is for."""
    if not os.path.isdir(record.cwd):
        raise BadInput(
            "cwd",
            record.cwd,
            "the folder of the session is gone.",
            next_step="Make it again, or a link to where it was moved, or start a new session elsewhere.",
        )
    if os.path.realpath(task.cwd) == os.path.realpath(record.cwd):
        return
    raise BadInput(
        "cwd",
        task.cwd,
        f"the session belongs to {record.cwd}.",
        next_step=f"To continue there: `{_format_command(task, name, record.cwd)}`. "
        "`inspan run` without --resume starts a new session here.",
    )


def _format_command(task: Task, name: str, cwd: str) -> str:
    """The command that resumes a session where it belongs; a long prompt is left to be typed."""
    import shlex  # Start-up time: only a refusal needs it.

    where = ["-C", cwd, *(["--fork"] if task.fork else [])]
    if not (prompt := task.prompt.strip()):
        return f"inspan {shlex.join(['chat' if task.session else 'run', *where, '--resume', name])}"
    is_plain = len(prompt) <= _PROMPT_CHARACTERS and prompt.isprintable() and not prompt.startswith("-")
    return f"inspan {shlex.join(['resume', *where, name])} {shlex.quote(prompt) if is_plain else _LEFT_OUT}"


def current_folder() -> str:
    """Where this process stands; raises `BadInput` where that folder has been deleted."""
    try:
        return os.getcwd()
    except OSError as error:
        step = "Change to one that is there, or name one with --cwd."
        raise BadInput("cwd", "", "the current folder is gone.", next_step=step) from error


def _add_unheard_prompt(state: str, task: Task) -> Task:
    """The task with what the run was asked for that it goes on with, and that died before its agent heard of it."""
    from inspan.runs.find import find_run_folder  # Start-up time: as below.

    if task.session and not task.prompt:
        return task  # A conversation begins with what somebody says now.
    unheard = str(read_json(find_run_folder(state, task.resume).file("run.json"))["task"]["prompt"])
    if f"{task.prompt}\n\n".startswith(f"{unheard}\n\n"):
        return task  # A task is resolved more than once.
    return msgspec.structs.replace(task, prompt=f"{unheard}\n\n{task.prompt}".rstrip())


def _find_session(state: str, task: Task, env: Mapping[str, str]) -> tuple[str, SessionRecord]:
    """The session that a task means, and its name in full: of the run that was found, else as it was given."""
    from inspan.runs.find import find_run_folder  # Start-up time: only going on with a session needs it.

    scope = Scope(project=task.project) if task.project else scope_of(task.cwd)
    try:
        folder = find_run_folder(state, task.resume, scope=scope)
    except RunNotFound as error:
        is_last = task.resume.startswith("@")
        record = (
            None
            if is_last
            else _find_by_id(state, task.resume) or (_build_foreign_record(task) if task.profile == "user" else None)
        )
        if record is None:
            message = error.message if is_last else f"{error.message} No session has this id either."
            step = f"{error.next_step} A session is deleted with its last run."
            raise SessionNotFound(message, next_step=step) from None
        return task.resume, record
    if not task.fork and (unopened := find_unopened_session(state, folder, env)):
        return folder.run_id, unopened
    return folder.run_id, _session_of_run(state, folder)


def find_unopened_session(state: str, folder: RunFolder, env: Mapping[str, str]) -> SessionRecord | None:
    """The session of a lost run that died before its agent had opened it, without an id: whoever goes on with it has to
    begin it. Nothing for any other run."""
    from inspan.runs.find import refresh_summary  # Start-up time: as above.

    summary, record = refresh_summary(state, folder), _refresh_session(state, session_key_of(folder))
    if record is None or not record.runs or not summary.ended or summary.ended.outcome != "lost":
        return None
    record = msgspec.structs.replace(record, session_id=record.session_id or summary.session_id)
    driver = driver_from_description(read_json(folder.file("run.json")))
    opened = record.session_id and _has_opened(state, record, driver, env, told=summary.opened)
    return None if opened else msgspec.structs.replace(record, session_id="")


def _has_opened(state: str, record: SessionRecord, driver: Driver, env: Mapping[str, str], *, told: bool) -> bool:
    """Whether the agent has kept anything of a session; by its word alone where nobody knows where that would be."""
    if not driver.sessions.transcript_pattern:
        return told
    from glob import escape, glob  # Start-up time: only going on with a session needs it.

    config = config_folder(state, record) if record.profile == "clean" else ""
    pattern = driver.sessions.transcript_pattern.format(session_id=escape(record.session_id))
    return bool(glob(os.path.join(escape(state_root(driver, config, env)), pattern)))


def _session_of_run(state: str, folder: RunFolder) -> SessionRecord:
    from inspan.runs.find import refresh_summary  # Start-up time: as above.

    summary = refresh_summary(state, folder)
    record = _refresh_session(state, session_key_of(folder))
    # A run that has not ended has not told the session's record; its log has the id.
    session_id = record.session_id or summary.session_id if record else ""
    if record is None or not record.runs or not session_id:
        raise SessionNotFound(
            f"Run {folder.run_id} opened no session that could be continued.", next_step="Start a new one."
        )
    return msgspec.structs.replace(record, session_id=session_id)


def _find_by_id(state: str, session_id: str) -> SessionRecord | None:
    from inspan.runs.find import find_run_folder  # Start-up time: as above.

    unknown: list[SessionRecord] = []
    for record in list_sessions(state):
        if record.session_id == session_id and record.runs:
            return _refresh_session(state, record.key)
        if not record.session_id and record.runs:
            unknown.append(record)
    for record in unknown:  # Living, lost, or never opened.
        with suppress(StateUnusable, SessionNotFound):
            known = _session_of_run(state, find_run_folder(state, record.runs[-1]))
            if known.session_id == session_id:
                return known
    return None


def _refresh_session(state: str, key: str) -> SessionRecord | None:
    """The session's record once its lost runs are known as such: nothing of them lives, and their words are counted."""
    from inspan.runs.find import refresh_summary  # Start-up time: as above.

    record = read_session(state, key)
    unsettled = [folder for folder in active_runs(state) if record and folder.run_id in record.runs]
    for folder in unsettled:
        with suppress(StateUnusable):  # Another run of the session that cannot be read is no hindrance.
            refresh_summary(state, folder)
    return read_session(state, key) if unsettled else record


def _build_foreign_record(task: Task) -> SessionRecord | None:
    """A session that the user began without inspan: the agent itself knows whether it exists.

    Nothing for what can be no session of this agent.
    """
    driver = driver_for_task(task)
    if not driver.sessions.session_id_pattern.fullmatch(task.resume) or "/" in task.resume:
        return None
    key = f"{driver.name}-{task.resume}"
    return SessionRecord(key=key, agent=driver.name, profile=task.profile, cwd=task.cwd, session_id=task.resume)
