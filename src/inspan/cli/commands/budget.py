"""Show what budgets allow, and what is spent and set aside of them."""

import sys
from datetime import UTC, datetime
from typing import Any

import click

from inspan.cli.output import columns, duration, print_json
from inspan.protocol.amounts import Amounts, dollars
from inspan.protocol.budget import spelled_budget
from inspan.protocol.spending import NANO_PER_USD
from inspan.stores.ledger_tree import Standing, tree
from inspan.stores.paths import state_home

_HEADS = ("NODE", "LIMIT", "COST", "TOKENS", "CALLS", "TIME", "RESTARTS", "SET-ASIDE", "SINCE")
_INDENT = {"project": "", "task": "  ", "run": "    "}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """Show what budgets allow, and what is spent and set aside of them: projects, their tasks, and runs that live.

    LIMIT is that of the newest run. What was spent counts since the beginning of the budget's day or month in UTC, or
    for ever; removing a run gives nothing back. SET-ASIDE is kept for model calls that are under way.
    """
    standings = tree(state_home())
    if as_json:
        print_json(nodes=[_described(each) for each in standings])
        return
    sys.stdout.write(columns(_HEADS, [_cells(each) for each in standings]) + "\n" + "".join(_notes(standings)))


def _described(standing: Standing) -> dict[str, Any]:
    return {
        "node": standing.node,
        "project": standing.project,
        "task": standing.task or None,
        "run_id": standing.run_id or None,
        "scripted": standing.scripted,
        "limits": {**_limits(standing), "per": standing.budget.per or None},
        "spent": {
            **_amounts(standing.spent),
            "seconds": round(standing.spent.seconds, 3),
            "restarts": standing.spent.restarts,
        },
        "reserved": _amounts(standing.reserved),
        "since": standing.since or None,
        "unpriced_calls": standing.unpriced,
        "estimated_calls": standing.estimated,
    }


def _limits(standing: Standing) -> dict[str, float | None]:
    return {name: getattr(standing.budget, name) for name in ("usd", "tokens", "calls", "seconds", "restarts")}


def _amounts(amounts: Amounts) -> dict[str, float]:
    return {"usd": amounts.nano / NANO_PER_USD, "tokens": amounts.tokens, "calls": amounts.calls}


def _cells(standing: Standing) -> tuple[str, ...]:
    spent, name = standing.spent, standing.run_id or standing.task or standing.project
    scripted = " (scripted)" if standing.scripted and standing.node == "project" else ""
    return (
        f"{_INDENT[standing.node]}{standing.node} {name}{scripted}",
        spelled_budget(standing.budget) or "-",
        dollars(spent.nano) + ("?" if standing.unpriced else ""),
        str(spent.tokens),
        str(spent.calls),
        duration(spent.seconds),
        str(spent.restarts),
        f"{dollars(standing.reserved.nano)}, {standing.reserved.tokens} tokens" if standing.reserved.calls else "-",
        datetime.fromtimestamp(standing.since, UTC).strftime("%Y-%m-%d") if standing.since else "-",
    )


def _notes(standings: list[Standing]) -> list[str]:
    projects = [each for each in standings if each.node == "project"]
    unpriced, estimated = sum(each.unpriced for each in projects), sum(each.estimated for each in projects)
    notes: list[str] = []
    if unpriced:
        notes.append(f"{_calls(unpriced)} of models without a known price: what they cost is not in COST.\n")
    if estimated:
        notes.append(f"{_calls(estimated)} without a usage from the provider: counted here by an estimate.\n")
    return notes


def _calls(count: int) -> str:
    return f"{count} model call{'' if count == 1 else 's'}"
