"""List runs of this project: the living ones with what they are doing, with -a the ended ones too."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import click

from inspan.cli.lost_work import report_lost
from inspan.cli.output import Column, find_width, format_duration, format_table, print_json, shorten_home
from inspan.errors import RunNotFound, StateUnusable
from inspan.reporters.costs import format_cost_cell
from inspan.reporters.states import format_live_state, format_outcome
from inspan.runs.list_all import ActiveRun, list_active, list_ended
from inspan.runs.names import tell_apart
from inspan.runs.projects import Scope, current_scope
from inspan.stores.index import Row
from inspan.stores.paths import state_home

if TYPE_CHECKING:
    from inspan.folds.live_state import LiveState

_COLUMNS = (
    Column("RUN", lead=True),
    Column("STATE", cut="end", least=14, lead=True),
    Column("AGENT", drop=3),
    Column("FOLDER", cut="middle", least=10, drop=4),
    Column("TIME", drop=2),
    Column("TOKENS", extra=True),
    Column("COST", drop=1),
    Column("AGE", extra=True),
    Column("PROMPT", cut="end", least=12, drop=5),
)
_States = dict[str, "LiveState"]


@click.command()
@click.option("-a", "--ended", is_flag=True, help="Ended runs too, newest first.")
@click.option("--all", "every_project", is_flag=True, help="Runs of every project, this one's first.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("-w", "--wide", is_flag=True, help="Every column, and nothing cut.")
@click.option("-q", "--quiet", is_flag=True, help="Only the ids.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(ended: bool, every_project: bool, limit: int | None, wide: bool, quiet: bool, as_json: bool) -> None:
    """List runs of this folder's project: the living ones, with -a the ended ones too.

    What needs you comes first, and is shown whatever its project. STATE says what a living run is doing: starting,
    working (on which command), idle, needs you (`inspan approvals` lists what it asks), rate limited, stuck (nothing
    was heard of it for too long) or error. RUN is a name that every command takes.
    """
    state, scope = state_home(), _find_scope()
    if not (quiet or as_json):
        report_lost(state)
    active = list_active(state, ended=ended)
    # What a script reads is this project's alone: it may be about to stop all that it is given.
    shown = not (quiet or as_json)
    chosen = [
        run for run in active if every_project or _is_here(run.entry.row, scope) or (shown and _needs_person(run.state))
    ]
    chosen.sort(key=lambda run: (not _needs_person(run.state), not _is_here(run.entry.row, scope)))
    states = {run.entry.row.run_id: run.state for run in chosen if run.state}
    rows = [run.entry.row for run in chosen]
    if ended:
        rows = _add_ended(state, rows, scope, every_project=every_project, limit=limit)
    rows = rows[:limit]
    if as_json:
        from inspan.client.run_info import build_run_info  # Start-up time: whoever reads the table needs none of it.

        print_json(runs=[build_run_info(state, row, states.get(row.run_id)) for row in rows])
    elif quiet:
        click.echo("\n".join(row.run_id for row in rows), nl=bool(rows))
    else:
        _print_table(rows, states, width=None if wide else find_width(sys.stdout))
        _point_to_questions(states)
        _point_to_others(active, chosen)
        if not rows:
            with suppress(StateUnusable):  # It is a hint: what is listed needs no index.
                _point_to_ended(state, None if every_project else scope, ended=ended)


def _point_to_ended(state: str, scope: Scope | None, *, ended: bool) -> None:
    """Where the runs are that somebody may look for."""
    if not ended and list_ended(state, scope=scope, limit=1):
        every = "" if scope else " --all"
        click.echo(f"inspan: no run is running: `inspan ps -a{every}` lists the ended ones", err=True)
    elif ended and list_ended(state, limit=1):
        # So it looks from a folder that was moved.
        click.echo("inspan: no run of this folder's project: `inspan ps -a --all` lists the others", err=True)


def _find_scope() -> Scope | None:
    try:
        return current_scope()
    except RunNotFound:
        return None  # A folder that was deleted has no project: then every run is shown.


def _is_here(row: Row, scope: Scope | None) -> bool:
    return scope is None or scope.matches(row.project, row.cwd)


def _add_ended(
    state: str, living: list[Row], scope: Scope | None, *, every_project: bool, limit: int | None
) -> list[Row]:
    shown = {row.run_id for row in living}
    if not every_project:
        rows = list_ended(state, scope=scope, limit=limit)
    else:
        rows = list_ended(state)
        if scope and any(row.project != rows[0].project for row in rows):
            rows.sort(key=lambda row: not scope.matches(row.project, row.cwd))
    return living + [row for row in rows if row.run_id not in shown] if shown else rows


def _needs_person(live: "LiveState | None") -> bool:
    return live is not None and live.status == "waiting"


def _print_table(rows: Sequence[Row], states: _States, *, width: int | None) -> None:
    # Not by `click.echo`, which would look through a megabyte for colours to take out.
    sys.stdout.write(format_table(_COLUMNS, _build_cells(rows, states), width=width) + "\n")


def _build_cells(rows: Sequence[Row], states: _States) -> list[tuple[str, ...]]:
    now = time.time()
    return [
        (
            name,
            format_live_state(states[row.run_id], now=now)
            if row.run_id in states
            else format_outcome(row.outcome, row.reason),
            row.agent,
            _format_folder(row.cwd),
            format_duration(row.duration_s),
            str(row.tokens),
            format_cost_cell(row.cost),
            format_duration(now - row.started_at),
            row.prompt,
        )
        for name, row in zip(_choose_names(rows), rows, strict=True)
    ]


def _choose_names(rows: Sequence[Row]) -> list[str]:
    """A run's own name, else its short one, as where another that is shown has the same; at last its whole id."""
    return tell_apart([(row.run_id, row.name, row.short) for row in rows])


def _point_to_questions(states: _States) -> None:
    waiting = sum(map(_needs_person, states.values()))
    if waiting:
        whose = "1 run needs you" if waiting == 1 else f"{waiting} runs need you"
        step = "`inspan approvals` lists what is asked; `inspan approve ID` and `inspan deny ID` answer."
        click.echo(f"inspan: {whose}.\n  → {step}", err=True)


def _point_to_others(active: Sequence[ActiveRun], shown: Sequence[ActiveRun]) -> None:
    hidden = sum(run.state is not None for run in active) - sum(run.state is not None for run in shown)
    if hidden:
        count = (
            "1 more is running in another project" if hidden == 1 else f"{hidden} more are running in other projects"
        )
        click.echo(f"inspan: {count}: `inspan ps --all`", err=True)


@cache  # Ten thousand runs have few folders.
def _format_folder(cwd: str) -> str:
    return shorten_home(cwd) or "-"
