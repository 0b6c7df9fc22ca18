"""Rebuild the index from the runs' logs."""

import click

from inspan.cli.output import print_json
from inspan.cli.progress import Progress
from inspan.runs.list_all import reindex
from inspan.stores.paths import state_home


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> int:
    """Rebuild the index from the runs' logs; runs that cannot be read are named and left alone."""
    with Progress("reading logs") as progress:
        count, problems = reindex(state_home(), report=lambda done: progress.show(f"{done} runs"))
    if as_json:
        print_json(runs=count, problems=problems)
    else:
        click.echo("1 run indexed" if count == 1 else f"{count} runs indexed")
        for problem in problems:
            click.echo(problem, err=True)
    return 1 if problems else 0
