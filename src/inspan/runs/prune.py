"""Deleting what is old: ended runs by age, and what no run needs any more. Living runs are never touched."""

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence, Set

import msgspec

from inspan.errors import BadInput, RunBusy, RunNotFound, StateUnusable, WorktreeUnusable
from inspan.protocol.outcome import OUTCOMES, Outcome
from inspan.stores import index
from inspan.stores.box_folder import find_orphan_boxes
from inspan.stores.index import Row
from inspan.stores.orphans import Orphan, disk_bytes, find_orphan_drafts, find_orphan_sessions, find_orphan_sockets
from inspan.stores.paths import state_error
from inspan.stores.run_folder import open_folder, remove_file, run_path, unmark_active
from inspan.stores.sessions import forget_run, read_session

from .boxes import remove_dead_box
from .find import remove
from .list_all import list_ended, list_runs
from .projects import Scope, project_of
from .works import list_failed, list_needed, list_needing
from .worktrees import WorktreeEntry, find_going_with


class PruneFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: ended before a moment, of these outcomes and in this scope where given, but not the newest `keep`,
    and with `keep_failed` none that did not do what it was asked for, nor what belongs to such a loop or blueprint."""

    before: float
    keep: int = 0
    keep_failed: bool = False
    scope: Scope | None = None
    outcomes: tuple[Outcome, ...] = ()


class OldRun(Orphan, frozen=True, kw_only=True):
    """A run that can go."""

    project: str
    ended_at: float


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be; worktrees go with the last run of each. `problems` has a sentence for each thing
    that could not be."""

    runs: list[OldRun] = []
    sessions: list[Orphan] = []
    sockets: list[Orphan] = []
    drafts: list[Orphan] = []
    boxes: list[Orphan] = []
    worktrees: list[WorktreeEntry] = []
    problems: list[str] = []

    @property
    def freed_bytes(self) -> int:
        every = (*self.runs, *self.sessions, *self.sockets, *self.drafts, *self.boxes, *self.worktrees)
        return sum(each.size_bytes for each in every)

    @property
    def projects(self) -> dict[str, int]:
        """How many of the runs are whose, the most first."""
        return dict(Counter(run.project for run in self.runs).most_common())


Report = Callable[[int, int], None]
"""Told before each run: how many are done, and how many there are."""


def ignore_progress(done: int, total: int) -> None:
    """For callers that show none."""


def find_prunable(state: str, choice: PruneFilter, *, report: Report = ignore_progress) -> PruneResult:
    """What `prune` would delete now. Raises `BadInput` for a project that does not exist."""
    runs, rows = list[OldRun](), _select_rows(state, choice)
    for row in rows:
        report(len(runs), len(rows))
        runs.append(_build_old_run(state, row))
    going, gone = {run.path for run in runs}, {run.name for run in runs}
    project = choice.scope.project if choice.scope else ""
    return PruneResult(
        runs=runs,
        sessions=[
            each for each in find_orphan_sessions(state, deleted=gone) if _is_in_scope(state, each, gone, choice.scope)
        ],
        sockets=find_orphan_sockets(state, project=project),
        drafts=[each for each in find_orphan_drafts(state, project=project) if os.path.dirname(each.path) not in going],
        boxes=find_orphan_boxes(state),  # Of any project: nobody can use them any more.
        worktrees=find_going_with(state, gone),
    )


def count_newer(state: str, choice: PruneFilter) -> int:
    """How many runs more it would find if none of them were too young."""
    every = _select_rows(state, msgspec.structs.replace(choice, before=math.inf))
    return len(every) - len(_select_rows(state, choice))


