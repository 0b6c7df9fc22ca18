"""Delete old runs and what runs have left behind."""

import click

from inspan.cli.moments import Moment
from inspan.cli.output import columns, print_json
from inspan.engine.pruning import Choice, Pruned, find_old, prune
from inspan.protocol.outcome import OUTCOMES, Outcome
from inspan.stores.paths import state_home

_KINDS = ("runs", "sessions", "sockets", "drafts")
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@click.command()
@click.option(
    "--older-than", type=Moment(), default="30d", show_default=True, help="Runs that ended before: 7d, 2026-11-01."
)
@click.option("--keep", type=click.IntRange(min=0), default=0, help="Not the newest N of them, whatever their age.")
@click.option("--project", default="", help="Only runs of this project.")
@click.option("--outcome", type=click.Choice(OUTCOMES), multiple=True, help="Only runs that ended so; repeatable.")
@click.option("--dry-run", is_flag=True, help="Delete nothing, only say what would be.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    older_than: float, keep: int, project: str, outcome: tuple[Outcome, ...], dry_run: bool, as_json: bool
) -> int:
    """Delete old runs and what runs have left behind: sessions, sockets and drafts that no run needs any more.

    Living runs are never touched. What is deleted is gone, and nothing is asked.
    """
    choice = Choice(before=older_than, keep=keep, project=project, outcomes=outcome)
    pruned = (find_old if dry_run else prune)(state_home(), choice)
    if as_json:
        names = {kind: [each.name for each in getattr(pruned, kind)] for kind in _KINDS}
        print_json(dry_run=dry_run, **names, freed_bytes=pruned.freed_bytes, problems=pruned.problems)
    else:
        _print(pruned, dry_run=dry_run)
    return 1 if pruned.problems else 0


def _print(pruned: Pruned, *, dry_run: bool) -> None:
    found = {kind: getattr(pruned, kind) for kind in _KINDS if getattr(pruned, kind)}
    rows = [(kind[:-1], each.name, _size(each.size_bytes)) for kind in found for each in found[kind]]
    if rows:
        click.echo(columns(("WHAT", "NAME", "SIZE"), rows))
    counts = ", ".join(f"{len(each)} {kind if len(each) > 1 else kind[:-1]}" for kind, each in found.items())
    would = "would be " if dry_run else ""
    click.echo(f"{counts or 'nothing'} {would}deleted; {_size(pruned.freed_bytes)} {would}freed")
    for problem in pruned.problems:
        click.echo(problem, err=True)


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"
