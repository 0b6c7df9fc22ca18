"""Sums over runs: what was reported is added, what was not is counted and never taken for zero."""

from typing import Any

import pytest

from inspan.folds.costs import BY, By, Spending, Sums, groups, summed
from inspan.protocol.usage import Usage

_DAY_S = 86400.0


def spent(run_id: str, **fields: Any) -> Spending:
    usual: dict[str, Any] = {
        "agent": "a",
        "model": "m",
        "project": "p",
        "started_at": 0.0,
        "usage": Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5),
        "cost_usd": 0.25,
        "scripted": False,
    }
    return Spending(run_id=run_id, **{**usual, **fields})


def test_nothing_costs_an_unknown_amount() -> None:
    assert summed([]) == Sums(
        name="total",
        runs=0,
        usage=None,
        usage_unknown=0,
        cost_usd=None,
        cost_unknown=0,
        scripted=0,
        scripted_usd=0.0,
    )
    assert groups([], by="agent") == []


def test_every_kind_of_token_and_the_cost_add_up() -> None:
    assert summed([spent("1"), spent("2", scripted=True)], name="both") == Sums(
        name="both",
        runs=2,
        usage=Usage(input=2, output=4, cache_read=6, cache_write=8, reasoning=10),
        usage_unknown=0,
        cost_usd=0.5,
        cost_unknown=0,
        scripted=1,
        scripted_usd=0.25,
    )


def test_what_some_did_not_report_is_counted_beside_the_sum_of_the_others() -> None:
    found = summed([spent("1"), spent("2", cost_usd=None), spent("3", usage=None, cost_usd=None)])
    assert (found.cost_usd, found.cost_unknown) == (0.25, 2)
    assert (found.usage, found.usage_unknown) == (
        Usage(input=2, output=4, cache_read=6, cache_write=8, reasoning=10),
        1,
    )


def test_what_nobody_reported_is_unknown_and_not_zero() -> None:
    found = summed([spent("1", usage=None, cost_usd=None)])
    assert (found.usage, found.usage_unknown, found.cost_usd, found.cost_unknown) == (None, 1, None, 1)


def test_a_reported_zero_is_a_zero() -> None:
    found = summed([spent("1", usage=Usage(), cost_usd=0.0)])
    assert (found.usage, found.cost_usd, found.cost_unknown) == (Usage(), 0.0, 0)


def test_many_small_costs_add_up_exactly() -> None:
    assert summed([spent(str(number), cost_usd=0.1) for number in range(1000)]).cost_usd == 100.0


_RUNS = [
    spent("1", agent="b", model="x", project="q", started_at=0.0),
    spent("2", agent="a", model="", project="p", started_at=_DAY_S - 0.001),
    spent("3", agent="b", model="x", project="p", started_at=_DAY_S),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("agent", [("a", 1), ("b", 2)]),
        ("model", [("unknown", 1), ("x", 2)]),
        ("project", [("p", 2), ("q", 1)]),
        ("day", [("1970-01-02", 1), ("1970-01-01", 2)]),
        ("run", [("3", 1), ("2", 1), ("1", 1)]),
    ],
)
def test_groups_are_in_the_order_of_their_names_and_the_newest_day_first(
    by: By, expected: list[tuple[str, int]]
) -> None:
    assert [(each.name, each.runs) for each in groups(_RUNS, by=by)] == expected


@pytest.mark.parametrize("by", BY)
def test_no_run_is_lost_or_counted_twice_by_grouping(by: By) -> None:
    found = groups(_RUNS, by=by)
    assert sum(each.runs for each in found) == len(_RUNS)
    assert sum(each.cost_usd or 0.0 for each in found) == summed(_RUNS).cost_usd
