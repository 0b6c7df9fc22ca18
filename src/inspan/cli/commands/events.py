"""Print a run's events as lines of JSON."""

import click

from inspan.cli.exit_codes import of_run
from inspan.cli.following import print_record, watch
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, settle
from inspan.stores.log import read_log
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends, and leave with its exit code.")
@click.option("--from", "from_number", type=click.IntRange(min=1), default=1, help="Start at this number.")
@click.option("--json", "as_json", is_flag=True, help="What it does anyway.")
def command(run: str, follow: bool, from_number: int, as_json: bool) -> int:
    """Print a run's events as lines of JSON. RUN is an id, the beginning of one, or @last."""
    state = state_home()
    folder = find(state, run)
    if follow:
        return of_run(watch(state, folder, show=print_record, from_number=from_number))
    settle(state, folder)
    for record in read_log(folder.log):
        if record.number >= from_number:
            print_record(record)
    return 0
