"""Delete ended runs and their sessions."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from inspan.cli.confirm import confirm
from inspan.cli.output import Column, find_width, format_duration, format_table, one_line, print_json, print_words
from inspan.cli.removed_worktrees import count_worktrees, describe_loss, describe_removal
from inspan.cli.run_names import RunName, choose_printed_name, choose_shown_name, pick_run, shorten_shown_path
from inspan.errors import StateUnusable
from inspan.protocol.reasons import FAILED
from inspan.runs.find import refresh_summary, refuse_needed, refuse_running, remove
from inspan.runs.worktrees import WorktreeEntry, find_going_with, read_salvage
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder, read_json

_COLUMNS = (
    Column("RUN", lead=True),
    Column("AGENT", drop=2),
    Column("AGE", lead=True),
    Column("FOLDER", cut="middle", least=10, drop=1),
    Column("PROMPT", cut="end", least=12),
)
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
    not deleted without --yes. A worktree goes with the last run that worked in it: its uncommitted work is saved
    (`inspan worktrees restore RUN`), files that git ignores are not.
    """
    state = state_home()
    named = [pick_run(state, run, as_json=as_json) for run in runs]
    folders = list({folder.run_id: folder for folder in named}.values())
    for folder in folders:
        with suppress(StateUnusable):  # What cannot be read can still be deleted.
            refresh_summary(state, folder)
        refuse_running(folder)
        refuse_needed(state, folder)
    worktrees = find_going_with(state, {folder.run_id for folder in folders})
    asks = len(folders) > 1 and not (dry_run or yes)
    if asks and not _confirm(folders, worktrees, as_json=as_json):
        click.echo("nothing deleted", err=True)
        return FAILED
    for folder in folders:
        name = choose_printed_name(folder)
        if not dry_run:
            remove(state, folder)
        if not as_json:
            click.echo(f"{name} would be deleted" if dry_run else name)
    if as_json:
        gone = [each.worktree.id for each in worktrees]
        print_json(dry_run=dry_run, removed=[folder.run_id for folder in folders], worktrees=gone)
    else:
        _report(worktrees, dry_run=dry_run)
    return 0


def _confirm(folders: list[RunFolder], worktrees: Sequence[WorktreeEntry], *, as_json: bool) -> bool:
    table = format_table(_COLUMNS, [_cells(folder) for folder in folders], width=find_width(sys.stdout))
    question = f"Delete {len(folders)} runs and their sessions?"
    if worktrees:
        facts = "; ".join(describe_loss(worktrees))
        question = f"Delete {len(folders)} runs, their sessions and {count_worktrees(worktrees)} ({facts})?"
    return confirm(question, verb="delete", details=table, as_json=as_json)


def _report(worktrees: Sequence[WorktreeEntry], *, dry_run: bool) -> None:
    for each in worktrees:
        salvage = "" if dry_run else read_salvage(each)
        # On stderr: what is on stdout are the runs, for a script to read.
        print_words(one_line(f"inspan: worktree {describe_removal(each, salvage, dry_run=dry_run)}"), err=True)


def _cells(folder: RunFolder) -> tuple[str, ...]:
    try:
        described: Any = read_json(folder.file("run.json"))
        task, age = described["task"], format_duration(time.time() - described["created_at"])
        prompt = one_line(task["prompt"])[:_PROMPT_CHARACTERS]
        return choose_shown_name(folder), described["agent"], age, shorten_shown_path(task["cwd"]), prompt
    except (StateUnusable, KeyError, TypeError):
        return folder.run_id, "-", "-", "-", "its description cannot be read"
