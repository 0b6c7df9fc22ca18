"""What `undo` and `apply` share: they show what they will do, ask, do it, and say what was done."""

import os
from collections.abc import Callable
from typing import Any

import click

from inspan.cli.confirm import confirm
from inspan.cli.output import format_columns, print_json, print_words
from inspan.cli.run_names import (
    RunName,
    choose_shown_name,
    is_of_this_project,
    pick_agent_run,
    print_run,
    shorten_shown_path,
)
from inspan.errors import RunNotFound
from inspan.protocol.reasons import FAILED
from inspan.reporters.text import one_line
from inspan.runs.undo import FileStep, UndoResult, carry_out, plan_undo
from inspan.runs.undo_checks import Direction, format_path
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder

_WORDS = {"added": "add", "modified": "change", "deleted": "delete"}
_OTHER: dict[Direction, Direction] = {"undo": "apply", "apply": "undo"}
_DONE = {"undo": "undone", "apply": "applied"}
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("run", default="@last", type=RunName("ended")),
    click.argument("paths", nargs=-1),
    click.option("--dry-run", is_flag=True, help="Change nothing, only say what would be."),
    click.option("-y", "--yes", is_flag=True, help="Do it without asking."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object; with --yes or --dry-run."),
)


def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of both."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def change_files(
    run: str, paths: tuple[str, ...], *, direction: Direction, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Carries out the command and gives its exit code; raises `InspanError`, and then no file was changed."""
    state = state_home()
    folder = _find_run(state, run, direction=direction, as_json=as_json)
    plan = plan_undo(state, folder, direction=direction, paths=paths)
    if not as_json:
        for note in plan.notes:
            print_words(f"inspan: {one_line(note)}", err=True)
    asks = bool(plan.files) and not (dry_run or yes)
    if asks and not confirm(
        _format_question(plan, folder), verb=direction, details=_format_files(plan), as_json=as_json
    ):
        click.echo(f"nothing {_DONE[direction]}", err=True)
        return FAILED
    if plan.files and not dry_run:
        carry_out(state, folder, plan, paths=paths)
    if as_json:
        _print_json(plan, dry_run=dry_run)
    else:
        _print(plan, folder, dry_run=dry_run, table=not asks)
    return 0


def _find_run(state: str, run: str, *, direction: Direction, as_json: bool) -> RunFolder:
    try:
        folder = pick_agent_run(state, run, as_json=as_json)
        if not (as_json or run.startswith("@") or is_of_this_project(folder)):
            print_run(folder)
        return folder
    except RunNotFound as error:
        if os.path.lexists(run):
            step = f"Name the run first: inspan {direction} @last {run}"
            raise RunNotFound(error.message, next_step=step) from error
        raise


def _format_question(plan: UndoResult, folder: RunFolder) -> str:
    what = "Take back" if plan.direction == "undo" else "Bring in again"
    return f"{what} the changes of run {choose_shown_name(folder)} to {_count(plan.files)} in {_format_top(plan)}?"


def _print(plan: UndoResult, folder: RunFolder, *, dry_run: bool, table: bool) -> None:
    run, other, top = choose_shown_name(folder), _OTHER[plan.direction], _format_top(plan)
    back = f"`inspan {other} {run}` {'brings them in again' if other == 'apply' else 'takes them back'}"
    if not plan.files and not plan.unchanged:
        print_words(f"run {run} changed no files in {top}")
    elif not plan.files:
        print_words(f"the changes of run {run} in {top} are {_DONE[plan.direction]} already; {back}")
    else:
        if table:
            click.echo(_format_files(plan))
        would = "would be " if dry_run else ""
        said = "" if dry_run else f"; {back}"
        print_words(f"the changes of run {run} to {_count(plan.files)} in {top} {would}{_DONE[plan.direction]}{said}")


def _format_top(plan: UndoResult) -> str:
    return one_line(shorten_shown_path(plan.top))


def _format_files(plan: UndoResult) -> str:
    rows = [(_WORDS[each.change], format_path(each.path), _format_lines(each)) for each in plan.files]
    return format_columns(("WHAT", "FILE", "LINES"), rows)


def _format_lines(step: FileStep) -> str:
    if step.lines_added is None or step.lines_removed is None:
        return "binary"
    counts = ((step.lines_added, "+"), (step.lines_removed, "−"))
    return " ".join(f"{sign}{count}" for count, sign in counts if count) or "-"


def _count(files: list[FileStep]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _print_json(plan: UndoResult, *, dry_run: bool) -> None:
    def absolute(path: str) -> str:
        return os.fsencode(os.path.join(plan.top, path)).decode(errors="backslashreplace")

    print_json(
        run_id=plan.run_id,
        action=plan.direction,
        dry_run=dry_run,
        top=plan.top,
        files=[
            {
                "path": absolute(each.path),
                "change": each.change,
                "lines_added": each.lines_added,
                "lines_removed": each.lines_removed,
            }
            for each in plan.files
        ],
        unchanged=[absolute(path) for path in plan.unchanged],
        notes=plan.notes,
    )
