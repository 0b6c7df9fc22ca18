"""What was spent in a place, and what its budgets allow."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.folds.costs import GroupTotals, Subtotal, group_spendings, sum_spendings
from inspan.protocol.amounts import Amounts
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage
from inspan.runs.costs import list_spendings
from inspan.runs.refusals import BudgetRefusal, list_refusals
from inspan.spending.pricing import PriceTable, Pricing
from inspan.stores.ledger_tree import BudgetStatus, read_tree
from inspan.stores.paths import cache_home

from .place import Place
from .values import BudgetEnd, BudgetInfo, BudgetListing, CostGroup, CostPart, CostQuery, CostSums, Nothing

_LIMITS = ("usd", "tokens", "calls", "seconds", "restarts")


def sum_costs(place: Place, query: CostQuery) -> CostSums:
    """What runs have used and cost: living, ended and deleted ones."""
    spendings = list_spendings(place.state, since=query.since)
    found, total = group_spendings(spendings, by=query.by), sum_spendings(spendings)
    table = Pricing(cache_home(place.env)).describe_table() if total.overall.calls else None
    return describe_sums(query, found, total, table)


def describe_sums(
    query: CostQuery, groups: list[GroupTotals], total: GroupTotals, table: PriceTable | None
) -> CostSums:
    """The same, of what was summed."""
    return CostSums(
        by=query.by,
        since=query.since or None,
        groups=[_describe_group(each) for each in groups],
        total=_describe_group(total),
        prices=msgspec.to_builtins(table),
    )


def list_budgets(place: Place, _: Nothing) -> BudgetListing:
    """What budgets allow, and what is spent and set aside of them."""
    statuses = read_tree(place.state)
    return describe_budgets(statuses, list_refusals(place.state) if statuses else [])


def describe_budgets(statuses: Sequence[BudgetStatus], refusals: Sequence[BudgetRefusal]) -> BudgetListing:
    """The same, of what was read."""
    return BudgetListing(
        nodes=[_describe_budget(each) for each in statuses],
        refusals=[BudgetEnd(**each._asdict()) for each in refusals],
    )


def _describe_group(sums: GroupTotals) -> CostGroup:
    return CostGroup(
        name=sums.name,
        **_describe_part(sums.overall),
        scripted_runs=sums.scripted.runs,
        scripted_usd=sums.scripted.cost.not_paid_usd or 0.0,
        sources={source: CostPart(**_describe_part(part)) for source, part in sums.sources.items()},
        roles={role: CostPart(**_describe_part(part)) for role, part in sums.roles.items()},
    )


def _describe_part(part: Subtotal) -> dict[str, Any]:
    return {
        "runs": part.runs,
        "calls": part.calls,
        **{name: getattr(part.usage, name) if part.usage else None for name in Usage.__struct_fields__},
        "tokens_not_reported": part.runs_without_usage,
        "calls_without_tokens": part.calls_without_usage,
        **part.cost.to_fields(),
        "cost_not_reported": part.runs_without_cost,
        "calls_without_cost": part.calls_without_cost,
        "estimated_calls": part.estimated_calls,
        "estimated_usd": part.estimated_usd,
        "estimated_tokens": part.estimated_tokens,
    }


def _describe_budget(status: BudgetStatus) -> BudgetInfo:
    limits = {name: getattr(status.budget, name) for name in _LIMITS}
    spent = {"seconds": round(status.spent.seconds, 3), "restarts": status.spent.restarts}
    return BudgetInfo(
        node=status.node,
        project=status.project,
        task=status.task or None,
        run_id=status.run_id or None,
        scripted=status.scripted,
        limits={**limits, "per": status.budget.per or None},
        spent={**_describe_amounts(status.spent), **spent},
        **status.cost.to_fields(),
        reserved=_describe_amounts(status.reserved),
        since=status.since or None,
        unpriced_calls=status.unpriced,
        estimated_calls=status.estimated,
    )


def _describe_amounts(amounts: Amounts) -> dict[str, float]:
    return {"usd": amounts.nano / NANO_PER_USD, "tokens": amounts.tokens, "calls": amounts.calls}
