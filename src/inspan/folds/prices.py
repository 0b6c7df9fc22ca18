"""What a model call costs, from a card of prices. Exact: dollars are decimal, the sum is rounded once."""

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal

import msgspec

from inspan.protocol.http_status import is_error_status
from inspan.protocol.usage import Usage

_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)
# What counts, and whose price it has: the first of these that the card states. A cache without a price of its own
# costs as much as what is not cached, and reasoning as much as any other output.
_PRICED_AS: dict[str, tuple[str, ...]] = {
    "input": ("input",),
    "cache_read": ("cache_read", "input"),
    "cache_write": ("cache_write", "input"),
    "cache_write_1h": ("cache_write_1h", "cache_write", "input"),
    "output": ("output",),
    "reasoning": ("reasoning", "output"),
    "searches": ("searches",),
}
# Billionths of a dollar in one dollar for a million, and in one for a thousand.
_NANO_BY_MILLION, _NANO_BY_THOUSAND = Decimal(1_000), Decimal(1_000_000)
_BY_THOUSAND = ("searches", "requests")
PRICE_NAMES = (*_PRICED_AS, "requests")


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars. A tier `(start, dollars)` holds for all of a call whose whole input is larger than its start."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def rate_for(self, input_tokens: int) -> Decimal:
        """The dollars that hold for a call with so much input, cached or not."""
        reached = [dollars for start, dollars in sorted(self.tiers) if input_tokens > start]
        return reached[-1] if reached else self.base


class PriceCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices of one model: for a million tokens, for a thousand searches, for a thousand requests.

    `provider` and `model` are what the list calls them, `context` is the most input it takes. The prices hold `until`
    a moment in seconds since 1970, where another one is known to follow.
    """

    provider: str = ""
    model: str = ""
    context: int | None = None
    until: float | None = None
    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None
    cache_write_1h: Price | None = None
    reasoning: Price | None = None
    searches: Price | None = None
    requests: Price | None = None


def compute_cost(card: PriceCard, usage: Usage, extras: Mapping[str, int] | None = None) -> int | None:
    """The cost of one call in billionths of a dollar, or None where something that was used has no price."""
    counts = _count_units(usage, extras or {})
    whole_input = usage.input + usage.cache_read + usage.cache_write
    total = Decimal(0)
    for name, count in counts.items():
        price = _find_price(card, name)
        if price is None:
            return None
        total = _EXACT.fma(Decimal(count) * _nano_per_unit(name), price.rate_for(whole_input), total)
    if card.requests:
        total = _EXACT.fma(_nano_per_unit("requests"), card.requests.rate_for(whole_input), total)
    return int(_EXACT.to_integral_value(total))


def compute_call_cost(
    card: PriceCard | None, *, status: int | None, usage: Usage | None, extras: Mapping[str, int] | None = None
) -> int | None:
    """The same for a call as the gateway saw it. An answer that is an error is not billed, whatever the model."""
    if usage is None:
        return 0 if is_error_status(status) else None
    return compute_cost(card, usage, extras) if card else None


def build_custom_card(name: str, prices: Mapping[str, float | None]) -> PriceCard:
    """A card of prices that a user has set, in dollars and under the names of `PRICE_NAMES`."""
    stated = {key: prices.get(key) for key in PRICE_NAMES}
    own = {key: Price(base=Decimal(str(value))) for key, value in stated.items() if value is not None}
    return msgspec.structs.replace(PriceCard(model=name), **own)


def _count_units(usage: Usage, extras: Mapping[str, int]) -> dict[str, int]:
    """What was used, each token in one place; an extra that nobody here knows stays and has no price."""
    reasoning = min(usage.reasoning, usage.output)
    for_an_hour = min(extras.get("cache_write_1h", 0), usage.cache_write)
    counts = {
        **extras,
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write - for_an_hour,
        "cache_write_1h": for_an_hour,
        "output": usage.output - reasoning,
        "reasoning": reasoning,
    }
    return {name: count for name, count in counts.items() if count > 0}


def _find_price(card: PriceCard, name: str) -> Price | None:
    stated = (getattr(card, key) for key in _PRICED_AS.get(name, ()))
    return next((price for price in stated if price is not None), None)


def _nano_per_unit(name: str) -> Decimal:
    return _NANO_BY_THOUSAND if name in _BY_THOUSAND else _NANO_BY_MILLION
