"""End the running turn of an open session; the session stays."""

import click

from inspan.cli.output import print_json
from inspan.cli.run_names import RunName, choose_printed_name, pick_agent_run
from inspan.protocol.commands import Interrupt
from inspan.runs.control_client import command_session
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", type=RunName("living"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, as_json: bool) -> None:
    """End the running turn of an open session; the session stays.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    folder = pick_agent_run(state_home(), run, as_json=as_json)
    command_session(folder, Interrupt())
    if as_json:
        print_json(run_id=folder.run_id, interrupted=True)
    else:
        click.echo(f"{choose_printed_name(folder)} interrupted")
