"""Sum up what runs have used and cost."""

import sys
from collections.abc import Iterator

import click
import msgspec

from inspan.cli.moments import Moment
from inspan.cli.output import Column, find_width, format_table, print_json, print_words
from inspan.folds.costs import BY, By, GroupTotals, group_spendings, sum_spendings
from inspan.protocol.usage import Usage
from inspan.reporters.costs import format_cost, format_count, format_usd
from inspan.runs.costs import list_spendings
from inspan.runs.names import name_runs
from inspan.spending.pricing import PriceTable, Pricing
from inspan.stores.paths import cache_home, state_home

_COLUMNS = (
    Column("RUNS", drop=5, named=True),
    Column("CALLS", drop=4, named=True),
    Column("INPUT", drop=7, named=True),
    Column("OUTPUT", drop=6, named=True),
    Column("CACHE-READ", drop=3, named=True),
    Column("CACHE-WRITE", drop=2, named=True),
    Column("REASONING", drop=1, named=True),
    Column("COST", cut="end", least=12, lead=True),
)
_TOKEN_KINDS = Usage.__struct_fields__
_ROLE_TITLES = {"retry": "Retries", "side": "Side requests"}


@click.command()
@click.option("--by", type=click.Choice(BY), default="agent", show_default=True, help="What makes a group.")
@click.option("--since", type=Moment(), default=0.0, help="Only what was spent since: 12h, 7d or 2026-11-01 (UTC).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(by: By, since: float, as_json: bool) -> None:
    """Sum up what runs have used and cost: living, ended and deleted ones.

    Calls through the gateway are counted and priced one by one; of other runs, tokens and dollars are as their agents
    report them. What nobody could tell is left out of the sums and counted; OUTPUT includes REASONING.
    """
    spendings = list_spendings(state_home(), since=since)
    found, total = group_spendings(spendings, by=by), sum_spendings(spendings)
    table = Pricing(cache_home()).describe_table() if total.overall.calls else None
    if as_json:
        from inspan.client.spending import describe_sums  # Start-up time: whoever reads the table needs none of it.
        from inspan.client.values import CostQuery

        print_json(**msgspec.structs.asdict(describe_sums(CostQuery(by=by, since=since), found, total, table)))
        return
    names = name_runs(state_home(), [each.name for each in found]) if by == "run" else {}
    rows = [_cells(each, names.get(each.name, each.name)) for each in found]
    rows += [_cells(total, total.name)] if len(found) > 1 else []
    # Half an id names no session, and half a name no run.
    first = Column(by.upper(), cut="" if by in ("run", "session") else "middle", least=12, lead=True)
    sys.stdout.write(format_table((first, *_COLUMNS), rows, width=find_width(sys.stdout)) + "\n")
    for note in _notes(total, table):
        print_words(note)


def _cells(sums: GroupTotals, name: str) -> tuple[str, ...]:
    part = sums.overall
    tokens = (str(getattr(part.usage, name)) if part.usage else "-" for name in _TOKEN_KINDS)
    return (
        name,
        str(part.runs),
        str(part.calls),
        *tokens,
        format_cost(part.cost),
    )


def _notes(total: GroupTotals, table: PriceTable | None) -> Iterator[str]:
    counted, told = total.sources["gateway"], total.sources["agent"]
    if counted.calls:
        rest = f"; as its agent reported it: {format_count(told.runs, 'run')}" if told.runs else ""
        calls, runs = format_count(counted.calls, "call"), format_count(counted.runs, "run")
        yield f"Counted by the gateway: {calls} of {runs}{rest}."
    for role, name in _ROLE_TITLES.items():
        part = total.roles[role]
        if part.calls:
            tokens = part.usage.total if part.usage else 0
            yield f"{name}: {format_count(part.calls, 'call')}, {tokens} tokens, cost: {format_cost(part.cost)}."
    if told.runs_without_usage:
        yield f"Tokens were not reported by {format_count(told.runs_without_usage, 'run')}."
    if counted.calls_without_usage:
        yield f"Tokens were not stated in the answers to {format_count(counted.calls_without_usage, 'call')}."
    if counted.estimated_calls:
        yield (
            f"Budgets count {format_usd(counted.estimated_usd)} and {counted.estimated_tokens} tokens more, "
            f"by an estimate, for {format_count(counted.estimated_calls, 'call')} of which the usage was not stated "
            "to the end."
        )
    if total.scripted.runs:
        answered = format_count(total.scripted.runs, "run")
        yield f"A script or a cassette answered {answered}: {format_cost(total.scripted.cost)}."
    if table:
        yield f"Prices: {table}."
