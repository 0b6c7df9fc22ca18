"""The model calls of one run, summed by model and by role, and how far the agent's own count is from the gateway's."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from inspan.protocol.cost import Cost, build_cost
from inspan.protocol.events import ModelCallEnded
from inspan.protocol.http_status import is_error_status
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage

_TOLERANCE_PERCENT = 1.0
_INPUTS = ("cache_read", "cache_write")


class CallSums(NamedTuple):
    """Calls together. `usage` and `nano` (billionths of a dollar) leave out the calls that are counted beside them."""

    calls: int = 0
    usage: Usage | None = None
    without_usage: int = 0
    nano: int | None = None
    without_cost: int = 0

    @property
    def cost_usd(self) -> float | None:
        """What the calls cost for which that is known; `None` where it is known for none."""
        return None if self.nano is None else self.nano / NANO_PER_USD

    def to_cost(self, *, paid: bool) -> Cost:
        """The same as a cost, of a run whose model is `paid` for or not."""
        return build_cost(self.nano, paid=paid, unknown_calls=self.without_cost)

    def __or__(self, other: "CallSums") -> "CallSums":
        """Both together."""
        usages = [each.usage for each in (self, other) if each.usage is not None]
        costs = [each.nano for each in (self, other) if each.nano is not None]
        return CallSums(
            calls=self.calls + other.calls,
            usage=sum(usages, Usage()) if usages else None,
            without_usage=self.without_usage + other.without_usage,
            nano=sum(costs) if costs else None,
            without_cost=self.without_cost + other.without_cost,
        )


class CallKind(NamedTuple):
    """What tells the calls of a run apart."""

    model: str
    role: str


def sums_from_call(event: ModelCallEnded) -> CallSums:
    """A call as sums of one; where it is known to cost nothing, such as an error, no tokens are missing."""
    usd = event.not_paid_usd if event.cost_usd is None else event.cost_usd
    nano = None if usd is None else round(usd * NANO_PER_USD)
    return CallSums(
        calls=1,
        usage=event.usage,
        without_usage=int(event.usage is None and nano != 0 and not _is_refused(event)),
        nano=nano,
        without_cost=int(nano is None),
    )


def _is_refused(event: ModelCallEnded) -> bool:
    """Whether the provider answered with an error, heard to its end: such a call has used nothing."""
    return not event.problem and is_error_status(event.status)


def group_by_model(calls: Mapping[CallKind, CallSums]) -> dict[str, CallSums]:
    """The sums of each model, in the order in which they were first asked."""
    return _group(calls, lambda kind: kind.model)


def group_by_role(calls: Mapping[CallKind, CallSums]) -> dict[str, CallSums]:
    """The sums of each role, in the order in which they first came up."""
    return _group(calls, lambda kind: kind.role)


def sum_calls(calls: Mapping[CallKind, CallSums]) -> CallSums:
    """The sums of all."""
    return _group(calls, lambda _: "").get("", CallSums())


def compare_usage(reported: Usage, measured: Usage) -> float | None:
    """By how many percent of what was measured the agent's count is off, in the kind where it is worst; None up to one.

    Not every agent tells caches and reasoning apart: a kind of which it tells nothing is taken as a part of its input
    or output.
    """
    silent = [name for name in _INPUTS if not getattr(reported, name)]
    whole = msgspec.structs.replace(measured, input=measured.input + sum(getattr(measured, name) for name in silent))
    unheard = {*silent, *(() if reported.reasoning else ("reasoning",))}
    heard = [name for name in Usage.__struct_fields__ if name not in unheard]
    worst = max(_percent_off(getattr(reported, name), getattr(whole, name)) for name in heard)
    return worst if worst > _TOLERANCE_PERCENT else None


def _group(calls: Mapping[CallKind, CallSums], name_of: Callable[[CallKind], str]) -> dict[str, CallSums]:
    found: dict[str, CallSums] = {}
    for kind, sums in calls.items():
        name = name_of(kind)
        found[name] = found.get(name, CallSums()) | sums
    return found


def _percent_off(reported: int, measured: int) -> float:
    if reported == measured:
        return 0.0
    return 100.0 * abs(reported - measured) / measured if measured else 100.0
