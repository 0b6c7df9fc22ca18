"""Deleting what is old: ended runs by age, and what no run needs any more. Living runs are never touched."""

import os
from collections.abc import Sequence

import msgspec

from inspan.errors import BadInput, RunBusy, RunNotFound, StateUnusable
from inspan.protocol.outcome import OUTCOMES, Outcome
from inspan.stores import index
from inspan.stores.folder import forget, open_folder, run_path, unmark_active
from inspan.stores.index import Row
from inspan.stores.leftovers import Leftover, disk_bytes, left_drafts, left_sessions, left_sockets
from inspan.stores.paths import unusable
from inspan.stores.sessions import forget_run, read_session

from .listing import list_runs
from .runs import remove


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: ended before a moment, of these outcomes and this project where given, but not the newest `keep`."""

    before: float
    keep: int = 0
    project: str = ""
    outcomes: tuple[Outcome, ...] = ()


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be; `problems` has a sentence for each thing that could not be."""

    runs: list[Leftover] = []
    sessions: list[Leftover] = []
    sockets: list[Leftover] = []
    drafts: list[Leftover] = []
    problems: list[str] = []

    @property
    def freed_bytes(self) -> int:
        return sum(each.size_bytes for each in (*self.runs, *self.sessions, *self.sockets, *self.drafts))


def find_old(state: str, choice: Choice) -> Pruned:
    """What `prune` would delete now. Raises `BadInput` for a project that does not exist."""
    runs = [Leftover(path=path, size_bytes=disk_bytes(path)) for path in _chosen(state, choice)]
    going = {run.path for run in runs}
    return Pruned(
        runs=runs,
        sessions=left_sessions(state, gone={run.name for run in runs}),
        sockets=left_sockets(state),
        drafts=[draft for draft in left_drafts(state) if os.path.dirname(draft.path) not in going],
    )


def prune(state: str, choice: Choice) -> Pruned:
    """Deletes them; what cannot be deleted is told and does not keep the rest from going."""
    found, problems = find_old(state, choice), list[str]()
    runs = [run for run in found.runs if _remove_run(state, run, problems)]
    planned = {session.path for session in found.sessions}
    # Looked for again: a run that could not be deleted keeps its session.
    for session in left_sessions(state):
        if session.path in planned:
            _remove_session(state, session, problems)
    for file in (*found.sockets, *found.drafts):
        _remove_file(file.path, problems)
    return Pruned(
        runs=runs,
        sessions=_gone(found.sessions),
        sockets=_gone(found.sockets),
        drafts=_gone(found.drafts),
        problems=problems,
    )


def _chosen(state: str, choice: Choice) -> list[str]:
    _check_project(state, choice.project)
    wanted = choice.outcomes or OUTCOMES
    rows = [
        row for row in list_runs(state, ended=True) if row.outcome in wanted and choice.project in ("", row.project)
    ]
    rows.sort(key=lambda row: row.run_id, reverse=True)
    return [_path(state, row) for row in rows[choice.keep :] if row.started_at + row.duration_s < choice.before]


def _check_project(state: str, project: str) -> None:
    if not project or os.path.isdir(os.path.join(state, "projects", project)):
        return
    try:
        known = sorted(os.listdir(os.path.join(state, "projects")))
    except OSError:
        known = []
    from difflib import get_close_matches  # Start-up time: only a mistake needs it.

    nearest = get_close_matches(project, known, 3) or known[:3]
    raise BadInput(
        "project",
        project,
        "there is no such project.",
        next_step=f"Known projects: {', '.join(nearest)}." if nearest else "There is none yet.",
    )


def _remove_run(state: str, run: Leftover, problems: list[str]) -> bool:
    try:
        remove(state, open_folder(run.path))
    except RunBusy:
        return False  # Its owner is back, or still closing it.
    except RunNotFound:
        index.remove(state, run.name)
        unmark_active(state, run.name)
    except StateUnusable as error:
        problems.append(f"{run.name}: {error}")
        return False
    return True


def _remove_session(state: str, session: Leftover, problems: list[str]) -> None:
    """Takes every run that is gone off the session, which then goes; one that a run has just taken up stays."""
    try:
        for run in _runs_of(state, session.name):
            forget_run(state, session.name, run)
    except StateUnusable as error:
        problems.append(f"{session.name}: {error}")


def _runs_of(state: str, session: str) -> tuple[str, ...]:
    try:
        record = read_session(state, session)
    except StateUnusable:
        record = None
    return (record.runs if record else ()) or (session,)


def _remove_file(path: str, problems: list[str]) -> None:
    try:
        forget(path)
    except OSError as error:
        problems.append(f"{os.path.basename(path)}: {unusable(path, error)}")


def _gone(leftovers: Sequence[Leftover]) -> list[Leftover]:
    return [each for each in leftovers if not os.path.lexists(each.path)]


def _path(state: str, row: Row) -> str:
    return run_path(state, project=row.project, task=row.task, run_id=row.run_id)
