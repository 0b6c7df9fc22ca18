"""Sums of what was spent: what was told is added, what was not is counted and never taken for zero."""

from typing import Any

import pytest

from inspan.folds.costs import BY, By, GroupTotals, Subtotal, group_spendings, read_cost, sum_spendings
from inspan.protocol.cost import Cost
from inspan.protocol.events import MessageEnded, RunEnded
from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage

_DAY_S = 86400.0
_QUARTER = 250_000_000
ONE = Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5)
NOTHING = Subtotal(
    runs=0,
    calls=0,
    usage=None,
    calls_without_usage=0,
    runs_without_usage=0,
    cost=Cost(kind="not_paid"),
    calls_without_cost=0,
    runs_without_cost=0,
)


def call(run_id: str, number: int = 1, **fields: Any) -> Spending:
    """A call that the gateway counted."""
    usual: dict[str, Any] = {
        "at": 0.0,
        "project": "p",
        "task": "t",
        "session": "s",
        "agent": "a",
        "model": "m",
        "role": "main",
        "usage": ONE,
        "nano": _QUARTER,
        "source": "gateway",
        "scripted": False,
    }
    return Spending(run_id=run_id, call=number, **{**usual, **fields})


def agent_spending(run_id: str, **fields: Any) -> Spending:
    """A run as its agent told it."""
    return call(run_id, 0, role="", source="agent", **fields)


def paid(usd: float) -> Cost:
    return Cost(kind="paid", usd=usd)


def test_for_nothing_nothing_was_paid() -> None:
    assert sum_spendings([]) == GroupTotals(
        name="total",
        overall=NOTHING,
        sources={"gateway": NOTHING, "agent": NOTHING},
        roles={"main": NOTHING, "side": NOTHING, "retry": NOTHING},
        scripted=NOTHING,
    )
    assert group_spendings([], by="agent") == []


def test_calls_and_told_runs_add_up_and_are_shown_apart() -> None:
    rows = [call("1"), call("1", 2, role="retry"), agent_spending("2"), call("3", role="side", scripted=True)]
    three = NOTHING._replace(runs=2, calls=3, usage=ONE + ONE + ONE, cost=_and_not_paid(0.5))
    one = NOTHING._replace(runs=1, calls=1, usage=ONE, cost=paid(0.25))
    unpaid = one._replace(cost=Cost(kind="not_paid", not_paid_usd=0.25))
    assert sum_spendings(rows, name="all") == GroupTotals(
        name="all",
        overall=NOTHING._replace(runs=3, calls=3, usage=ONE + ONE + ONE + ONE, cost=_and_not_paid(0.75)),
        sources={"gateway": three, "agent": one._replace(calls=0)},
        roles={"main": one, "side": unpaid, "retry": one},
        scripted=unpaid,
    )


def _and_not_paid(usd: float) -> Cost:
    return Cost(kind="paid", usd=usd, not_paid_usd=0.25)


def test_a_scripted_call_without_a_price_makes_no_cost_unknown() -> None:
    rows = [call("1"), call("2", scripted=True, nano=None)]
    assert sum_spendings(rows).overall.cost == paid(0.25)
    assert sum_spendings(rows[1:]).overall.cost == Cost(kind="not_paid")


def test_what_some_did_not_tell_is_counted_beside_the_sum_of_the_others() -> None:
    rows = [
        call("1"),
        call("1", 2, nano=None),
        call("1", 3, usage=None, nano=None),
        agent_spending("2", usage=None, nano=None),
    ]
    assert sum_spendings(rows).overall == Subtotal(
        runs=2,
        calls=3,
        usage=ONE + ONE,
        calls_without_usage=1,
        runs_without_usage=1,
        cost=Cost(kind="partial", usd=0.25, unknown_calls=2, unknown_runs=1),
        calls_without_cost=2,
        runs_without_cost=1,
    )


def test_what_nobody_told_is_unknown_and_not_zero() -> None:
    found = sum_spendings([agent_spending("1", usage=None, nano=None), call("2", usage=None, nano=None)]).overall
    assert (found.usage, found.cost) == (None, Cost(kind="unknown", unknown_calls=1, unknown_runs=1))


def test_a_zero_that_was_told_is_a_zero_and_an_error_that_cost_nothing_misses_no_tokens() -> None:
    assert sum_spendings([agent_spending("1", usage=Usage(), nano=0)]).overall == NOTHING._replace(
        runs=1, usage=Usage(), cost=paid(0.0)
    )
    assert sum_spendings([call("1", usage=None, nano=0)]).overall == NOTHING._replace(runs=1, calls=1, cost=paid(0.0))


def test_many_small_costs_add_up_exactly() -> None:
    assert sum_spendings([call(str(number), nano=100_000_000) for number in range(1000)]).overall.cost == paid(100.0)


_RUNS = [
    agent_spending("1", agent="b", model="x", project="q", at=0.0, session=""),
    call("2", agent="a", model="", at=_DAY_S - 0.001, role="side"),
    call("3", agent="b", model="x", at=_DAY_S, task="u", session="r"),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("agent", [("a", 1), ("b", 2)]),
        ("model", [("unknown", 1), ("x", 2)]),
        ("project", [("p", 2), ("q", 1)]),
        ("day", [("1970-01-02", 1), ("1970-01-01", 2)]),
        ("run", [("3", 1), ("2", 1), ("1", 1)]),
        ("session", [("r", 1), ("s", 1), ("unknown", 1)]),
        ("task", [("p/t", 1), ("p/u", 1), ("q/t", 1)]),
        ("role", [("main", 1), ("side", 1), ("unknown", 1)]),
    ],
)
def test_groups_are_in_the_order_of_their_names_and_the_newest_day_first(
    by: By, expected: list[tuple[str, int]]
) -> None:
    assert [(each.name, each.overall.runs) for each in group_spendings(_RUNS, by=by)] == expected


@pytest.mark.parametrize("by", BY)
def test_no_run_is_lost_or_counted_twice_by_grouping(by: By) -> None:
    found = group_spendings(_RUNS, by=by)
    assert sum(each.overall.runs for each in found) == len(_RUNS)
    assert sum(each.overall.cost.usd or 0.0 for each in found) == sum_spendings(_RUNS).overall.cost.usd


_OLD: list[tuple[str, float | None, int, Cost]] = [
    ("live", 0.5, 0, paid(0.5)),
    ("direct", 0.5, 0, paid(0.5)),
    ("", None, 0, Cost(kind="unknown", unknown_runs=1)),
    ("live", 0.5, 2, Cost(kind="partial", usd=0.5, unknown_calls=2)),
    ("script:/s.toml", 0.5, 0, Cost(kind="not_paid", not_paid_usd=0.5)),
    ("replay:/tape", None, 0, Cost(kind="not_paid")),
]


@pytest.mark.parametrize(("model_from", "usd", "missing", "cost"), _OLD)
def test_a_log_of_before_there_were_kinds_of_cost_is_read_by_its_model(
    model_from: str, usd: float | None, missing: int, cost: Cost
) -> None:
    run = RunEnded(outcome="completed", reason="done", cost_usd=usd, calls_without_cost=missing)
    message = MessageEnded(id="m", outcome="completed", reason="done", cost_usd=usd, calls_without_cost=missing)
    assert [read_cost(ended, model_from=model_from) for ended in (run, message)] == [cost, cost]
