"""Delete ended runs and their sessions."""

from contextlib import suppress

import click

from inspan.cli.output import print_json
from inspan.cli.run_names import RunName, pick_run
from inspan.errors import StateUnusable
from inspan.runs.find import refresh_summary, refuse_running, remove
from inspan.stores.paths import state_home


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName("ended"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(runs: tuple[str, ...], as_json: bool) -> None:
    """Delete ended runs and their sessions.

    RUNS are ids, prefixes, @last (of this folder's project) or @last-anywhere.
    """
    state = state_home()
    named = [pick_run(state, run, as_json=as_json) for run in runs]
    folders = list({folder.run_id: folder for folder in named}.values())
    for folder in folders:
        with suppress(StateUnusable):  # What cannot be read can still be deleted.
            refresh_summary(state, folder)
        refuse_running(folder)
    for folder in folders:
        remove(state, folder)
        if not as_json:
            click.echo(folder.run_id)
    if as_json:
        print_json(removed=[folder.run_id for folder in folders])
