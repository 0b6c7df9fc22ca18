"""List runs: the living ones with what they are doing, with -a the ended ones too."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from inspan.cli.output import format_columns, format_duration, print_json
from inspan.reporters.costs import format_cost_cell
from inspan.reporters.states import format_live_state, format_outcome
from inspan.runs.list_all import add_ended, list_active
from inspan.stores.index import Row
from inspan.stores.paths import state_home
from inspan.stores.run_folder import run_path

if TYPE_CHECKING:
    from inspan.folds.live_state import LiveState

_HEADS = ("RUN", "AGENT", "STATE", "TIME", "TOKENS", "COST", "AGE", "PROMPT")
_States = dict[str, "LiveState"]


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Ended runs too, newest first.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("-q", "--quiet", is_flag=True, help="Only the ids.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(everything: bool, limit: int | None, quiet: bool, as_json: bool) -> None:
    """List runs: the living ones, with -a the ended ones too.

    What needs you comes first. STATE says what a living run is doing: starting, working (on which command), idle,
    needs you (`inspan approvals` lists what it asks), rate limited or error.
    """
    state = state_home()
    active = list_active(state, ended=everything)
    states = {run.entry.row.run_id: run.state for run in active if run.state}
    living = sorted((run.entry.row for run in active), key=lambda row: not _needs_person(states.get(row.run_id)))
    rows = add_ended(state, living, wanted=everything, limit=limit)[:limit]
    if as_json:
        print_json(runs=[_to_dict(state, row, states) for row in rows])
    elif quiet:
        click.echo("\n".join(row.run_id for row in rows), nl=bool(rows))
    else:
        now = time.time()
        # Not by `click.echo`, which would look through a megabyte for colours to take out.
        sys.stdout.write(format_columns(_HEADS, [_cells(row, states, now) for row in rows]) + "\n")
        _point_to_questions(states)


def _needs_person(live: "LiveState | None") -> bool:
    return live is not None and live.status == "waiting"


def _point_to_questions(states: _States) -> None:
    waiting = sum(map(_needs_person, states.values()))
    if waiting:
        whose = "1 run needs you" if waiting == 1 else f"{waiting} runs need you"
        step = "`inspan approvals` lists what is asked; `inspan approve ID` and `inspan deny ID` answer."
        click.echo(f"inspan: {whose}.\n  → {step}", err=True)


def _to_dict(state: str, row: Row, states: _States) -> dict[str, Any]:
    path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
    return {**row._asdict(), "path": path, "alive": row.outcome == "running", "state": states.get(row.run_id)}


def _cells(row: Row, states: _States, now: float) -> tuple[str, ...]:
    run_id, _, _, agent, started_at, duration_s, outcome, reason, prompt, tokens, *_ = row
    live = states.get(run_id)
    return (
        run_id,
        agent,
        format_live_state(live, now=now) if live else format_outcome(outcome, reason),
        format_duration(duration_s),
        str(tokens),
        format_cost_cell(row.cost),
        format_duration(now - started_at),
        prompt,
    )
