"""The words for a run's model calls: how many and what for, tokens of each model, cost and who counted it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from inspan.folds.costs import read_run_cost
from inspan.folds.summary import Summary
from inspan.folds.usage import CallSums, group_by_model, group_by_role, sum_calls

from .costs import format_cost, format_count, format_usd
from .summary import format_tokens

_ROLES = ("main", "side", "retry")


def format_calls(summary: Summary) -> Iterator[str]:
    """What `show` says of a run's calls; nothing where neither the gateway nor the agent told anything."""
    whole = sum_calls(summary.measured)
    if whole.calls:
        roles = group_by_role(summary.measured)
        yield f"calls: {whole.calls} ({', '.join(f'{roles[role].calls} {role}' for role in _ROLES if role in roles)})"
        for model, sums in group_by_model(summary.measured).items():
            calls, cost = format_count(sums.calls, "call"), format_cost(sums.to_cost(paid=summary.is_paid))
            yield f"{model or 'unknown model'}: {calls}, {_format_tokens(sums)}, cost: {cost}"
    if whole.calls or summary.usage or summary.cost_usd is not None:
        yield f"cost: {format_cost(read_run_cost(summary))} · {_format_sources(summary, whole)}"
    if summary.difference:
        apart = summary.difference
        counts = f"the agent counts {apart.told.total} tokens, the gateway {apart.measured.total}"
        yield f"counts differ: {counts}; {apart.percent:.1f} % in the kind that differs most"


def calls_to_dict(summary: Summary) -> dict[str, Any]:
    """The same for a program."""
    apart = summary.difference
    paid = summary.is_paid
    return {
        **_sums_to_dict(sum_calls(summary.measured), paid=paid),
        "roles": {role: _sums_to_dict(sums, paid=paid) for role, sums in group_by_role(summary.measured).items()},
        "models": {model: _sums_to_dict(sums, paid=paid) for model, sums in group_by_model(summary.measured).items()},
        "told": {"usage": _usage_to_dict(summary.usage), "cost_usd": summary.cost_usd},
        "differs_percent": apart.percent if apart else None,
    }


def _sums_to_dict(sums: CallSums, *, paid: bool) -> dict[str, Any]:
    cost = sums.to_cost(paid=paid)
    return {
        "calls": sums.calls,
        "usage": _usage_to_dict(sums.usage),
        "calls_without_tokens": sums.without_usage,
        **cost.to_fields(),
        "cost_kind": cost.kind if sums.calls else None,
        "calls_without_cost": sums.without_cost,
    }


def _usage_to_dict(usage: msgspec.Struct | None) -> dict[str, Any] | None:
    """Every count, zeros too: nobody should have to know what is left out."""
    return msgspec.structs.asdict(usage) if usage else None


def _format_tokens(sums: CallSums) -> str:
    return format_tokens(sums.usage) if sums.usage else "no tokens stated"


def _format_sources(summary: Summary, whole: CallSums) -> str:
    """Who counted, and what the agent says where that is not what counts."""
    told = (
        "the agent reported none" if summary.cost_usd is None else f"the agent reported {format_usd(summary.cost_usd)}"
    )
    if not whole.calls:
        return f"{told}; no call was counted by the gateway"
    return f"{_format_counter(summary, whole)}; {told}"


def _format_counter(summary: Summary, whole: CallSums) -> str:
    if not summary.is_paid:
        return f"answered by a {'cassette' if summary.model_from.startswith('replay:') else 'script'}"
    models = group_by_model(summary.measured)
    unpriced = ", ".join(model or "an unknown model" for model, sums in models.items() if sums.without_cost)
    return "counted by the gateway" + (f", not known for {unpriced}" if unpriced else "")
