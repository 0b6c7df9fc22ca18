"""List the git worktrees of runs; remove them, or make one again."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from inspan.cli.confirm import confirm
from inspan.cli.output import Column, find_width, format_size, format_table, one_line, print_json, shorten_home
from inspan.cli.removed_worktrees import count_worktrees, describe_loss, describe_removal, format_changes
from inspan.cli.run_names import RunName
from inspan.errors import InspanError, RunNotFound
from inspan.protocol.reasons import FAILED
from inspan.runs.projects import Scope, current_scope
from inspan.runs.worktrees import (
    PRUNED,
    WorktreeEntry,
    find_entry,
    list_worktrees,
    remove_entry,
    restore_entry,
    sweep_worktrees,
)
from inspan.stores.paths import state_home

_COLUMNS = (
    Column("RUN", lead=True),
    Column("STATE", lead=True),
    Column("CHANGES", cut="end", least=12, drop=5),
    Column("BRANCH", cut="middle", least=12, drop=3),
    Column("SIZE", drop=2),
    Column("FOLDER", cut="middle", least=20, drop=4),
    Column("REPOSITORY", cut="middle", least=12, drop=1),
)


@click.group(invoke_without_command=True)
@click.option("--all", "every_project", is_flag=True, help="Those of every project.")
@click.option("-w", "--wide", is_flag=True, help="Every column, and nothing cut.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def command(context: click.Context, every_project: bool, wide: bool, as_json: bool) -> None:
    """List the git worktrees of this project's runs; remove them, or make one again.

    STATE is `in use` while a run works there, `changed`, `clean`, `locked` (git worktree lock), `broken` where git
    cannot look into it, `unfinished` where making or removing it was interrupted, `gone` where the folder has vanished,
    and `saved` where it was removed and what it had is kept.
    """
    if context.invoked_subcommand:
        return
    entries = list_worktrees(state_home(), scope=None if every_project else _find_scope())
    if as_json:
        print_json(worktrees=[_to_dict(each) for each in entries])
        return
    click.echo(_format_table(entries, width=None if wide else find_width(sys.stdout)))
    if not entries:
        click.echo("inspan: no run has a worktree here: `--sandbox worktree` makes one", err=True)
    for each in entries:
        if each.problem:
            click.echo(f"inspan: {each.run}: {one_line(each.problem)}", err=True)


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, type=RunName("ended"))
@click.option("--forget", is_flag=True, help="Delete what is saved of it, too; its commits stay on their branch.")
@click.option("--dry-run", is_flag=True, help="Remove nothing, only say what would be.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object; for several or --forget with --yes or --dry-run."
)
def rm_command(runs: tuple[str, ...], forget: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Remove the worktrees of runs; all that is neither committed nor ignored in them is saved first.

    It is saved as a commit, refs/inspan/salvage/RUN, and as a patch; `inspan worktrees restore RUN` makes the worktree
    again. Files that git ignores are not saved. A branch with commits stays. One worktree is removed at once; about
    several you are asked.
    """
    state = state_home()
    found = {entry.worktree.path: entry for entry in (find_entry(state, run) for run in runs)}
    return _remove(
        state,
        list(found.values()),
        asks=len(found) > 1 or forget,
        forget=forget,
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    )


