"""Work that has runs of its own, such as a loop: which runs it still needs."""

from collections.abc import Mapping, Sequence, Set

from inspan.errors import RunNotFound
from inspan.protocol.ids import RunId
from inspan.protocol.task import Work
from inspan.stores.comparison_folder import list_unfinished
from inspan.stores.index import Row
from inspan.stores.run_folder import RunFolder

from .list_all import list_ended
from .names import build_row_path, is_in_scope, list_active_folders
from .projects import Scope
from .relations import is_marked_continued, list_living, read_relation, read_work


def list_needing(state: str, *, lost: bool) -> set[str]:
    """Those that live, with what they continue, and comparisons that do; where `lost` is set, also those that were lost
    and wait to go on."""
    works = {row.run_id: row for row in list_ended(state) if row.work}
    continues = {row.run_id: row.continues for row in works.values()}
    continues |= {folder.run_id: read_relation(folder, "continues") for folder in list_active_folders(state)}
    needing = list_living(state)
    needing |= {each.id for each in list_unfinished(state) if each.lives or (lost and each.died)}
    if lost:
        continued = set(continues.values())
        needing |= {name for name, row in works.items() if _waits(state, row, continued)}
    for name in list(needing):
        while (name := continues.get(name, "")) and name not in needing:
            needing.add(name)
    return needing


def list_failed(state: str) -> set[str]:
    """Those that ended and did not do what they were asked for, and comparisons that were not judged whole: somebody
    may go on with them."""
    failed = {row.run_id for row in list_ended(state) if row.work and row.outcome != "completed"}
    return failed | {each.id for each in list_unfinished(state)}


def find_last_work(state: str, work: Work, *, scope: Scope) -> RunFolder:
    """The last loop, or the last blueprint, of a project; raises `RunNotFound`."""
    living = [folder for folder in list_active_folders(state) if is_in_scope(folder, scope)]
    found = {each.run_id: each for each in living if read_work(each) == work}
    ended = next((row for row in list_ended(state, scope=scope) if row.work == work), None)
    if ended:
        found[RunId(ended.run_id)] = _find_folder(state, ended)
    if not found:
        step = "`inspan ps -a --all` lists what was started elsewhere."
        raise RunNotFound(f"No {work} was started in this folder's project.", next_step=step)
    return found[max(found)]


def list_needed(state: str, rows: Sequence[Row], works: Set[str]) -> set[str]:
    """The ids of those runs that are one of these works, or belong to one, or to something that does."""
    parents = {row.run_id: read_relation(_find_folder(state, row), "parent") for row in rows} if works else {}
    return {name for name in parents if not works.isdisjoint(_list_ancestors(name, parents))}


def _list_ancestors(name: str, parents: Mapping[str, str]) -> list[str]:
    """The run itself, and whatever it belongs to."""
    found: list[str] = []
    while name and name not in found:
        found.append(name)
        name = parents.get(name, "")
    return found


def _waits(state: str, row: Row, continued: Set[str]) -> bool:
    """Whether it was lost, or found no room on the disk, and nobody has gone on with it."""
    stopped = row.outcome == "lost" or row.reason == "store"
    return stopped and row.run_id not in continued and not is_marked_continued(_find_folder(state, row))


def _find_folder(state: str, row: Row) -> RunFolder:
    return RunFolder(run_id=RunId(row.run_id), path=build_row_path(state, row))
