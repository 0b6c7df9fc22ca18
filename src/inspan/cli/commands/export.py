"""Keep a run's wire traffic in a file."""

import os
import stat
import sys

import click

from inspan.cli.output import print_json
from inspan.cli.run_names import RunName, pick_agent_run
from inspan.errors import BadInput
from inspan.runs.recordings import RunTraffic, collect_traffic, write_recording
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName("ended"))
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="-",
    metavar="FILE",
    help="Where to write it; - is stdout. [default: -]",
)
@click.option("--with-prompt", is_flag=True, help="Keep the task's prompt too.")
@click.option("--json", "as_json", is_flag=True, help="With -o, one JSON object about what was written.")
def command(run: str, output: str, with_prompt: bool, as_json: bool) -> None:
    """Keep a run's wire traffic in a file: lines of JSON, redacted, that `inspan play` plays without the program.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    traffic = collect_traffic(state, pick_agent_run(state, run, as_json=as_json), with_prompt=with_prompt)
    if output == "-":
        write_recording(sys.stdout.buffer, traffic)
        return
    count = _write_traffic(output, traffic)
    if as_json:
        print_json(run_id=traffic.run_id, file=os.fsencode(output).decode(errors="replace"), lines=count)
    else:
        click.echo(f"{output}: {count} lines of {traffic.header.agent}, run {traffic.run_id}")


def _write_traffic(path: str, traffic: RunTraffic) -> int:
    try:
        with open(path, "ab") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                step = "Give another path, or delete the file first."
                raise BadInput("--output", path, "the file already exists and is not overwritten.", next_step=step)
            return write_recording(file, traffic)
    except OSError as error:
        problem = f"it cannot be written: {error.strerror or error}."
        raise BadInput("--output", path, problem, next_step="Name a file in a folder of yours.") from error
