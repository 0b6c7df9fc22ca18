"""Show what a run changed in its work tree."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from inspan.cli.output import apply_style, print_json, wants_colour
from inspan.cli.run_names import RunName, pick_run, print_run
from inspan.errors import BadInput, RunNotFound
from inspan.protocol.events import CommandExecuted, FileChanged, ToolStarted
from inspan.protocol.wire import Record
from inspan.reporters.text import escape_controls, one_line
from inspan.runs.find import is_in_scope, refresh_summary
from inspan.runs.projects import current_scope
from inspan.runs.reported_files import explain_unseen
from inspan.stores.event_log import iter_log
from inspan.stores.git import SnapshotError, run_steps
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder
from inspan.stores.snapshot import NOT_TAKEN, Snapshot, changes_between, load_snapshot, patch_between
from inspan.stores.snapshot_steps import LIMIT_S, current_tree_steps

_ACTS = (ToolStarted, CommandExecuted, FileChanged)
_NO_SNAPSHOT = 1
_TICK_S = 0.001  # The log tells its times in milliseconds.
_MARKS = {"@": "cyan", "+": "green", "-": "red"}


class _Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: the first snapshot with the second, or with the tree `now`; `notes` say how far to trust it."""

    folder: RunFolder
    top: str
    now: str
    notes: list[str]
    paths: tuple[str, ...]
    has_unseen: bool


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.argument("paths", nargs=-1)
@click.option("--stat", is_flag=True, help="Only how many lines changed in which file.")
@click.option("--name-only", "names", is_flag=True, help="Only the names of the changed files.")
@click.option("--binary", is_flag=True, help="Contents of binary files too, as `git apply` wants them.")
@click.option("--here", is_flag=True, help="Refuse unless this folder is the top of the work tree that it changed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: files and patch.")
def command(run: str, paths: tuple[str, ...], stat: bool, names: bool, binary: bool, here: bool, as_json: bool) -> int:
    """Show what a run changed in its work tree, whoever changed it: tools, shell commands, or you meanwhile.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere; of a
    living run, this shows what it changed so far. PATHS are those of git: names or patterns, relative to the current
    folder if it is in that work tree.
    """
    if stat + names + as_json > 1:
        raise click.UsageError("--stat, --name-only and --json exclude each other.")
    state = state_home()
    folder = _find_run(state, run, as_json=as_json)
    living = refresh_summary(state, folder).ended is None
    records = [record for record in iter_log(folder.log) if isinstance(record.event, _ACTS)]
    try:
        view = _compare(folder, records, living=living, paths=paths)
    except SnapshotError as error:
        return _report_without_snapshot(folder, records, str(error), names=names, as_json=as_json)
    if here:
        _check_here(folder, view.top)
    try:
        if as_json:
            _print_json(view, binary=binary)
        else:
            pieces = patch_between(folder.path, now=view.now, stat=stat, names=names, binary=binary, paths=paths)
            _print(view, pieces, colour=wants_colour(sys.stdout) and not (stat or names))
    except SnapshotError as error:
        if paths:
            raise BadInput("PATHS", " ".join(paths), str(error), next_step="Name files of the work tree.") from error
        return _report_without_snapshot(folder, records, str(error), names=names, as_json=as_json)
    return 0


def _find_run(state: str, run: str, *, as_json: bool) -> RunFolder:
    try:
        folder = pick_run(state, run, as_json=as_json)
    except RunNotFound as error:
        if os.path.exists(run):
            raise RunNotFound(error.message, next_step=f"Name the run first: inspan diff @last {run}") from error
        raise
    if not run.startswith("@") and not as_json and not _is_in_scope(folder):
        print_run(folder)  # Whoever applies its patch should know whose it is.
    return folder


def _is_in_scope(folder: RunFolder) -> bool:
    try:
        return is_in_scope(folder, current_scope())
    except RunNotFound:
        return False


def _check_here(folder: RunFolder, top: str) -> None:
    """Raises `BadInput` where `git apply` would change another work tree, or would leave out what is not below."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        here = ""
    checkout = load_snapshot(folder.path).checkout
    if here not in (os.path.realpath(top), checkout and os.path.realpath(checkout)):
        problem = f"run {folder.run_id} changed the work tree {top}."
        raise BadInput("--here", here, problem, next_step=f"`cd {shlex.quote(top)}` first, or name a run of this one.")


def _compare(folder: RunFolder, records: Sequence[Record], *, living: bool, paths: tuple[str, ...]) -> _Comparison:
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
    return _Comparison(folder=folder, top=snapshot.top, now=now, notes=notes, paths=paths, has_unseen=bool(unseen))


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


def _print(view: _Comparison, pieces: Iterable[bytes], *, colour: bool) -> None:
    empty = True
    for note in view.notes:
        click.echo(f"inspan: {one_line(note)}", err=True)
    for piece in _colour_lines(pieces, colour=colour) if colour or sys.stdout.isatty() else pieces:
        empty = False
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    if empty:
        where = f" in the work tree {one_line(view.top)}" if view.has_unseen else ""
        click.echo(f"no changes{where}", err=True)


def _colour_lines(pieces: Iterable[bytes], *, colour: bool) -> Iterator[bytes]:
    """Lines for a terminal: what files and names hold is shown and not obeyed, and only then coloured."""
    head = False
    for line in _split_lines(pieces):
        text = escape_controls(line.decode(errors="replace"))
        head = text.startswith("diff ") or (head and not text.startswith("@"))
        style = "bold" if head else _MARKS.get(text[:1], "")
        yield (apply_style(text, style, colour=colour) if style else text).encode() + b"\n"


def _split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _print_json(view: _Comparison, *, binary: bool) -> None:
    changed = changes_between(view.folder.path, now=view.now, paths=view.paths)
    patch = b"".join(patch_between(view.folder.path, now=view.now, binary=binary, paths=view.paths))
    print_json(
        run_id=view.folder.run_id,
        top=view.top,
        files=[{"path": os.path.join(view.top, each.path), "change": each.change} for each in changed],
        patch=patch.decode(errors="replace"),
        notes=view.notes,
    )


def _report_without_snapshot(
    folder: RunFolder, records: Sequence[Record], problem: str, *, names: bool, as_json: bool
) -> int:
    """What is left without snapshots: the files of which the agent itself told."""
    told: dict[str, str] = {}
    for record in records:
        if isinstance(event := record.event, FileChanged):
            still_new = told.get(event.path) == "added" and event.change == "modified"
            told[event.path] = "added" if still_new else event.change
    if as_json:
        files = [{"path": path, "change": change} for path, change in told.items()]
        print_json(run_id=folder.run_id, top="", files=files, patch=None, notes=[problem])
        return _NO_SNAPSHOT
    click.echo(f"inspan: {escape_controls(problem)}", err=True)
    if told:
        click.echo("  → The agent reported these files; changes made by its shell commands are unknown.", err=True)
    for path, change in told.items():
        click.echo(escape_controls(path if names else f"{change} {path}"))
    return _NO_SNAPSHOT
