"""The cost of a call: equal to what genai-prices says, to a billionth of a dollar, wherever all of it has a price."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from itertools import product

import genai_prices
import msgspec
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice, Provider
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.folds.prices import PRICE_NAMES, Price, PriceCard, build_custom_card, compute_call_cost, compute_cost
from inspan.protocol.usage import Usage
from inspan.spending.price_cards import build_card
from tests.soak import rounds

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
PROVIDERS = get_snapshot().providers
# Whose price genai-prices takes for a kind: one without a price of its own belongs to the larger kind.
NEEDED = {
    "input": ("input_mtok",),
    "cache_read": ("cache_read_mtok", "input_mtok"),
    "cache_write": ("cache_write_mtok", "input_mtok"),
    "output": ("output_mtok",),
    "searches": ("web_searches_kcount",),
}
FREE = ("input_mtok", "output_mtok")
# By the name of the model: our card, and the prices in the list that it is made from.
CARDS = {
    (provider.id, model.id): (msgspec.convert(build_card(provider, model, now=NOW), PriceCard), model.get_prices(NOW))
    for provider in PROVIDERS
    for model in provider.models
}


def reference_cost(prices: ModelPrice, usage: Usage, *, for_an_hour: int, searches: int) -> int:
    """The cost in billionths of a dollar as genai-prices reckons it."""
    with localcontext(prec=80):
        found = prices.calc_price(
            genai_prices.Usage(
                input_tokens=usage.input + usage.cache_read + usage.cache_write,
                cache_read_tokens=usage.cache_read,
                cache_write_tokens=usage.cache_write,
                cache_write_1h_tokens=for_an_hour,
                output_tokens=usage.output,
                output_reasoning_tokens=usage.reasoning,
                web_searches=searches,
            )
        )
        return int((found["total_price"] * 10**9).to_integral_value(ROUND_HALF_EVEN))


def check(name: tuple[str, str], usage: Usage, *, for_an_hour: int = 0, searches: int = 0) -> None:
    card, prices = CARDS[name]
    found = compute_cost(card, usage, {"cache_write_1h": for_an_hour, "searches": searches})
    used = {**msgspec.structs.asdict(usage), "searches": searches}
    stated = {**(dict.fromkeys(FREE, 0) if name[1].endswith(":free") else {}), **prices.__dict__}
    unpriced = [kind for kind, keys in NEEDED.items() if used[kind] and all(stated.get(key) is None for key in keys)]
    expected = None if unpriced else reference_cost(prices, usage, for_an_hour=for_an_hour, searches=searches)
    assert found == expected, (name, usage, unpriced)


def edges(prices: ModelPrice) -> Iterator[int]:
    """Sizes of an input at which something may change."""
    yield from (0, 1, 999_999)
    for value in prices.__dict__.values():
        for tier in getattr(value, "tiers", ()):
            yield from (tier.start, tier.start + 1)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.id)
def test_every_model_of_the_list_costs_what_the_list_says(provider: Provider) -> None:
    for model in provider.models:
        name = (provider.id, model.id)
        for size, (read, written), out in product(set(edges(CARDS[name][1])), [(0, 0), (7, 3), (1, 0)], [0, 1234]):
            usage = Usage(
                input=max(0, size - read - written),
                cache_read=read,
                cache_write=written,
                output=out,
                reasoning=out // 2,
            )
            check(name, usage, for_an_hour=written // 2)


TOKENS = st.integers(0, 3_000_000)


@settings(max_examples=rounds(1000))
@given(
    data=st.data(),
    name=st.sampled_from(sorted(CARDS)),
    usage=st.builds(Usage, **dict.fromkeys(NEEDED.keys() - {"searches"}, TOKENS)),
)
def test_any_call_to_any_model_costs_what_the_list_says(
    data: st.DataObject, name: tuple[str, str], usage: Usage
) -> None:
    reasoning = data.draw(st.integers(0, usage.output))
    for_an_hour = data.draw(st.integers(0, usage.cache_write))
    searches = data.draw(st.sampled_from([0, 0, 1, 17]))
    check(name, msgspec.structs.replace(usage, reasoning=reasoning), for_an_hour=for_an_hour, searches=searches)


CARD = PriceCard(
    input=Price(base=Decimal(3), tiers=((200_000, Decimal(6)),)),
    output=Price(base=Decimal(15)),
    cache_read=Price(base=Decimal("0.3")),
    cache_write=Price(base=Decimal("3.75")),
    cache_write_1h=Price(base=Decimal(6)),
    searches=Price(base=Decimal(10)),
)


@pytest.mark.parametrize(
    ("usage", "extras", "nano"),
    [
        (Usage(), {}, 0),
        (Usage(input=1), {}, 3_000),
        (Usage(output=1), {}, 15_000),
        (Usage(output=2, reasoning=1), {}, 30_000),
        (Usage(cache_read=1), {}, 300),
        (Usage(cache_write=10), {}, 37_500),
        (Usage(cache_write=10), {"cache_write_1h": 4}, 6 * 3_750 + 4 * 6_000),
        (Usage(), {"searches": 2}, 20_000_000),
        (Usage(input=200_000), {}, 600_000_000),
        (Usage(input=200_001), {}, 1_200_006_000),
        (Usage(input=1, cache_read=200_000), {}, 6_000 + 60_000_000),
    ],
)
def test_each_kind_has_its_price(usage: Usage, extras: dict[str, int], nano: int) -> None:
    assert compute_cost(CARD, usage, extras) == nano


@pytest.mark.parametrize("usage", [Usage(output=2, reasoning=3), Usage(output=2, reasoning=2)])
def test_a_part_is_never_more_than_its_whole(usage: Usage) -> None:
    assert compute_cost(CARD, usage) == 30_000
    assert compute_cost(CARD, Usage(cache_write=1), {"cache_write_1h": 9}) == 6_000


def test_what_has_no_price_makes_the_cost_unknown_only_where_it_was_used() -> None:
    only_input = PriceCard(input=Price(base=Decimal(1)))
    assert compute_cost(only_input, Usage(input=1, cache_read=1, cache_write=1)) == 3_000
    assert compute_cost(only_input, Usage(input=1, output=1)) is None
    assert compute_cost(only_input, Usage(input=1), {"searches": 1}) is None
    assert compute_cost(only_input, Usage(input=1), {"searches": 0}) == 1_000
    assert compute_cost(CARD, Usage(input=1), {"holograms": 1}) is None
    assert compute_cost(PriceCard(), Usage(input=1)) is None


def test_a_price_for_each_request_is_paid_without_any_tokens() -> None:
    card = PriceCard(input=Price(base=Decimal(1)), requests=Price(base=Decimal(5)))
    assert compute_cost(card, Usage(input=1)) == 5_001_000
    assert compute_cost(card, Usage()) == 5_000_000


def test_a_sum_is_rounded_once_and_to_the_even_neighbour() -> None:
    card = build_custom_card("mine", {"input": 0.0005, "output": 0.0005})
    assert compute_cost(card, Usage(input=1)) == 0
    assert compute_cost(card, Usage(input=1, output=1)) == 1
    assert compute_cost(card, Usage(input=3)) == 2


def test_an_error_costs_nothing_and_an_answer_without_tokens_nobody_knows_what() -> None:
    assert compute_call_cost(CARD, status=529, usage=None) == 0
    assert compute_call_cost(None, status=400, usage=None) == 0
    assert compute_call_cost(CARD, status=200, usage=None) is None
    assert compute_call_cost(CARD, status=None, usage=None) is None
    assert compute_call_cost(None, status=200, usage=Usage(input=1)) is None
    assert compute_call_cost(CARD, status=200, usage=Usage(input=1), extras={"searches": 1}) == 10_003_000
    assert compute_call_cost(CARD, status=529, usage=Usage(input=1)) == 3_000


def test_own_prices_are_taken_as_they_are_written() -> None:
    assert build_custom_card("mine", {"input": 1.25, "output": 10, "cache_read": None, "unheard": 5}) == PriceCard(
        model="mine", input=Price(base=Decimal("1.25")), output=Price(base=Decimal(10))
    )
    every = build_custom_card("mine", dict.fromkeys(PRICE_NAMES, 0.1))
    assert {getattr(every, name) for name in PRICE_NAMES} == {Price(base=Decimal("0.1"))}


def test_a_card_is_the_same_after_it_was_written_down() -> None:
    assert [
        card for card, _ in CARDS.values() if msgspec.json.decode(msgspec.json.encode(card), type=PriceCard) != card
    ] == []
