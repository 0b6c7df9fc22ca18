"""Show what a run changed in its work tree."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from inspan.cli.output import print_json, styled, wants_colour
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, settle
from inspan.errors import BadInput, RunNotFound
from inspan.protocol.events import CommandExecuted, FileChanged, ToolStarted
from inspan.protocol.wire import Record
from inspan.reporters.text import visible
from inspan.stores.folder import RunFolder
from inspan.stores.git import NoSnapshot, walk
from inspan.stores.log import read_log
from inspan.stores.paths import state_home
from inspan.stores.snapshot import NOT_TAKEN, Snapshot, changes_between, load, patch_between
from inspan.stores.taking import LIMIT_S, present_steps

_NO_SNAPSHOT = 1
_TICK_S = 0.001  # The log tells its times in milliseconds.
_MARKS = {"@": "cyan", "+": "green", "-": "red"}


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: the first snapshot with the second, or with the tree `now`; `notes` say how far to trust it."""

    folder: RunFolder
    top: str
    now: str
    notes: list[str]
    paths: tuple[str, ...]


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.argument("paths", nargs=-1)
@click.option("--stat", is_flag=True, help="Only how many lines changed in which file.")
@click.option("--name-only", "names", is_flag=True, help="Only the names of the changed files.")
@click.option("--binary", is_flag=True, help="Contents of binary files too, as `git apply` wants them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: files and patch.")
def command(run: str, paths: tuple[str, ...], stat: bool, names: bool, binary: bool, as_json: bool) -> int:
    """Show what a run changed in its work tree, whoever changed it: tools, shell commands, or you meanwhile.

    RUN is an id, the beginning of one, or @last; of a living run, this shows what it changed so far. PATHS are those
    of git: names or patterns, relative to the current folder if it is in that work tree.
    """
    if stat + names + as_json > 1:
        raise click.UsageError("--stat, --name-only and --json exclude each other.")
    state = state_home()
    folder = _found(state, run)
    living = settle(state, folder).ended is None
    records = list(read_log(folder.log))
    try:
        view = _view(folder, records, living=living, paths=paths)
    except NoSnapshot as error:
        return _tell_without(folder, records, str(error), names=names, as_json=as_json)
    try:
        if as_json:
            _print_json(view, binary=binary)
        else:
            pieces = patch_between(folder.path, now=view.now, stat=stat, names=names, binary=binary, paths=paths)
            _print(view, pieces, colour=wants_colour(sys.stdout) and not (stat or names))
    except NoSnapshot as error:
        if paths:
            raise BadInput("PATHS", " ".join(paths), str(error), next_step="Name files of the work tree.") from error
        return _tell_without(folder, records, str(error), names=names, as_json=as_json)
    return 0


def _found(state: str, run: str) -> RunFolder:
    try:
        return find(state, run)
    except RunNotFound as error:
        if os.path.exists(run):
            raise RunNotFound(error.message, next_step=f"Name the run first: inspan diff @last {run}") from error
        raise


def _view(folder: RunFolder, records: Sequence[Record], *, living: bool, paths: tuple[str, ...]) -> _View:
    snapshot = load(folder.path)
    if not snapshot.before:
        not_yet = living and snapshot.problem == NOT_TAKEN
        raise NoSnapshot("The first snapshot is not complete yet." if not_yet else snapshot.problem)
    now = ""
    if not snapshot.after:
        now = walk(present_steps(folder.path, snapshot), limit_s=LIMIT_S)
        again = load(folder.path)  # The run may have ended meanwhile.
        snapshot, now = (again, "") if again.after else (snapshot, now)
    notes = [*_unfinished(snapshot, living=living), *_late(snapshot, records)]
    return _View(folder=folder, top=snapshot.top, now=now, notes=notes, paths=paths)


def _unfinished(snapshot: Snapshot, *, living: bool) -> Iterator[str]:
    if snapshot.after:
        return
    if living:
        yield "The run goes on; this is what changed so far."
    else:
        why = snapshot.problem or "The run was lost before its second snapshot."
        yield f"{why} The first one is compared with the files as they are now."


def _late(snapshot: Snapshot, records: Sequence[Record]) -> Iterator[str]:
    acts = (record.at for record in records if isinstance(record.event, ToolStarted | CommandExecuted | FileChanged))
    late_s = snapshot.before_at - next(acts, snapshot.before_at)
    if late_s > _TICK_S:
        yield f"The first snapshot came {late_s:.2f} s after the first tool call: what changed before may be missing."


def _print(view: _View, pieces: Iterable[bytes], *, colour: bool) -> None:
    empty = True
    for note in view.notes:
        click.echo(f"inspan: {visible(note)}", err=True)
    for piece in _painted(pieces, colour=colour) if colour or sys.stdout.isatty() else pieces:
        empty = False
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    if empty:
        click.echo("no changes", err=True)


def _painted(pieces: Iterable[bytes], *, colour: bool) -> Iterator[bytes]:
    """Lines for a terminal: what files and names hold is shown and not obeyed, and only then coloured."""
    head = False
    for line in _lines(pieces):
        text = visible(line.decode(errors="replace"))
        head = text.startswith("diff ") or (head and not text.startswith("@"))
        style = "bold" if head else _MARKS.get(text[:1], "")
        yield (styled(text, style, colour=colour) if style else text).encode() + b"\n"


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _print_json(view: _View, *, binary: bool) -> None:
    changed = changes_between(view.folder.path, now=view.now, paths=view.paths)
    patch = b"".join(patch_between(view.folder.path, now=view.now, binary=binary, paths=view.paths))
    print_json(
        run_id=view.folder.run_id,
        top=view.top,
        files=[{"path": os.path.join(view.top, each.path), "change": each.change} for each in changed],
        patch=patch.decode(errors="replace"),
        notes=view.notes,
    )


def _tell_without(folder: RunFolder, records: Sequence[Record], problem: str, *, names: bool, as_json: bool) -> int:
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
    click.echo(f"inspan: {visible(problem)}", err=True)
    if told:
        click.echo("  → The agent itself told of these files; what its shell commands changed is not known.", err=True)
    for path, change in told.items():
        click.echo(visible(path if names else f"{change} {path}"))
    return _NO_SNAPSHOT
