"""Print a run's events as text."""

import sys
from collections.abc import Callable, Iterator

import click

from inspan.cli.console import Console
from inspan.cli.exit_codes import of_run
from inspan.cli.following import print_record, watch
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, settle
from inspan.protocol.wire import Record
from inspan.stores.folder import RunFolder
from inspan.stores.log import read_log
from inspan.stores.paths import state_home, unusable


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends, and leave with its exit code.")
@click.option("--raw", is_flag=True, help="The agent's own stdout and stderr, redacted.")
@click.option("--json", "as_json", is_flag=True, help="As `inspan events` prints it.")
def command(run: str, follow: bool, raw: bool, as_json: bool) -> int:
    """Print a run's events as text. RUN is an id, the beginning of one, or @last."""
    state = state_home()
    folder = find(state, run)
    if raw:
        return _print_raw(folder)
    show = print_record if as_json else _shower()
    if follow:
        return of_run(watch(state, folder, show=show))
    settle(state, folder)
    for record in read_log(folder.log):
        show(record)
    return 0


def _shower() -> Callable[[Record], None]:
    console = Console(sys.stdout, lines=None)
    return lambda record: console.show(record.event)


def _print_raw(folder: RunFolder) -> int:
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        for piece in _pieces(folder.file(name)):
            stream.buffer.write(piece)
    return 0


def _pieces(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                yield piece
    except OSError as error:
        raise unusable(path, error) from error
