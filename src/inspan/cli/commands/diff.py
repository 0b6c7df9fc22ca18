"""Show what a run changed in its work tree."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator

import click

from inspan.cli.output import apply_style, print_json, print_words, wants_colour
from inspan.cli.run_names import RunName, is_of_this_project, pick_agent_run, print_run
from inspan.errors import BadInput, RunNotFound
from inspan.reporters.text import escape_controls, one_line
from inspan.runs.diff import Comparison, compare_run, list_reported_files
from inspan.stores.git import SnapshotError
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder
from inspan.stores.snapshot import changes_between, load_snapshot, patch_between

_NO_SNAPSHOT = 1
_MARKS = {"@": "cyan", "+": "green", "-": "red"}


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
    try:
        view = compare_run(state, folder, paths=paths)
    except SnapshotError as error:
        return _report_without_snapshot(folder, str(error), names=names, as_json=as_json)
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
        return _report_without_snapshot(folder, str(error), names=names, as_json=as_json)
    return 0


def _find_run(state: str, run: str, *, as_json: bool) -> RunFolder:
    try:
        folder = pick_agent_run(state, run, as_json=as_json)
    except RunNotFound as error:
        if os.path.exists(run):
            raise RunNotFound(error.message, next_step=f"Name the run first: inspan diff @last {run}") from error
        if "." in run or "/" in run:  # A run's short name and id have neither, so a path is likely meant.
            step = (
                f"`inspan ps -a` lists the runs. For a path, name the run first: inspan diff @last {shlex.quote(run)}"
            )
            raise RunNotFound(f"There is no run {run!r}, and no file of that name here.", next_step=step) from error
        raise
    if not run.startswith("@") and not as_json and not is_of_this_project(folder):
        print_run(folder)  # Whoever applies its patch should know whose it is.
    return folder


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


def _print(view: Comparison, pieces: Iterable[bytes], *, colour: bool) -> None:
    empty = True
    for note in view.notes:
        print_words(f"inspan: {one_line(note)}", err=True)
    for piece in _colour_lines(pieces, colour=colour) if colour or sys.stdout.isatty() else pieces:
        empty = False
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    if empty:
        where = f" in the work tree {one_line(view.top)}" if view.has_unseen else ""
        print_words(f"no changes{where}", err=True)


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


def _print_json(view: Comparison, *, binary: bool) -> None:
    changed = changes_between(view.folder.path, now=view.now, paths=view.paths)
    patch = b"".join(patch_between(view.folder.path, now=view.now, binary=binary, paths=view.paths))
    print_json(
        run_id=view.folder.run_id,
        top=view.top,
        files=[{"path": os.path.join(view.top, each.path), "change": each.change} for each in changed],
        patch=patch.decode(errors="replace"),
        notes=view.notes,
    )


def _report_without_snapshot(folder: RunFolder, problem: str, *, names: bool, as_json: bool) -> int:
    told = list_reported_files(folder)
    if as_json:
        files = [{"path": path, "change": change} for path, change in told.items()]
        print_json(run_id=folder.run_id, top="", files=files, patch=None, notes=[problem])
        return _NO_SNAPSHOT
    print_words(f"inspan: {escape_controls(problem)}", err=True)
    if told:
        print_words("  → The agent reported these files; changes made by its shell commands are unknown.", err=True)
    for path, change in told.items():
        click.echo(escape_controls(path if names else f"{change} {path}"))
    return _NO_SNAPSHOT