@command.command("prune")
@click.option("--all", "every_project", is_flag=True, help="Those of every project.")
@click.option("--dry-run", is_flag=True, help="Remove nothing, only say what would be.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --yes or --dry-run.")
def prune_command(every_project: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Remove the worktrees in which no run works, and complete what was interrupted; all that `rm` saves is saved.

    Those that are locked, or cannot be looked into, stay; it says which.
    """
    state = state_home()
    entries = list_worktrees(state, scope=None if every_project else _find_scope())
    going = [each for each in entries if each.state in PRUNED]
    if not dry_run:
        sweep_worktrees(state)
    staying = [each for each in entries if each.state not in (*PRUNED, "saved")]
    for each in () if as_json else staying:
        click.echo(f"inspan: {each.run} stays: {_explain_staying(each)}", err=True)
    return _remove(state, going, asks=bool(going), forget=False, dry_run=dry_run, yes=yes, as_json=as_json)


@command.command("restore")
@click.argument("run", type=RunName("ended"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def restore_command(run: str, as_json: bool) -> None:
    """Make the worktree of a run again, with what was saved of it, at the place where it was."""
    entry = find_entry(state_home(), run, removed=True)
    made, warnings = restore_entry(entry)
    for warning in warnings:
        click.echo(f"inspan: {warning}", err=True)
    if as_json:
        print_json(run_id=made.id, path=made.path, branch=made.branch)
    else:
        click.echo(made.path)


def _remove(
    state: str, entries: Sequence[WorktreeEntry], *, asks: bool, forget: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    if asks and not (dry_run or yes) and not _confirm(entries, forget=forget, as_json=as_json):
        click.echo("nothing removed", err=True)
        return FAILED
    removed: list[dict[str, Any]] = []
    problems: list[str] = []
    for entry in entries:
        try:
            after = entry.worktree if dry_run else remove_entry(state, entry, forget=forget)
        except InspanError as error:
            if len(entries) == 1 and not as_json:
                raise
            problems.append(f"{entry.run}: {error}")
            continue
        removed.append(
            {**_to_dict(entry), "salvage": after.salvage or None, "patch": _name_patch(entry, after.salvage)}
        )
        if not as_json:
            click.echo(describe_removal(entry, after.salvage, forget=forget, dry_run=dry_run))
    if as_json:
        print_json(dry_run=dry_run, removed=removed, problems=problems)
    elif not entries:
        click.echo("nothing to remove")
    for problem in () if as_json else problems:
        click.echo(f"inspan: {one_line(problem)}", err=True)
    return FAILED if problems else 0


def _name_patch(entry: WorktreeEntry, salvage: str) -> str | None:
    return entry.worktree.patch if salvage else None


def _confirm(entries: Sequence[WorktreeEntry], *, forget: bool, as_json: bool) -> bool:
    facts = describe_loss(entries)
    if forget:
        facts[0] = f"what was saved of {'it' if len(entries) == 1 else 'them'} is deleted"
    question = f"Remove {count_worktrees(entries)} ({'; '.join(facts)})?"
    table = _format_table(entries, width=find_width(sys.stdout))
    return confirm(question, verb="remove", details=table, as_json=as_json)


def _explain_staying(entry: WorktreeEntry) -> str:
    if entry.state == "in use":
        return f"run {entry.users[0]} works in it." if entry.users else "it is being made, tested or removed just now."
    if entry.state == "locked":
        path = entry.worktree.path
        return f"it is locked. To unlock it: `git -C {path} worktree unlock {path}`."
    return one_line(f"git cannot look into {entry.worktree.path}: {entry.problem}")


def _find_scope() -> Scope | None:
    try:
        return current_scope()
    except RunNotFound:
        return None  # A folder that was deleted has no project: then every worktree is meant.


def _format_table(entries: Sequence[WorktreeEntry], *, width: int | None) -> str:
    return format_table(_COLUMNS, [_cells(each) for each in entries], width=width)


def _cells(entry: WorktreeEntry) -> tuple[str, ...]:
    worktree = entry.worktree
    return (
        entry.run,
        entry.state,
        format_changes(entry),
        entry.changes.branch or worktree.branch or "-",
        format_size(entry.size_bytes) if entry.size_bytes else "-",
        shorten_home(worktree.path),
        shorten_home(worktree.checkout or worktree.common),
    )


def _to_dict(entry: WorktreeEntry) -> dict[str, Any]:
    worktree, changes = entry.worktree, entry.changes
    return {
        "run_id": worktree.id,
        "run": entry.run,
        "state": entry.state,
        "path": worktree.path,
        "project": worktree.project,
        "repository": worktree.checkout or worktree.common,
        "branch": changes.branch or worktree.branch or None,
        "base": worktree.base or None,
        "files": changes.files,
        "commits": changes.commits,
        "unreachable": changes.unreachable,
        "operation": changes.operation or None,
        "ignored": changes.ignored,
        "used_by": list(entry.users),
        "size_bytes": entry.size_bytes,
        "salvage": worktree.salvage or None,
        "patch": _name_patch(entry, worktree.salvage),
        "problem": entry.problem or None,
    }
