"""Sum up what runs have used and cost."""

import sys
from typing import Any

import click

from inspan.cli.moments import Moment
from inspan.cli.output import columns, print_json
from inspan.engine.spending import list_spendings
from inspan.folds.costs import BY, By, Sums, groups, summed
from inspan.protocol.usage import Usage
from inspan.stores.paths import state_home

_HEADS = ("RUNS", "INPUT", "OUTPUT", "CACHE-READ", "CACHE-WRITE", "REASONING", "COST")
_TOKENS = Usage.__struct_fields__


@click.command()
@click.option("--by", type=click.Choice(BY), default="agent", show_default=True, help="What makes a group.")
@click.option("--since", type=Moment(), default=0.0, help="Only runs started since: 12h, 7d or 2026-11-01 (UTC).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(by: By, since: float, as_json: bool) -> None:
    """Sum up what runs have used and cost: ended ones and living ones, tokens and dollars as their agents report them.

    What an agent did not report is left out of the sums and counted; OUTPUT includes REASONING.
    """
    spendings = list_spendings(state_home(), since=since)
    found, total = groups(spendings, by=by), summed(spendings)
    if as_json:
        print_json(by=by, since=since or None, groups=[_described(each) for each in found], total=_described(total))
        return
    rows = [_cells(each) for each in (*found, *([total] if len(found) > 1 else []))]
    sys.stdout.write(columns((by.upper(), *_HEADS), rows) + "\n" + "".join(_notes(total)))


def _described(sums: Sums) -> dict[str, Any]:
    return {
        "name": sums.name,
        "runs": sums.runs,
        **{name: getattr(sums.usage, name) if sums.usage else None for name in _TOKENS},
        "tokens_not_reported": sums.usage_unknown,
        "cost_usd": sums.cost_usd,
        "cost_not_reported": sums.cost_unknown,
        "scripted_runs": sums.scripted,
        "scripted_usd": sums.scripted_usd,
    }


def _cells(sums: Sums) -> tuple[str, ...]:
    tokens = (str(getattr(sums.usage, name)) if sums.usage else "-" for name in _TOKENS)
    return (sums.name, str(sums.runs), *tokens, _cost(sums))


def _cost(sums: Sums) -> str:
    if sums.cost_usd is None:
        return "not reported"
    missing = f", not reported by {_runs(sums.cost_unknown)}" if sums.cost_unknown else ""
    return f"${sums.cost_usd:.4f}{missing}"


def _notes(total: Sums) -> list[str]:
    notes: list[str] = []
    if total.usage_unknown:
        notes.append(f"Tokens were not reported by {_runs(total.usage_unknown)}.\n")
    if total.scripted_usd:
        notes.append(f"A scripted model answered {_runs(total.scripted)}: ${total.scripted_usd:.4f} was never paid.\n")
    return notes


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
