"""Delete old runs and what runs have left behind."""

import sys
import time
from collections.abc import Mapping

import click

from inspan.cli.confirm import confirm
from inspan.cli.moments import Moment
from inspan.cli.output import (
    Column,
    find_width,
    format_duration,
    format_size,
    format_table,
    one_line,
    print_json,
    print_words,
)
from inspan.cli.progress import Progress
from inspan.cli.removed_worktrees import count_worktrees, describe_loss, describe_removal
from inspan.errors import RunNotFound
from inspan.protocol.outcome import OUTCOMES, Outcome
from inspan.protocol.reasons import FAILED
from inspan.runs.names import name_runs
from inspan.runs.projects import Scope, current_scope
from inspan.runs.prune import OldRun, PruneFilter, PruneResult, count_newer, find_prunable, prune
from inspan.runs.worktrees import read_salvage
from inspan.stores.orphans import Orphan
from inspan.stores.paths import state_home

_KINDS = {"runs": "run", "sessions": "session", "sockets": "socket", "drafts": "draft", "boxes": "box"}
_DAY_S = 86400
_COLUMNS = (
    Column("WHAT", lead=True),
    Column("NAME", lead=True),
    Column("PROJECT", cut="middle", least=10, drop=2),
    Column("AGE", drop=1),
    Column("SIZE"),
)


@click.command()
@click.option(
    "--older-than", type=Moment(), default="30d", show_default=True, help="Runs that ended before: 7d, 2026-11-01."
)
@click.option("--keep", type=click.IntRange(min=0), default=0, help="Not the newest N of them, whatever their age.")
@click.option("--keep-failed", is_flag=True, help="Only what completed: what failed, or was lost, stays with its runs.")
@click.option("--project", help="Only runs of this project. [default: that of this folder]")
@click.option("--all-projects", is_flag=True, help="Runs of every project.")
@click.option("--outcome", type=click.Choice(OUTCOMES), multiple=True, help="Only runs with this outcome; repeatable.")
@click.option("--dry-run", is_flag=True, help="Delete nothing, only say what would be.")
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --yes or --dry-run.")
def command(
    older_than: float,
    keep: int,
    keep_failed: bool,
    project: str | None,
    all_projects: bool,
    outcome: tuple[Outcome, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete old runs of this folder's project, and the sessions, sockets and drafts that no run needs any more; also
    the boxes (sandboxes of Python programs) whose program was killed.

    With the last run that worked in a worktree, that is removed; its uncommitted work is saved, ignored files are not.
    Living runs are never touched, nor those of a loop that lives, or that was lost and waits for `recover` (unless
    --outcome lost asks for these). What is deleted is gone, so it is shown first and you are asked; where there is no
    terminal to ask at, nothing is deleted without --yes.
    """
    if all_projects and project is not None:
        raise click.UsageError("--project and --all-projects exclude each other.")
    state, scope = state_home(), None if all_projects else _resolve_scope(project)
    choice = PruneFilter(before=older_than, keep=keep, keep_failed=keep_failed, scope=scope, outcomes=outcome)
    with Progress("looking for what can go") as progress:
        found = find_prunable(state, choice, report=progress.show_count)
    asks = not (dry_run or yes) and any(getattr(found, kind) for kind in _KINDS)
    if asks and not _confirm(found, as_json=as_json):
        click.echo("nothing deleted", err=True)
        return FAILED
    with Progress("deleting runs") as progress:
        pruned = found if dry_run else prune(state, found, report=progress.show_count)
    if as_json:
        names = {kind: [each.name for each in getattr(pruned, kind)] for kind in _KINDS}
        sums = {"projects": pruned.projects, "freed_bytes": pruned.freed_bytes}
        worktrees = [each.worktree.id for each in pruned.worktrees]
        print_json(dry_run=dry_run, **names, worktrees=worktrees, **sums, problems=pruned.problems)
    else:
        _print(pruned, dry_run=dry_run, table=not asks)
        if not found.runs:
            _point_to_newer(state, choice)
    return FAILED if pruned.problems else 0


def _resolve_scope(project: str | None) -> Scope:
    if project is not None:
        return Scope(project=project)
    try:
        return current_scope()
    except RunNotFound as error:
        raise RunNotFound(error.message, next_step="Name one with --project, or use --all-projects.") from error


def _confirm(found: PruneResult, *, as_json: bool) -> bool:
    question = f"Delete {_format_counts(found)} ({'; '.join(_facts(found))})?"
    return confirm(question, verb="delete", details=_format_table(found), as_json=as_json)


def _facts(found: PruneResult) -> list[str]:
    facts = [format_size(found.freed_bytes)]
    if found.runs:
        facts.append(f"the newest ended {_format_age(max(run.ended_at for run in found.runs))} ago")
        counts = {one_line(name): count for name, count in found.projects.items()}
        several = ", ".join(f"{name} {count}" for name, count in counts.items())
        facts.append(f"projects: {several}" if len(counts) > 1 else f"project {next(iter(counts))}")
    if found.worktrees:
        facts += describe_loss(found.worktrees)
    return facts


def _print(pruned: PruneResult, *, dry_run: bool, table: bool) -> None:
    if table and (text := _format_table(pruned)):
        click.echo(text)
    would = "would be " if dry_run else ""
    print_words(f"{_format_counts(pruned) or 'nothing'} {would}deleted; {format_size(pruned.freed_bytes)} {would}freed")
    for each in pruned.worktrees:
        salvage = "" if dry_run else read_salvage(each)
        print_words(one_line(f"worktree {describe_removal(each, salvage, dry_run=dry_run)}"))
    for problem in pruned.problems:
        click.echo(one_line(problem), err=True)


def _point_to_newer(state: str, choice: PruneFilter) -> None:
    """Nothing that is old enough looks like nothing at all."""
    count = count_newer(state, choice)
    if count:
        newer = "1 newer one" if count == 1 else f"{count} newer ones"
        age = _format_age(choice.before)
        print_words(f"inspan: no run is older than {age}: `--older-than 0d` takes {newer}", err=True)


def _format_table(found: PruneResult) -> str:
    # A script reads whole ids; for a person they are twice as wide as all the rest.
    names = name_runs(state_home(), [each.name for each in found.runs]) if sys.stdout.isatty() else {}
    rows = [_cells(what, each, names) for kind, what in _KINDS.items() for each in getattr(found, kind)]
    for each in found.worktrees:
        rows.append(("worktree", each.run, each.worktree.project, "-", format_size(each.size_bytes)))
    return format_table(_COLUMNS, rows, width=find_width(sys.stdout)) if rows else ""


def _cells(what: str, each: Orphan, names: Mapping[str, str]) -> tuple[str, ...]:
    whose = (each.project, _format_age(each.ended_at)) if isinstance(each, OldRun) else ("-", "-")
    name = names.get(each.name, each.name) if isinstance(each, OldRun) else each.name
    return (what, name, *whose, format_size(each.size_bytes))


def _format_counts(found: PruneResult) -> str:
    lengths = {kind: len(getattr(found, kind)) for kind in _KINDS}
    counts = [f"{count} {kind if count > 1 else _KINDS[kind]}" for kind, count in lengths.items() if count]
    return ", ".join([*counts, *([count_worktrees(found.worktrees)] if found.worktrees else [])])


def _format_age(moment: float) -> str:
    age_s = time.time() - moment
    return f"{age_s / _DAY_S:.0f}d" if age_s >= 2 * _DAY_S else format_duration(age_s)
