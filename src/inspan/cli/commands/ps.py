"""List runs: the living ones, with -a the ended ones too."""

import sys
import time
from typing import Any

import click

from inspan.cli.output import format_columns, format_duration, print_json
from inspan.runs.list_all import list_runs
from inspan.stores.index import Row
from inspan.stores.paths import state_home
from inspan.stores.run_folder import run_path

_HEADS = ("RUN", "AGENT", "STATE", "TIME", "TOKENS", "COST", "AGE", "PROMPT")


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Ended runs too, newest first.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("-q", "--quiet", is_flag=True, help="Only the ids.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(everything: bool, limit: int | None, quiet: bool, as_json: bool) -> None:
    """List runs: the living ones, with -a the ended ones too."""
    state = state_home()
    rows = list_runs(state, ended=everything, limit=limit)[:limit]
    if as_json:
        print_json(runs=[_to_dict(state, row) for row in rows])
    elif quiet:
        click.echo("\n".join(row.run_id for row in rows), nl=bool(rows))
    else:
        now = time.time()
        # Not by `click.echo`, which would look through a megabyte for colours to take out.
        sys.stdout.write(format_columns(_HEADS, [_cells(row, now) for row in rows]) + "\n")


def _to_dict(state: str, row: Row) -> dict[str, Any]:
    path = run_path(state, project=row.project, task=row.task, run_id=row.run_id)
    return {**row._asdict(), "path": path, "alive": row.outcome == "running"}


def _cells(row: Row, now: float) -> tuple[str, ...]:
    run_id, _, _, agent, started_at, duration_s, outcome, reason, prompt, tokens, cost_usd, *_ = row
    state = outcome if outcome in ("running", "completed") else f"{outcome} ({reason})"
    cost = "-" if cost_usd is None else f"${cost_usd:.4f}"
    return (
        run_id,
        agent,
        state,
        format_duration(duration_s),
        str(tokens),
        cost,
        format_duration(now - started_at),
        prompt,
    )
