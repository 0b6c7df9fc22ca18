"""Go on with runs, loops and blueprints whose process died."""

import os
import time
from collections.abc import Sequence

import click

from inspan.blueprints.recover import continue_blueprint
from inspan.cli.confirm import confirm
from inspan.cli.inside_run import wait_if_inside
from inspan.cli.lost_work import describe_owner, list_dead_comparisons
from inspan.cli.output import format_duration, print_json
from inspan.cli.run_names import RunName
from inspan.errors import InspanError, RunNotFound
from inspan.loop.recover import LostWork, find_lost, recover, select_inside
from inspan.protocol.ids import RUN_VARIABLE, make_short_name
from inspan.reporters.text import one_line
from inspan.runs.find import find_run_folder
from inspan.runs.projects import current_scope
from inspan.stores.paths import state_home


@click.command()
@click.argument("runs", nargs=-1, type=RunName("ended"), metavar="[RUN]...")
@click.option("--all", "every_project", is_flag=True, help="Those of every project.")
@click.option("--dry-run", is_flag=True, help="Only say what would go on.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask: going on costs money.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(runs: tuple[str, ...], every_project: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Go on with runs, loops and blueprints whose process died: killed, or gone with a machine that was switched off.

    Each goes on in a new one, in the background: a run in its session, a loop or a blueprint where it stood. What has
    been gone on with before, by this or by `resume`, is left alone. Without RUN, all that was lost in this project, or
    of what was started in the run that calls this, which then waits for its end. A comparison that died is named with
    the command that goes on with it.
    """
    state = state_home()
    scope = None if every_project or runs else current_scope()
    found = find_lost(state, scope=scope)
    comparisons = [] if runs or RUN_VARIABLE in os.environ else list_dead_comparisons(state, scope=scope)
    found = [_pick(state, name, found) for name in runs] if runs else found
    if not runs and (own := os.environ.get(RUN_VARIABLE)):
        found = select_inside(state, found, run_id=own)
    usable = [each for each in found if not each.problem]
    if not as_json:
        lines = [*map(_describe, found), *(f"  comparison: inspan compare --resume {each.id}" for each in comparisons)]
        click.echo("\n".join(lines) or "inspan: nothing was lost here", err=True)
    asked = bool(usable) and not dry_run
    if asked and not yes and not confirm(_ask(len(usable)), verb="go on", as_json=as_json):
        return 0
    new, failed = _recover_all(state, usable if asked else [], as_json=as_json)
    if as_json:
        lost = [{"run_id": each.run_id, "problem": each.problem} for each in found]
        print_json(lost=lost, continued=new, comparisons=[each.id for each in comparisons])
    codes = [wait_if_inside(state, find_run_folder(state, run_id)) for run_id in new.values()]
    return next(filter(None, codes), 1 if failed else 0)


def _recover_all(state: str, lost: Sequence[LostWork], *, as_json: bool) -> tuple[dict[str, str], bool]:
    """The ids of what was lost with those in which it goes on, and whether something could not."""
    new: dict[str, str] = {}
    failed = False
    for each in lost:
        try:
            run_id = recover(state, each, other_work={"blueprint": continue_blueprint})
        except InspanError as error:
            failed = True
            click.echo(f"inspan: {each.run_id}: {error.message}\n  → {error.next_step}", err=True)
            continue
        if run_id:
            new[each.run_id] = run_id
            if not as_json:
                click.echo(run_id)
    return new, failed


def _pick(state: str, name: str, lost: Sequence[LostWork]) -> LostWork:
    folder = find_run_folder(state, name)
    for each in lost:
        if each.run_id == folder.run_id:
            return each
    step = "`inspan ps -a` shows how it ended; `inspan resume` goes on with any session."
    step = describe_owner(state, folder) or step
    raise RunNotFound(f"Run {folder.run_id} is none that was lost and waits to go on.", next_step=step)


def _ask(count: int) -> str:
    return "Go on with it?" if count == 1 else f"Go on with these {count}?"


def _describe(lost: LostWork) -> str:
    row = lost.row
    ago = format_duration(time.time() - row.started_at)
    what = f"{row.work or 'run'} {row.name or make_short_name(row.run_id)} ({row.run_id}): {row.agent}, {ago} ago"
    return one_line(f"  {what}: {lost.problem or row.prompt}")
