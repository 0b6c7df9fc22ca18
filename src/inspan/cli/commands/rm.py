"""Delete ended runs and their sessions."""

import time
from contextlib import suppress
from typing import Any

import click

from inspan.cli.confirm import confirm
from inspan.cli.output import format_columns, format_duration, one_line, print_json
from inspan.cli.run_names import RunName, pick_run
from inspan.errors import StateUnusable
from inspan.protocol.reasons import FAILED
from inspan.runs.find import refresh_summary, refuse_running, remove
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder, read_json

_HEADS = ("RUN", "AGENT", "AGE", "FOLDER", "PROMPT")
_PROMPT_CHARACTERS = 40


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunName("ended"))
@click.option("--dry-run", is_flag=True, help="Delete nothing, only say what would be.")
@click.option("-y", "--yes", is_flag=True, help="Delete several runs without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; for several runs with --yes or --dry-run.")
def command(runs: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete ended runs and their sessions.

    RUNS are names that `ps` shows, ids, their beginnings, @last or @2 (of this folder's project), @last-anywhere. One
    run is deleted at once. Several are shown first and you are asked; where there is no terminal to ask at, they are
    not deleted without --yes.
    """
    state = state_home()
    named = [pick_run(state, run, as_json=as_json) for run in runs]
    folders = list({folder.run_id: folder for folder in named}.values())
    for folder in folders:
        with suppress(StateUnusable):  # What cannot be read can still be deleted.
            refresh_summary(state, folder)
        refuse_running(folder)
    asks = len(folders) > 1 and not (dry_run or yes)
    if asks and not _confirm(folders, as_json=as_json):
        click.echo("nothing deleted", err=True)
        return FAILED
    for folder in folders:
        if not dry_run:
            remove(state, folder)
        if not as_json:
            click.echo(f"{folder.run_id} would be deleted" if dry_run else folder.run_id)
    if as_json:
        print_json(dry_run=dry_run, removed=[folder.run_id for folder in folders])
    return 0


def _confirm(folders: list[RunFolder], *, as_json: bool) -> bool:
    table = format_columns(_HEADS, [_cells(folder) for folder in folders])
    return confirm(f"Delete {len(folders)} runs and their sessions?", verb="delete", details=table, as_json=as_json)


def _cells(folder: RunFolder) -> tuple[str, ...]:
    try:
        described: Any = read_json(folder.file("run.json"))
        task, age = described["task"], format_duration(time.time() - described["created_at"])
        return folder.run_id, described["agent"], age, task["cwd"], one_line(task["prompt"])[:_PROMPT_CHARACTERS]
    except (StateUnusable, KeyError, TypeError):
        return folder.run_id, "-", "-", "-", "its description cannot be read"
