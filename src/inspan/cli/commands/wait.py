"""Wait until runs have ended, and leave with the last one's exit code."""

import time

import click

from inspan.cli.durations import Duration
from inspan.cli.exit_codes import TIMEOUT, of_run
from inspan.cli.output import error_json, print_json
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, follow
from inspan.protocol.events import RunEnded
from inspan.stores.folder import RunFolder
from inspan.stores.paths import state_home


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName())
@click.option("--timeout", type=Duration(), help="Give up after so long (exit code 124); the runs go on.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run.")
def command(runs: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Wait until runs have ended, and leave with the last one's exit code. RUNS are ids, prefixes or @last."""
    state = state_home()
    deadline = None if timeout is None else time.monotonic() + timeout
    code = 0
    for folder in [find(state, run) for run in runs]:
        ended = _wait(state, folder, deadline)
        if ended is None:
            _say_not_yet(folder.run_id, as_json=as_json)
            return TIMEOUT
        if as_json:
            print_json(run_id=folder.run_id, ended=ended)
        else:
            click.echo(f"{folder.run_id} {ended.outcome} {ended.reason}")
        code = of_run(ended)
    return code


def _say_not_yet(run_id: str, *, as_json: bool) -> None:
    message, next_step = f"Run {run_id} has not ended in time.", f"It goes on: `inspan logs -f {run_id}`."
    text = error_json("timeout", message, next_step) if as_json else f"inspan: {message}\n  → {next_step}"
    click.echo(text, err=True)


def _wait(state: str, folder: RunFolder, deadline: float | None) -> RunEnded | None:
    ended: RunEnded | None = None
    for record in follow(state, folder):
        if record and isinstance(record.event, RunEnded):
            ended = record.event
        elif deadline is not None and time.monotonic() >= deadline:
            return None
    return ended
