"""Ask runs to end: politely first, then by force."""

import click

from inspan.cli.run_names import RunName
from inspan.cli.stop_runs import stop_runs


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName("living"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run.")
def command(runs: tuple[str, ...], as_json: bool) -> int:
    """Ask runs to end: politely first, then by force.

    RUNS are names that `ps` shows, ids, their beginnings, @last or @2 (of this folder's project), @last-anywhere.
    """
    return stop_runs(runs, now=False, as_json=as_json)
