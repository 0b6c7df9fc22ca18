"""The words for a run's model calls: how many and what for, tokens of each model, cost and who counted it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from inspan.folds.summary import Summary
from inspan.folds.usage import CallSums, group_by_model, group_by_role, sum_calls

from .summary import format_tokens

_ROLES = ("main", "side", "retry")


def format_calls(summary: Summary) -> Iterator[str]:
    """What `show` says of a run's calls; nothing where neither the gateway nor the agent told anything."""
    whole = sum_calls(summary.measured)
    if whole.calls:
        roles = group_by_role(summary.measured)
        yield f"calls: {whole.calls} ({', '.join(f'{roles[role].calls} {role}' for role in _ROLES if role in roles)})"
        for model, sums in group_by_model(summary.measured).items():
            calls = f"{sums.calls} call{'' if sums.calls == 1 else 's'}"
            yield f"{model or 'unknown model'}: {calls}, {_format_tokens(sums)}, {_format_cost(sums)}"
    if whole.calls or summary.usage or summary.cost_usd is not None:
        yield f"cost: {_format_sources(summary, whole)}"
    if summary.difference:
        apart = summary.difference
        counts = f"the agent counts {apart.told.total} tokens, the gateway {apart.measured.total}"
        yield f"counts differ: {counts}; {apart.percent:.1f} % in the kind that differs most"


def calls_to_dict(summary: Summary) -> dict[str, Any]:
    """The same for a program."""
    apart = summary.difference
    return {
        **_sums_to_dict(sum_calls(summary.measured)),
        "roles": {role: _sums_to_dict(sums) for role, sums in group_by_role(summary.measured).items()},
        "models": {model: _sums_to_dict(sums) for model, sums in group_by_model(summary.measured).items()},
        "told": {"usage": _usage_to_dict(summary.usage), "cost_usd": summary.cost_usd},
        "differs_percent": apart.percent if apart else None,
    }


def _sums_to_dict(sums: CallSums) -> dict[str, Any]:
    return {
        "calls": sums.calls,
        "usage": _usage_to_dict(sums.usage),
        "calls_without_tokens": sums.without_usage,
        "cost_usd": sums.cost_usd,
        "calls_without_cost": sums.without_cost,
    }


def _usage_to_dict(usage: msgspec.Struct | None) -> dict[str, Any] | None:
    """Every count, zeros too: nobody should have to know what is left out."""
    return msgspec.structs.asdict(usage) if usage else None


def _format_tokens(sums: CallSums) -> str:
    return format_tokens(sums.usage) if sums.usage else "no tokens stated"


def _format_cost(sums: CallSums) -> str:
    if sums.cost_usd is None:
        return "cost unknown"
    missing = f", unknown for {sums.without_cost} of them" if sums.without_cost else ""
    return f"${sums.cost_usd:.4f}{missing}"


def _format_sources(summary: Summary, whole: CallSums) -> str:
    told = "not reported by the agent" if summary.cost_usd is None else f"${summary.cost_usd:.4f} reported by the agent"
    if not whole.calls:
        return f"{told}; no call was counted by the gateway"
    if whole.cost_usd is None:
        return f"unknown to the gateway; {told}"
    missing = f", unknown for {whole.without_cost} of {whole.calls} calls" if whole.without_cost else ""
    return f"${whole.cost_usd:.4f} counted by the gateway{missing}; {told}"
