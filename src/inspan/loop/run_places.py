"""Where a run worked, for whatever judges it or goes on there: that very folder, and never another in its place.

A worktree in which a run changed nothing is removed when that run ends, and any may be removed by a person: it is made
again, as it was.
"""

from collections.abc import Iterable
from contextlib import suppress

from inspan.errors import InspanError, WorktreeUnusable
from inspan.running.worktree_end import leave_worktree
from inspan.runs.find import find_run_folder
from inspan.stores.run_folder import read_json
from inspan.stores.worktree import find_worktree


def find_run_cwd(state: str, run_id: str) -> str:
    """The folder in which a run worked, which need not be there; raises `InspanError` where it is not known."""
    folder = find_run_folder(state, run_id)
    try:
        return str(read_json(folder.file("run.json"))["task"]["cwd"])
    except (KeyError, TypeError) as error:
        problem = f"Where run {run_id} worked is not known: {folder.file('run.json')} does not say so."
        raise WorktreeUnusable(problem, next_step="Start it again.") from error


def leave_worktrees(state: str, cwds: Iterable[str], *, by: str) -> None:
    """Removes the worktrees that these folders lie in and in which nothing is changed; what fails stays, and is listed.
    `by` is the work that they were opened for."""
    paths: set[str] = set()
    for cwd in cwds:
        with suppress(InspanError):
            if found := find_worktree(state, cwd):
                paths.add(found.path)
    for path in sorted(paths):
        leave_worktree(state, path, run_id=by)
