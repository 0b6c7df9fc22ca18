"""Show what budgets allow, and what is spent and set aside of them."""

import sys
from datetime import UTC, datetime

import click
import msgspec

from inspan.cli.output import Column, find_width, format_duration, format_table, print_json, print_words
from inspan.protocol.amounts import format_dollars
from inspan.protocol.budget import format_budget
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
        from inspan.client.spending import describe_budgets  # Start-up time: whoever reads the table needs none of it.

        print_json(**msgspec.structs.asdict(describe_budgets(statuses, refusals)))
        return
    names = name_runs(state, [each.run_id for each in (*statuses, *refusals) if each.run_id])
    table = format_table(_COLUMNS, [_cells(each, names) for each in statuses], width=find_width(sys.stdout))
    sys.stdout.write(f"{table}\n")
    for note in (*_notes(statuses), *(_format_refusal(each, names[each.run_id]) for each in refusals)):
        print_words(note)


def _cells(status: BudgetStatus, names: dict[str, str]) -> tuple[str, ...]:
    spent, name = status.spent, names.get(status.run_id) or status.task or status.project
    scripted = " (scripted)" if status.scripted and status.node == "project" else ""
    return (
        f"{_INDENT[status.node]}{status.node} {name}{scripted}",
        format_budget(status.budget) or "-",
        format_cost(status.cost),
        str(spent.tokens),
        str(spent.calls),
        format_duration(spent.seconds),
        str(spent.restarts),
        f"{format_dollars(status.reserved.nano)}, {status.reserved.tokens} tokens" if status.reserved.calls else "-",
        datetime.fromtimestamp(status.since, UTC).strftime("%Y-%m-%d") if status.since else "-",
    )


def _format_refusal(refusal: BudgetRefusal, name: str) -> str:
    told, step = escape_controls(refusal.message.replace(refusal.run_id, name)), escape_controls(refusal.next_step)
    return f"Ended by a budget: run {name}.\n  {told}\n  → {step}"


def _notes(statuses: list[BudgetStatus]) -> list[str]:
    projects = [each for each in statuses if each.node == "project"]
    unpriced = sum(each.unpriced for each in projects if not each.scripted)
    estimated = sum(each.estimated for each in projects)
    notes: list[str] = []
    if unpriced:
        calls = format_count(unpriced, "model call")
        notes.append(f"Unknown, and not in COST: what {calls} cost; a run without a gateway counts as one.")
    if estimated:
        calls = format_count(estimated, "model call")
        notes.append(f"{calls} without a usage from the provider: counted here by an estimate.")
    return notes
