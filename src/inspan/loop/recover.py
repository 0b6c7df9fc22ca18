"""What was lost and can go on: found by the logs, and gone on with in a new run or loop, once."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from inspan.errors import BadInput, InspanError, RunBusy, SessionNotFound, Unsupported
from inspan.planning.boundary import drop_place
from inspan.planning.places import open_place
from inspan.planning.prepare import prepare
from inspan.planning.prompts import CONTINUE_PROMPT
from inspan.planning.resume import find_unopened_session
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS
from inspan.running.start import start_supervisor
from inspan.runs.find import find_run_folder
from inspan.runs.list_all import list_active, list_ended
from inspan.runs.names import build_row_path
from inspan.runs.projects import Scope
from inspan.runs.relations import find_continuing, is_marked_continued, map_continued, mark_continued
from inspan.stores.index import Row
from inspan.stores.orphans import list_run_folders
from inspan.stores.run_folder import RunFolder, lock_run, open_folder, read_json
from inspan.stores.sessions import read_session, session_key_of
from inspan.system import file_locks

from .policy import read_policy
from .prepare import prepare_loop
from .start import start_loop

_REDACTED = "[REDACTED:"
# What it goes on with, of what is said of a run, a loop or a blueprint.
_ASKED_FOR = ("task", "policy", "blueprint", "inputs")
ContinueWork = Callable[[Mapping[str, Any], Task, Mapping[str, str]], str]
"""Goes on with other work, by its description, its task and an environment; gives the id of what goes on in."""
NONE: Mapping[str, ContinueWork] = {}


class LostWork(msgspec.Struct, frozen=True, kw_only=True):
    """A run or a loop that was lost and has not been gone on with. `problem` says why it cannot be, if so."""

    run_id: str
    folder: RunFolder
    row: Row
    problem: str = ""


def find_lost(state: str, *, scope: Scope | None = None) -> list[LostWork]:
    """All that was lost in a project, or anywhere, oldest first; what is found dead here is declared lost first.

    Runs of a loop are the loop's to go on with.
    """
    # Among these are those that no room was left for in the index.
    active = [each.entry.row for each in list_active(state, ended=True)]
    here = [row for row in active if scope is None or scope.matches(row.project, row.cwd)]
    rows = {row.run_id: row for row in (*here, *list_ended(state, scope=scope)) if _can_wait(row)}
    if not rows:
        return []
    continued = map_continued(state)
    found = [_describe_lost(state, rows[run_id]) for run_id in sorted(rows) if run_id not in continued]
    return [each for each in found if each]


def select_inside(state: str, lost: Sequence[LostWork], *, run_id: str) -> list[LostWork]:
    """What was started in a run, or in something that was started there."""
    return [each for each in lost if run_id in _list_surrounding(state, each.folder)]


def _list_surrounding(state: str, folder: RunFolder) -> list[str]:
    """The run that something was started in, or belongs to, and that of which the same is true of that."""
    found: list[str] = []
    with suppress(InspanError, AttributeError):
        while True:
            described = read_json(folder.file("run.json"))
            name = str(described.get("inside") or described["task"].get("parent") or "")
            if not name or name in found:
                break
            found.append(name)
            folder = find_run_folder(state, name)
    return found


def _can_wait(row: Row) -> bool:
    """Whether it may be there to go on with: its process died, or found no room on the disk for what a loop writes."""
    return row.outcome == "lost" or (bool(row.work) and row.reason == "store")


def recover(
    state: str, lost: LostWork, *, env: Mapping[str, str] = os.environ, other_work: Mapping[str, ContinueWork] = NONE
) -> str:
    """Goes on with it and gives the id of the new run or loop; empty where another did so at the same moment.

    Raises `InspanError` where it cannot be. Its lock is held until the new one says in its description what it
    continues: whoever comes later sees that. `other_work` goes on with what is neither a run nor a loop, by its kind.
    """
    try:
        lock = lock_run(lost.folder)
    except RunBusy:
        return ""
    try:
        if find_continuing(state, lost.folder) or not _is_last_of_session(state, lost.folder):
            return ""
        new = _go_on(state, lost.folder, env, {"loop": _go_on_with_loop, **other_work})
        mark_continued(lost.folder, by=new)
        return new
    finally:
        file_locks.release(lock)


def _go_on(state: str, folder: RunFolder, env: Mapping[str, str], works: Mapping[str, ContinueWork]) -> str:
    try:
        described, task = read_continued(folder)
        work = described.get("work")
        return works[work](described, task, env) if work else _go_on_with_run(state, folder, task, env)
    except (KeyError, *DECODE_ERRORS) as error:
        problem = f"what is stored of it cannot be read: {error}."
        raise BadInput("RUN", folder.run_id, problem, next_step="Start it again.") from error


@contextmanager
def hold_unclaimed(state: str, folder: RunFolder) -> Generator[None]:
    """While somebody goes on with what has ended, nobody else can; raises `RunBusy` for what lives, and `BadInput` for
    what another one goes on with already."""
    lock = lock_run(folder)
    try:
        if known := find_continuing(state, folder):
            raise BadInput("RUN", folder.run_id, f"{known} goes on with it.", next_step=f"inspan logs -f {known}")
        yield
    finally:
        file_locks.release(lock)


def continue_loop(state: str, folder: RunFolder, *, env: Mapping[str, str]) -> str:
    """Goes on with a lost loop for the work that it belongs to; gives the id of the new one, also where that was begun
    before. Raises `InspanError` where it cannot be."""
    lock = lock_run(folder)
    try:
        if known := find_continuing(state, folder):
            return known
        new = _go_on(state, folder, env, {"loop": _go_on_with_loop})
        mark_continued(folder, by=new)
        return new
    finally:
        file_locks.release(lock)


def read_continued(folder: RunFolder) -> tuple[dict[str, Any], Task]:
    """What it was asked for, and the task that goes on with it; raises `BadInput` where that was not stored whole."""
    described = read_json(folder.file("run.json"))
    if problem := _find_obstacle(described):
        step = f"`inspan show {folder.run_id}` tells what it was asked to do."
        raise BadInput("RUN", folder.run_id, f"{problem}.", next_step=step)
    return described, msgspec.convert({**described["task"], "continues": folder.run_id, "name": ""}, know_type(Task))


def _go_on_with_loop(described: Mapping[str, Any], task: Task, env: Mapping[str, str]) -> str:
    policy = read_policy(described.get("policy"))
    open_place(task.cwd, env)
    prepared = prepare_loop(task, policy, explicit=described.get("explicit") or {}, env=env)
    start_loop(prepared)
    return prepared.plan.run_id


def _go_on_with_run(state: str, folder: RunFolder, task: Task, env: Mapping[str, str]) -> str:
    """In the same session where there is one; a run that never came so far, or cannot, begins anew where it stood."""
    try:
        prepared = prepare(_resume_session(state, folder, task, env), env=env, configured=True)
    except (SessionNotFound, Unsupported):
        open_place(task.cwd, env)
        if os.path.isdir(task.cwd):
            task = msgspec.structs.replace(task, sandbox=drop_place(task.sandbox), start="")
        prepared = prepare(msgspec.structs.replace(task, resume=""), env=env, configured=True)
    start_supervisor(prepared)
    return prepared.plan.run_id


def _resume_session(state: str, folder: RunFolder, task: Task, env: Mapping[str, str]) -> Task:
    """The task as its session goes on with it, which knows what was asked for unless it was never opened."""
    prompt = task.prompt if find_unopened_session(state, folder, env) else CONTINUE_PROMPT
    return msgspec.structs.replace(task, resume=folder.run_id, fork=False, prompt=prompt)


def _describe_lost(state: str, row: Row) -> LostWork | None:
    try:
        folder = open_folder(build_row_path(state, row))
        described = read_json(folder.file("run.json"))
        task = msgspec.convert(described["task"], know_type(Task))
    except (InspanError, KeyError, *DECODE_ERRORS):
        return None  # What cannot be read cannot go on; `show` says what is wrong with it.
    if task.parent or is_marked_continued(folder) or not _is_last_of_session(state, folder):
        return None
    return LostWork(run_id=row.run_id, folder=folder, row=row, problem=_find_obstacle(described))


def _is_last_of_session(state: str, folder: RunFolder) -> bool:
    """Whether nobody has gone on with its session since; whoever died while doing so never began."""
    try:
        record = read_session(state, session_key_of(folder))
    except InspanError:
        return True
    if record is None or folder.run_id not in record.runs:
        return True
    later = set(record.runs[record.runs.index(folder.run_id) + 1 :])
    return not later or not any(each.name in later and _is_described(each.path) for each in list_run_folders(state))


def _is_described(path: str) -> bool:
    return os.path.exists(os.path.join(path, "run.json"))


def _find_obstacle(described: Mapping[str, Any]) -> str:
    """Why it cannot go on: what it was told was secret is stored nowhere."""
    if _REDACTED in msgspec.json.encode([described.get(name) for name in _ASKED_FOR]).decode():
        return "its task held a secret, which is not stored: start it again"
    try:
        if described.get("work") == "loop":
            read_policy(described.get("policy"))
    except BadInput as error:
        return f"its rules cannot be used: {error.message.rstrip('.')}"
    return ""
