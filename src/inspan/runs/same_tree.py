"""Other runs in the work tree of a run: those that came after it, worked there at the same time, or work there now."""

from collections.abc import Iterator, Sequence

from inspan.errors import StateUnusable
from inspan.stores import index
from inspan.stores.git import SnapshotError
from inspan.stores.run_folder import RunFolder, run_path
from inspan.stores.snapshot import Snapshot, list_pairs, load_snapshot
from inspan.stores.worktree import find_worktree_users
from inspan.system.paths import is_within

_MAX_RUNS = 100
_LITERAL = ":(top,literal)"


def find_later_runs(state: str, folder: RunFolder, snapshot: Snapshot, paths: Sequence[str]) -> dict[str, str]:
    """Path → the last run after this one that changed it, as far as that is known."""
    later: dict[str, str] = {}
    for path, other in reversed(list(_list_others(state, folder, snapshot))):
        if other.before_at < snapshot.after_at:
            continue
        try:
            pairs = list_pairs(path, paths=[f"{_LITERAL}{each}" for each in paths])
        except SnapshotError:
            continue  # Then nobody knows what it changed.
        later |= {pair.path: path.rpartition("/")[2] for pair in pairs}
    return later


def find_runs_at_once(state: str, folder: RunFolder, snapshot: Snapshot) -> list[str]:
    """The ended runs that worked there while this one did."""
    return [
        path.rpartition("/")[2]
        for path, other in _list_others(state, folder, snapshot)
        if other.before_at < snapshot.after_at and snapshot.before_at < other.after_at
    ]


def find_living_runs(state: str, snapshot: Snapshot) -> list[str]:
    """The runs that work there now."""
    return find_worktree_users(state, snapshot.top)


def _list_others(state: str, folder: RunFolder, snapshot: Snapshot) -> Iterator[tuple[str, Snapshot]]:
    """The folders of the newest ended runs of the same work tree, the newest first."""

    def is_there(project: str, cwd: str) -> bool:
        return is_within(cwd, snapshot.top)

    try:
        rows = index.list_newest(state, limit=_MAX_RUNS, in_scope=is_there)
    except StateUnusable:
        return  # Without the index nobody is named, and nothing else depends on it.
    for row in rows:
        path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
        other = load_snapshot(path)
        if row.run_id != folder.run_id and other.top == snapshot.top and other.after:
            yield path, other
