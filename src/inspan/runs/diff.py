"""What a run changed in its work tree: its two snapshots compared, or the first with the files as they are now."""

from collections.abc import Iterator, Sequence

import msgspec

from inspan.protocol.events import Change, CommandExecuted, FileChanged, ToolStarted
from inspan.protocol.wire import Record
from inspan.stores.event_log import iter_log
from inspan.stores.git import SnapshotError, run_steps
from inspan.stores.run_folder import RunFolder
from inspan.stores.snapshot import NOT_TAKEN, Snapshot, changes_between, load_snapshot
from inspan.stores.snapshot_steps import LIMIT_S, current_tree_steps

from .find import refresh_summary
from .reported_files import explain_unseen

_ACTS = (ToolStarted, CommandExecuted, FileChanged)
_TICK_S = 0.001  # The log tells its times in milliseconds.


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: the first snapshot with the second, or with the tree `now`; `notes` say how far to trust it."""

    folder: RunFolder
    top: str
    now: str
    notes: list[str]
    paths: tuple[str, ...]
    has_unseen: bool


def compare_run(state: str, folder: RunFolder, *, paths: tuple[str, ...] = ()) -> Comparison:
    """The comparison that tells what a run changed so far; raises `SnapshotError` where there is none."""
    living = refresh_summary(state, folder).ended is None
    records = _list_acts(folder)
    snapshot = load_snapshot(folder.path)
    if not snapshot.before:
        not_yet = living and snapshot.problem == NOT_TAKEN
        raise SnapshotError("The first snapshot is not complete yet." if not_yet else snapshot.problem)
    now = ""
    if not snapshot.after:
        now = run_steps(current_tree_steps(folder.path, snapshot), limit_s=LIMIT_S)
        again = load_snapshot(folder.path)  # The run may have ended meanwhile.
        snapshot, now = (again, "") if again.after else (snapshot, now)
    # Whoever names paths asks about those, and not about what else there may be.
    unseen = [] if paths else _explain_unseen(folder, snapshot, records, now=now)
    notes = [*_explain_unfinished(snapshot, living=living), *_warn_if_late(snapshot, records), *unseen]
    return Comparison(folder=folder, top=snapshot.top, now=now, notes=notes, paths=paths, has_unseen=bool(unseen))


def list_reported_files(folder: RunFolder) -> dict[str, Change]:
    """What is left without snapshots: the files of which the agent itself told."""
    told: dict[str, Change] = {}
    for record in _list_acts(folder):
        if isinstance(event := record.event, FileChanged):
            still_new = told.get(event.path) == "added" and event.change == "modified"
            told[event.path] = "added" if still_new else event.change
    return told


def _list_acts(folder: RunFolder) -> list[Record]:
    return [record for record in iter_log(folder.log) if isinstance(record.event, _ACTS)]


def _explain_unseen(folder: RunFolder, snapshot: Snapshot, records: Sequence[Record], *, now: str) -> list[str]:
    changed = [each.path for each in changes_between(folder.path, now=now)]
    events = (record.event for record in records)
    return list(explain_unseen(events, top=snapshot.top, changed=changed, what="that are not shown here"))


def _explain_unfinished(snapshot: Snapshot, *, living: bool) -> Iterator[str]:
    if snapshot.after:
        return
    if living:
        yield "The run is still going; this is what changed so far."
    else:
        why = snapshot.problem or "The run was lost before its second snapshot."
        yield f"{why} The first one is compared with the files as they are now."


def _warn_if_late(snapshot: Snapshot, records: Sequence[Record]) -> Iterator[str]:
    first = records[0].at if records else snapshot.before_at
    late_s = snapshot.before_at - first
    if late_s > _TICK_S:
        yield f"The first snapshot came {late_s:.2f} s after the first tool call: what changed before may be missing."
