"""The words for what something cost, in one place: a run costs the same wherever it is shown."""

from collections.abc import Sequence

from inspan.protocol.amounts import format_dollars
from inspan.protocol.cost import Cost
from inspan.protocol.spending import NANO_PER_USD

_UNKNOWN, _NOT_PAID = "unknown", "not paid"


def format_cost(cost: Cost, *, unknown_of: Sequence[str] = ()) -> str:
    """The cost in full: dollars, `not paid` or `unknown`, and of what, by number or by the names in `unknown_of`."""
    said = format_cost_cell(cost)
    if cost.kind == "not_paid":
        return f"{said} ({format_usd(cost.not_paid_usd)} at list prices)" if cost.not_paid_usd else said
    missing = ", ".join(unknown_of) or _format_missing(cost)
    if cost.kind == "partial" and missing:
        said += f" for {missing}"
    return f"{said}; {_NOT_PAID}: {format_usd(cost.not_paid_usd)}" if cost.not_paid_usd else said


def format_cost_cell(cost: Cost) -> str:
    """The cost in two words at most, for a column or a status line: how the whole text begins."""
    if cost.kind == "not_paid":
        return _NOT_PAID
    if cost.usd is None:
        return _UNKNOWN
    return format_usd(cost.usd) + (f" + {_UNKNOWN}" if cost.kind == "partial" else "")


def format_usd(usd: float) -> str:
    """Dollars as everything shows them."""
    return format_dollars(usd * NANO_PER_USD)


def format_count(number: int, thing: str) -> str:
    """So many of a thing, in words."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _format_missing(cost: Cost) -> str:
    counts = ((cost.unknown_calls, "call"), (cost.unknown_runs, "run"))
    return " and ".join(format_count(number, thing) for number, thing in counts if number)
