"""What something cost, as one value for all who tell it: dollars, nothing because nobody is paid, or nobody knows."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from .spending import NANO_PER_USD

CostKind = Literal["paid", "not_paid", "unknown", "partial"]
# Sources of a model that answer in its place, and those without a gateway, as a run's first event spells them.
_NOT_PAID = ("script", "replay")
_WITHOUT_GATEWAY = ("", "direct")


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call, a run or many of them cost.

    `usd` is what was paid, at list prices, as far as it is known: `None` where it is known of nothing, or where a
    script or a cassette answered and nobody is paid (`not_paid`). `not_paid_usd` is what such answers would have cost,
    where they were priced; it is never a part of `usd`. `unknown_calls` and `unknown_runs` are missing in `usd`: all of
    it is `unknown`, or a part of it (`partial`).
    """

    kind: CostKind
    usd: float | None = None
    not_paid_usd: float | None = None
    unknown_calls: int = 0
    unknown_runs: int = 0

    def to_fields(self) -> dict[str, Any]:
        """The cost as every JSON output spells it."""
        return {"cost_usd": self.usd, "cost_kind": self.kind, "not_paid_usd": self.not_paid_usd}


def is_paid_for(model_from: str) -> bool:
    """Whether somebody is paid for the answers of this source of a model: not for a script's or a cassette's."""
    return model_from.partition(":")[0] not in _NOT_PAID


def is_counted(model_from: str) -> bool:
    """Whether a gateway stands before this source of a model, and counts its calls."""
    return model_from not in _WITHOUT_GATEWAY


def build_cost(nano: int | None, *, paid: bool = True, unknown_calls: int = 0, unknown_runs: int = 0) -> Cost:
    """The cost of what adds up to so many billionths of a dollar, `None` where nothing of it is known."""
    usd = None if nano is None else nano / NANO_PER_USD
    if not paid:
        return Cost(kind="not_paid", not_paid_usd=usd)
    is_complete = not unknown_calls and not unknown_runs
    kind: CostKind = "unknown" if usd is None else "paid" if is_complete else "partial"
    return Cost(kind=kind, usd=usd, unknown_calls=unknown_calls, unknown_runs=unknown_runs)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """All of these together; what was not paid stays apart. Of nothing, nothing was paid."""
    given = list(costs)
    paid, not_paid = _sum_known(each.usd for each in given), _sum_known(each.not_paid_usd for each in given)
    kinds = {each.kind for each in given} - {"not_paid"}
    kind: CostKind = (
        "not_paid" if not kinds else "unknown" if paid is None else "paid" if kinds == {"paid"} else "partial"
    )
    return Cost(
        kind=kind,
        usd=paid,
        not_paid_usd=not_paid,
        unknown_calls=sum(each.unknown_calls for each in given),
        unknown_runs=sum(each.unknown_runs for each in given),
    )


def _sum_known(amounts: Iterable[float | None]) -> float | None:
    """The sum in billionths of a dollar, so that many small amounts add up exactly."""
    known = [round(each * NANO_PER_USD) for each in amounts if each is not None]
    return sum(known) / NANO_PER_USD if known else None
