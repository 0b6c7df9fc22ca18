"""Print a run's events as text."""

import sys

import click

from inspan.cli.console import Console
from inspan.cli.exit_codes import of_run
from inspan.cli.following import watch
from inspan.engine.runs import find, settle
from inspan.stores.folder import RunFolder
from inspan.stores.log import read_log
from inspan.stores.paths import state_home, unusable


@click.command()
@click.argument("run", default="@last")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends, and leave with its exit code.")
@click.option("--raw", is_flag=True, help="The agent's own stdout and stderr, redacted.")
def command(run: str, follow: bool, raw: bool) -> int:
    """Print a run's events as text. RUN is an id, the beginning of one, or @last."""
    state = state_home()
    folder = find(state, run)
    if raw:
        return _print_raw(folder)
    console = Console(sys.stdout, lines=None)
    if follow:
        return of_run(watch(state, folder, show=lambda record: console.show(record.event)))
    settle(state, folder)
    for record in read_log(folder.log):
        console.show(record.event)
    return 0


def _print_raw(folder: RunFolder) -> int:
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        try:
            with open(folder.file(name), "rb") as file:
                while piece := file.read(1 << 20):
                    stream.buffer.write(piece)
        except OSError as error:
            raise unusable(folder.file(name), error) from error
    return 0
