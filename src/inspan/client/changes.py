"""What a run changed in its work tree: shown, taken back, brought in again."""

from typing import Literal

from inspan.runs.diff import compare_run, list_reported_files
from inspan.runs.find import find_run_folder
from inspan.runs.undo import UndoResult, carry_out, plan_undo
from inspan.stores.git import SnapshotError
from inspan.stores.snapshot import changes_between, count_lines, patch_between

from .place import Place
from .values import ChangedFile, DiffQuery, RunDiff, RunFiles, RunName, UndoRequest


def get_diff(place: Place, query: DiffQuery) -> RunDiff:
    """What a run changed, by now if it lives."""
    folder = find_run_folder(place.state, query.run)
    try:
        view = compare_run(place.state, folder, paths=query.path)
        changed = changes_between(folder.path, now=view.now, paths=query.path)
        patch = b"".join(patch_between(folder.path, now=view.now, paths=query.path))
        counts = count_lines(folder.path, paths=query.path) if not view.now else {}
    except SnapshotError as error:
        told = [ChangedFile(path=path, change=change) for path, change in list_reported_files(folder).items()]
        return RunDiff(run_id=folder.run_id, top="", files=told, patch=None, notes=[str(error)])
    files = [
        ChangedFile(path=each.path, change=each.change, added=added, removed=removed)
        for each in changed
        for added, removed in (counts.get(each.path, (None, None)),)
    ]
    text = patch.decode(errors="replace")
    return RunDiff(run_id=folder.run_id, top=view.top, files=files, patch=text, notes=view.notes)


def get_files(place: Place, request: RunName) -> RunFiles:
    """The files alone."""
    found = get_diff(place, DiffQuery(run=request.run))
    return RunFiles(run_id=found.run_id, top=found.top, files=found.files, notes=found.notes)


def undo_run(place: Place, request: UndoRequest) -> UndoResult:
    """Takes the changes of a run back in its work tree, all of them or none."""
    return _change(place, request, "undo")


def apply_run(place: Place, request: UndoRequest) -> UndoResult:
    """Brings the changes of a run in again."""
    return _change(place, request, "apply")


def _change(place: Place, request: UndoRequest, direction: Literal["undo", "apply"]) -> UndoResult:
    folder = find_run_folder(place.state, request.run)
    plan = plan_undo(place.state, folder, direction=direction, paths=request.paths)
    if plan.files and not request.dry_run:
        carry_out(place.state, folder, plan, paths=request.paths)
    return plan
