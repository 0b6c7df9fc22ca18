"""Show what budgets allow, and what is spent and set aside of them."""

import sys
from datetime import UTC, datetime
from typing import Any

import click

from inspan.cli.output import Column, find_width, format_duration, format_table, print_json
from inspan.protocol.amounts import Amounts, format_dollars
from inspan.protocol.budget import format_budget
from inspan.protocol.cost import Cost, build_cost
from inspan.protocol.spending import NANO_PER_USD
from inspan.reporters.costs import format_cost, format_count
from inspan.reporters.text import escape_controls
from inspan.runs.names import name_runs
from inspan.runs.refusals import BudgetRefusal, list_refusals
from inspan.stores.ledger_tree import BudgetStatus, read_tree
from inspan.stores.paths import state_home

_COLUMNS = (
    Column("NODE", cut="middle", least=33, lead=True),
    Column("LIMIT", cut="end", least=10, lead=True),
    Column("COST", named=True),
    Column("TOKENS", drop=6, named=True),
    Column("CALLS", drop=5, named=True),
    Column("TIME", drop=3),
    Column("RESTARTS", drop=2, named=True),
    Column("SET-ASIDE", drop=4, named=True),
    Column("SINCE", drop=1, named=True),
)
_INDENT = {"project": "", "task": "  ", "run": "    "}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """Show what budgets allow, and what is spent and set aside of them: projects, their tasks, and runs that live.

    LIMIT is that of the newest run. What was spent counts since the beginning of the budget's day or month in UTC, or
    for ever; removing a run gives nothing back. SET-ASIDE is kept for model calls that are under way; of a run that
    died, it is spent. Below are the newest runs that a budget has ended, and why.
    """
    state = state_home()
    statuses = read_tree(state)
    refusals = list_refusals(state) if statuses else []
    if as_json:
        print_json(nodes=[_to_dict(each) for each in statuses], refusals=[each._asdict() for each in refusals])
        return
    names = name_runs(state, [each.run_id for each in (*statuses, *refusals) if each.run_id])
    table = format_table(_COLUMNS, [_cells(each, names) for each in statuses], width=find_width(sys.stdout))
    notes = "".join((*_notes(statuses), *(_format_refusal(each, names[each.run_id]) for each in refusals)))
    sys.stdout.write(f"{table}\n{notes}")


def _to_dict(status: BudgetStatus) -> dict[str, Any]:
    return {
        "node": status.node,
        "project": status.project,
        "task": status.task or None,
        "run_id": status.run_id or None,
        "scripted": status.scripted,
        "limits": {**_limits(status), "per": status.budget.per or None},
        "spent": {
            **_amounts(status.spent),
            "seconds": round(status.spent.seconds, 3),
            "restarts": status.spent.restarts,
        },
        **_build_cost(status).to_fields(),
        "reserved": _amounts(status.reserved),
        "since": status.since or None,
        "unpriced_calls": status.unpriced,
        "estimated_calls": status.estimated,
    }


def _limits(status: BudgetStatus) -> dict[str, float | None]:
    return {name: getattr(status.budget, name) for name in ("usd", "tokens", "calls", "seconds", "restarts")}


def _amounts(amounts: Amounts) -> dict[str, float]:
    return {"usd": amounts.nano / NANO_PER_USD, "tokens": amounts.tokens, "calls": amounts.calls}


def _cells(status: BudgetStatus, names: dict[str, str]) -> tuple[str, ...]:
    spent, name = status.spent, names.get(status.run_id) or status.task or status.project
    scripted = " (scripted)" if status.scripted and status.node == "project" else ""
    return (
        f"{_INDENT[status.node]}{status.node} {name}{scripted}",
        format_budget(status.budget) or "-",
        format_cost(_build_cost(status)),
        str(spent.tokens),
        str(spent.calls),
        format_duration(spent.seconds),
        str(spent.restarts),
        f"{format_dollars(status.reserved.nano)}, {status.reserved.tokens} tokens" if status.reserved.calls else "-",
        datetime.fromtimestamp(status.since, UTC).strftime("%Y-%m-%d") if status.since else "-",
    )


def _build_cost(status: BudgetStatus) -> Cost:
    """What the node's calls cost; an agent without a gateway tells it once for a run, and has no calls here."""
    spent, unpriced = status.spent, status.unpriced
    is_unknown = not status.scripted and unpriced > 0 and not spent.nano and unpriced >= spent.calls
    is_unpriced = status.scripted and not spent.nano
    return build_cost(
        None if is_unknown or is_unpriced else spent.nano, paid=not status.scripted, unknown_calls=unpriced
    )


def _format_refusal(refusal: BudgetRefusal, name: str) -> str:
    told, step = escape_controls(refusal.message), escape_controls(refusal.next_step)
    return f"Ended by a budget: run {name}.\n  {told}\n  → {step}\n"


def _notes(statuses: list[BudgetStatus]) -> list[str]:
    projects = [each for each in statuses if each.node == "project"]
    unpriced = sum(each.unpriced for each in projects if not each.scripted)
    estimated = sum(each.estimated for each in projects)
    notes: list[str] = []
    if unpriced:
        calls = format_count(unpriced, "model call")
        notes.append(f"Unknown, and not in COST: what {calls} cost; a run without a gateway counts as one.\n")
    if estimated:
        notes.append(
            f"{format_count(estimated, 'model call')} without a usage from the provider: counted here by an estimate.\n"
        )
    return notes
