"""The words for a run's model calls: how many and what for, tokens of each model, cost and who counted it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from inspan.folds.summary import Summary
from inspan.folds.usage import CallSums, all_calls, by_model, by_role

from .summary import tokens

_ROLES = ("main", "side", "retry")


def call_lines(summary: Summary) -> Iterator[str]:
    """What `show` says of a run's calls; nothing where neither the gateway nor the agent told anything."""
    whole = all_calls(summary.measured)
    if whole.calls:
        roles = by_role(summary.measured)
        yield f"calls: {whole.calls} ({', '.join(f'{roles[role].calls} {role}' for role in _ROLES if role in roles)})"
        for model, sums in by_model(summary.measured).items():
            calls = f"{sums.calls} call{'' if sums.calls == 1 else 's'}"
            yield f"{model or 'unknown model'}: {calls}, {_tokens(sums)}, {_cost(sums)}"
    if whole.calls or summary.usage or summary.cost_usd is not None:
        yield f"cost: {_sources(summary, whole)}"
    if summary.difference:
        apart = summary.difference
        counts = f"the agent counts {apart.told.total} tokens, the gateway {apart.measured.total}"
        yield f"counts differ: {counts}; {apart.percent:.1f} % in the kind that differs most"


def described_calls(summary: Summary) -> dict[str, Any]:
    """The same for a program."""
    apart = summary.difference
    return {
        **_described(all_calls(summary.measured)),
        "roles": {role: _described(sums) for role, sums in by_role(summary.measured).items()},
        "models": {model: _described(sums) for model, sums in by_model(summary.measured).items()},
        "told": {"usage": _spelled(summary.usage), "cost_usd": summary.cost_usd},
        "differs_percent": apart.percent if apart else None,
    }


def _described(sums: CallSums) -> dict[str, Any]:
    return {
        "calls": sums.calls,
        "usage": _spelled(sums.usage),
        "calls_without_tokens": sums.without_usage,
        "cost_usd": sums.cost_usd,
        "calls_without_cost": sums.without_cost,
    }


def _spelled(usage: msgspec.Struct | None) -> dict[str, Any] | None:
    """Every count, zeros too: nobody should have to know what is left out."""
    return msgspec.structs.asdict(usage) if usage else None


def _tokens(sums: CallSums) -> str:
    return tokens(sums.usage) if sums.usage else "no tokens stated"


def _cost(sums: CallSums) -> str:
    if sums.cost_usd is None:
        return "cost unknown"
    missing = f", unknown for {sums.without_cost} of them" if sums.without_cost else ""
    return f"${sums.cost_usd:.4f}{missing}"


def _sources(summary: Summary, whole: CallSums) -> str:
    told = "not told by the agent" if summary.cost_usd is None else f"${summary.cost_usd:.4f} told by the agent"
    if not whole.calls:
        return f"{told}; no call was counted by the gateway"
    if whole.cost_usd is None:
        return f"unknown to the gateway; {told}"
    missing = f", unknown for {whole.without_cost} of {whole.calls} calls" if whole.without_cost else ""
    return f"${whole.cost_usd:.4f} counted by the gateway{missing}; {told}"
