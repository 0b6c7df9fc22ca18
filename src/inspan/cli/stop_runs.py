"""What `stop` and `kill` share: send the order, wait for the end, say how it went."""

import click

from inspan.errors import StateUnusable
from inspan.protocol.commands import Cancel
from inspan.protocol.events import RunEnded
from inspan.runs.control_client import send_command
from inspan.runs.find import refresh_summary
from inspan.runs.force import end_run
from inspan.runs.relations import read_continuing
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder

from .follow import follow_run
from .output import print_json
from .run_names import choose_printed_name, pick_run


def stop_runs(runs: tuple[str, ...], *, now: bool, as_json: bool) -> int:
    """Ends the runs and waits for each; a run that had ended before is no error."""
    state = state_home()
    folders = [pick_run(state, run, as_json=as_json) for run in runs]
    order = Cancel(by="killed" if now else "stopped", now=now)
    for folder in folders:
        send_command(folder.socket, order)  # To all of them at once; those that take longer are waited for below.
    for folder in folders:
        if not end_run(state, folder, command=order) and not refresh_summary(state, folder).ended:
            raise StateUnusable(
                f"Run {folder.run_id} does not answer on its control socket.",
                next_step="It lives inside another program: end it there.",
            )
        if known := read_continuing(folder):
            click.echo(f"inspan: {known} goes on with it: `inspan stop {known}`", err=True)
        _print_end(folder, follow_run(state, folder, show=lambda record: None), as_json=as_json)
    return 0


def _print_end(folder: RunFolder, ended: RunEnded, *, as_json: bool) -> None:
    if as_json:
        print_json(run_id=folder.run_id, ended=ended)
    else:
        click.echo(f"{choose_printed_name(folder)} {ended.outcome}")
