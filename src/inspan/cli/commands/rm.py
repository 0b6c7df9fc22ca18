"""Delete ended runs and their sessions."""

from contextlib import suppress

import click

from inspan.cli.output import print_json
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, refuse_living, remove, settle
from inspan.errors import StateUnusable
from inspan.stores.paths import state_home


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName("ended"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(runs: tuple[str, ...], as_json: bool) -> None:
    """Delete ended runs and their sessions. RUNS are ids, prefixes or @last."""
    state = state_home()
    folders = [find(state, run) for run in runs]
    for folder in folders:
        with suppress(StateUnusable):  # What cannot be read can still be deleted.
            settle(state, folder)
        refuse_living(folder)
    for folder in folders:
        remove(state, folder)
        if not as_json:
            click.echo(folder.run_id)
    if as_json:
        print_json(removed=[folder.run_id for folder in folders])
