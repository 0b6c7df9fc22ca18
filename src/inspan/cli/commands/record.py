"""Keep a run's wire traffic in a file."""

import os
import sys

import click

from inspan.cli.output import print_json
from inspan.cli.run_names import RunName
from inspan.engine.replay import Traffic, traffic_of, write_recording
from inspan.engine.runs import find
from inspan.errors import BadInput
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
    """Keep a run's wire traffic in a file: lines of JSON, redacted, that `inspan replay` plays without the program.

    RUN is an id, the beginning of one, or @last.
    """
    state = state_home()
    traffic = traffic_of(state, find(state, run), with_prompt=with_prompt)
    if output == "-":
        write_recording(sys.stdout.buffer, traffic)
        return
    count = _written(output, traffic)
    if as_json:
        print_json(run_id=traffic.run_id, file=os.fsencode(output).decode(errors="replace"), lines=count)
    else:
        click.echo(f"{output}: {count} lines of {traffic.header.agent}, run {traffic.run_id}")


def _written(path: str, traffic: Traffic) -> int:
    try:
        with open(path, "wb") as file:
            return write_recording(file, traffic)
    except OSError as error:
        problem = f"it cannot be written: {error.strerror or error}."
        raise BadInput("--output", path, problem, next_step="Name a file in a folder of yours.") from error
