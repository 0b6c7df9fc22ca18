"""The words for a cost: one text for people everywhere, and a short one that it begins with."""

import pytest

from inspan.protocol.cost import Cost, build_cost, is_counted, is_paid_for, sum_costs
from inspan.reporters.costs import format_cost, format_cost_cell

PAID, FREE = Cost(kind="paid", usd=0.75), Cost(kind="not_paid", not_paid_usd=0.25)
UNKNOWN = Cost(kind="unknown", unknown_calls=2, unknown_runs=1)
WORDS: list[tuple[Cost, str, str]] = [
    (PAID, "$0.75", "$0.75"),
    (Cost(kind="paid", usd=0.0), "$0.00", "$0.00"),
    (Cost(kind="paid", usd=0.000594), "$0.0006", "$0.0006"),
    (Cost(kind="paid", usd=0.00002), "$0.00002", "$0.00002"),
    (Cost(kind="not_paid"), "not paid", "not paid"),
    (Cost(kind="not_paid", not_paid_usd=0.0), "not paid", "not paid"),
    (FREE, "not paid", "not paid ($0.25 at list prices)"),
    (UNKNOWN, "unknown", "unknown"),
    (Cost(kind="partial", usd=0.75), "$0.75 + unknown", "$0.75 + unknown"),
    (Cost(kind="partial", usd=0.75, unknown_calls=1), "$0.75 + unknown", "$0.75 + unknown for 1 call"),
    (sum_costs([PAID, UNKNOWN]), "$0.75 + unknown", "$0.75 + unknown for 2 calls and 1 run"),
    (sum_costs([PAID, FREE]), "$0.75", "$0.75; not paid: $0.25"),
    (sum_costs([UNKNOWN, FREE]), "unknown", "unknown; not paid: $0.25"),
]


@pytest.mark.parametrize(("cost", "cell", "whole"), WORDS)
def test_a_cost_is_told_in_one_way(cost: Cost, cell: str, whole: str) -> None:
    assert (format_cost_cell(cost), format_cost(cost)) == (cell, whole)
    assert whole.startswith(cell)


def test_what_is_unknown_can_have_names() -> None:
    assert format_cost(sum_costs([PAID, UNKNOWN]), unknown_of=("check", "fix")) == "$0.75 + unknown for check, fix"
    assert format_cost(PAID, unknown_of=("check",)) == "$0.75"


def test_a_sum_has_the_kind_of_what_was_to_be_paid() -> None:
    partial = Cost(kind="partial", usd=0.5, unknown_calls=1)
    kinds = {
        (): "not_paid",
        (FREE, FREE): "not_paid",
        (PAID, FREE): "paid",
        (UNKNOWN, FREE): "unknown",
        (PAID, UNKNOWN): "partial",
        (PAID, partial): "partial",
        (UNKNOWN, UNKNOWN): "unknown",
    }
    assert {costs: sum_costs(costs).kind for costs in kinds} == kinds
    assert sum_costs([PAID, partial, FREE, FREE]) == Cost(kind="partial", usd=1.25, not_paid_usd=0.5, unknown_calls=1)


def test_many_small_costs_add_up_exactly() -> None:
    assert sum_costs([Cost(kind="paid", usd=0.1)] * 1000) == Cost(kind="paid", usd=100.0)


def test_only_a_script_and_a_cassette_are_not_paid_and_only_a_gateway_counts() -> None:
    sources = ("", "direct", "live", "record:/t", "script:/s", "replay:/t")
    assert [is_paid_for(source) for source in sources] == [True, True, True, True, False, False]
    assert [is_counted(source) for source in sources] == [False, False, True, True, True, True]


def test_a_cost_is_spelled_in_the_same_fields_everywhere() -> None:
    assert build_cost(500_000_000, unknown_calls=1).to_fields() == {
        "cost_usd": 0.5,
        "cost_kind": "partial",
        "not_paid_usd": None,
    }
    assert build_cost(500_000_000, paid=False, unknown_calls=1) == Cost(kind="not_paid", not_paid_usd=0.5)
