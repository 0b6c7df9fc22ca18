"""Print a run's events as lines of JSON."""

import click

from inspan.cli.follow import follow_run, print_record
from inspan.cli.run_names import RunName, pick_run
from inspan.protocol.reasons import REASONS
from inspan.runs.find import refresh_summary
from inspan.stores.event_log import iter_log
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("-f", "--follow", is_flag=True, help="Follow until the run ends; exit with its exit code.")
@click.option("--from", "from_number", type=click.IntRange(min=1), default=1, help="Start at this number.")
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON.")
def command(run: str, follow: bool, from_number: int, as_json: bool) -> int:
    """Print a run's events as lines of JSON.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    folder = pick_run(state, run, as_json=as_json)
    if follow:
        return REASONS[follow_run(state, folder, show=print_record, from_number=from_number).reason].exit_code
    refresh_summary(state, folder)
    for record in iter_log(folder.log):
        if record.number >= from_number:
            print_record(record)
    return 0