def prune(state: str, found: PruneResult, *, report: Report = ignore_progress) -> PruneResult:
    """Deletes what was found, and nothing that came since: somebody may have been asked about it.

    What cannot be deleted is told and does not keep the rest from going.
    """
    problems, runs = list[str](), list[OldRun]()
    for number, run in enumerate(found.runs):
        report(number, len(found.runs))
        if _remove_run(state, run, problems):
            runs.append(run)
    planned = {session.path for session in found.sessions}
    # Looked for again: a run that could not be deleted keeps its session.
    for session in find_orphan_sessions(state):
        if session.path in planned:
            _remove_session(state, session, problems)
    for file in (*found.sockets, *found.drafts):
        _remove_file(file.path, problems)
    problems += filter(None, (remove_dead_box(box.path) for box in found.boxes))
    return PruneResult(
        runs=runs,
        sessions=_select_deleted(found.sessions),
        sockets=_select_deleted(found.sockets),
        drafts=_select_deleted(found.drafts),
        boxes=_select_deleted(found.boxes),
        worktrees=[each for each in found.worktrees if not os.path.lexists(each.worktree.path)],
        problems=problems,
    )


def _select_rows(state: str, choice: PruneFilter) -> list[Row]:
    scope, wanted = choice.scope, choice.outcomes or OUTCOMES
    if scope and not scope.top:
        _check_project(state, scope.project)
    rows = [row for row in list_runs(state) if row.outcome in wanted]
    rows = [row for row in rows if scope is None or scope.matches(row.project, row.cwd)]
    rows.sort(key=lambda row: row.run_id, reverse=True)
    rows = [row for row in rows[choice.keep :] if row.started_at + row.duration_s < choice.before]
    if choice.keep_failed:
        rows = [row for row in rows if row.outcome == "completed"]
    return _leave_needed(state, rows, choice) if rows else rows


def _leave_needed(state: str, rows: list[Row], choice: PruneFilter) -> list[Row]:
    """Without what a loop needs that lives, that was lost and waits to go on, unless those were asked for, or that is
    kept since it failed."""
    works = list_needing(state, lost="lost" not in choice.outcomes)
    if choice.keep_failed:
        works |= list_failed(state)
    needed = list_needed(state, list_ended(state), works) if works else set[str]()
    return [row for row in rows if row.run_id not in needed]


def _build_old_run(state: str, row: Row) -> OldRun:
    path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
    ended_at = row.started_at + row.duration_s
    return OldRun(path=path, size_bytes=disk_bytes(path), project=row.project, ended_at=ended_at)


def _is_in_scope(state: str, session: Orphan, gone: Set[str], scope: Scope | None) -> bool:
    """Whether a session that no run needs goes with runs of this scope, or worked in its folder."""
    if scope is None or session.name in gone:
        return True
    try:
        record = read_session(state, session.name)
    except StateUnusable:
        return False  # Nobody can tell whose it is.
    return record is not None and (
        not gone.isdisjoint(record.runs) or scope.matches(project_of(record.cwd), record.cwd)
    )


def _check_project(state: str, project: str) -> None:
    if project not in ("", ".", "..") and os.path.isdir(os.path.join(state, "projects", project)):
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


def _remove_run(state: str, run: Orphan, problems: list[str]) -> bool:
    try:
        remove(state, open_folder(run.path))
    except RunBusy:
        return False  # Its owner is back, or still closing it.
    except RunNotFound:
        index.remove(state, run.name)
        unmark_active(state, run.name)
    except (StateUnusable, WorktreeUnusable) as error:
        problems.append(f"{run.name}: {error}")
        return False
    return True


def _remove_session(state: str, session: Orphan, problems: list[str]) -> None:
    """Takes every run that is gone off the session, which then goes; one that a run has just taken up stays."""
    try:
        for run in _list_runs_of(state, session.name):
            forget_run(state, session.name, run)
    except StateUnusable as error:
        problems.append(f"{session.name}: {error}")


def _list_runs_of(state: str, session: str) -> tuple[str, ...]:
    try:
        record = read_session(state, session)
    except StateUnusable:
        record = None
    return (record.runs if record else ()) or (session,)


def _remove_file(path: str, problems: list[str]) -> None:
    try:
        remove_file(path)
    except OSError as error:
        problems.append(f"{os.path.basename(path)}: {state_error(path, error)}")


def _select_deleted(leftovers: Sequence[Orphan]) -> list[Orphan]:
    return [each for each in leftovers if not os.path.lexists(each.path)]
