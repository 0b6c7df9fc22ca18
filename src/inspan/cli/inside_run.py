"""What is started in the background from within a run: nothing outlives that run, so its end is waited for."""

import os

import click

from inspan.protocol.ids import RUN_VARIABLE
from inspan.protocol.reasons import REASONS
from inspan.stores.run_folder import RunFolder

from .follow import follow_run, stop_on_signals


def wait_if_inside(state: str, folder: RunFolder) -> int:
    """Returns at once, with 0, outside of a run. An agent's command, a check or a node's command waits for the end, and
    gets its exit code: otherwise what it started would be killed as soon as it has ended itself."""
    if not os.environ.get(RUN_VARIABLE):
        return 0
    click.echo("inspan: nothing outlives the run that this was started in: waiting for its end", err=True)
    stop_on_signals(folder)
    ended = follow_run(state, folder, show=lambda record: None)
    return REASONS[ended.reason].exit_code
