"""Wait until runs have ended, and exit with the last one's exit code."""

import time

import click

from inspan.cli.durations import Duration
from inspan.cli.output import format_error_json, print_json, print_words
from inspan.cli.run_names import RunName, choose_hint_name, choose_printed_name, choose_shown_name, pick_run
from inspan.protocol.events import RunEnded
from inspan.protocol.reasons import REASONS, TIMEOUT
from inspan.runs.follow import follow
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName())
@click.option("--timeout", type=Duration(), help="Give up after so long (exit code 124); the runs continue.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run.")
def command(runs: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Wait until runs have ended, and exit with the last one's exit code.

    RUNS are names that `ps` shows, ids, their beginnings, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    deadline = None if timeout is None else time.monotonic() + timeout
    code = 0
    for folder in [pick_run(state, run, as_json=as_json) for run in runs]:
        ended = _wait(state, folder, deadline)
        if ended is None:
            _print_timeout(folder, as_json=as_json)
            return TIMEOUT
        if as_json:
            print_json(run_id=folder.run_id, ended=ended)
        else:
            click.echo(f"{choose_printed_name(folder)} {ended.outcome} {ended.reason}")
        code = REASONS[ended.reason].exit_code
    return code


def _print_timeout(folder: RunFolder, *, as_json: bool) -> None:
    message = f"Run {folder.run_id if as_json else choose_shown_name(folder)} has not ended in time."
    next_step = f"It is still running: `inspan logs -f {choose_hint_name(folder)}`."
    if as_json:
        click.echo(format_error_json("timeout", message, next_step), err=True)
    else:
        print_words(f"inspan: {message}\n  → {next_step}", err=True)


def _wait(state: str, folder: RunFolder, deadline: float | None) -> RunEnded | None:
    ended: RunEnded | None = None
    for record in follow(state, folder):
        if record and isinstance(record.event, RunEnded):
            ended = record.event
        elif deadline is not None and time.monotonic() >= deadline:
            return None
    return ended
