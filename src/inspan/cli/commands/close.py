"""Close an open session once what was sent to it is done."""

import click

from inspan.cli.follow import follow_run
from inspan.cli.output import print_json
from inspan.cli.run_names import RunName, choose_printed_name, pick_agent_run
from inspan.protocol.commands import CloseSession
from inspan.runs.control_client import command_session
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", type=RunName("living"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, as_json: bool) -> None:
    """Close an open session once what was sent to it is done.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    folder = pick_agent_run(state, run, as_json=as_json)
    command_session(folder, CloseSession())
    ended = follow_run(state, folder, show=lambda record: None)
    if as_json:
        print_json(run_id=folder.run_id, ended=ended)
    else:
        click.echo(f"{choose_printed_name(folder)} {ended.outcome}")
