"""The arithmetic of limits, over any amounts."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.protocol.amounts import NO_AMOUNTS, Amounts, check_limits, find_exhausted, format_dollars, period_start
from inspan.protocol.budget import Budget, Period

_count = st.integers(0, 10**12)
amounts = st.builds(Amounts, nano=_count, tokens=_count, calls=_count, seconds=_count.map(float), restarts=_count)
budgets = st.builds(
    Budget,
    usd=st.none() | st.integers(1, 2 * 10**12).map(lambda nano: nano / 10**9),
    tokens=st.none() | st.integers(1, 2 * 10**12),
    calls=st.none() | st.integers(1, 2 * 10**12),
)


def _most(budget: Budget) -> list[tuple[str, int]]:
    in_dollars = [] if budget.usd is None else [("nano", round(budget.usd * 10**9))]
    others = [("tokens", budget.tokens), ("calls", budget.calls)]
    return in_dollars + [(name, most) for name, most in others if most is not None]


@given(budgets, amounts, amounts, amounts)
def test_what_is_let_through_exceeds_no_limit_and_what_is_denied_would(
    budget: Budget, spent: Amounts, reserved: Amounts, asked: Amounts
) -> None:
    denial = check_limits("run", "r", budget, spent=spent, reserved=reserved, asked=asked)
    over = [
        name
        for name, most in _most(budget)
        if getattr(asked, name) and getattr(spent, name) + getattr(reserved, name) + getattr(asked, name) > most
    ]
    assert (denial is not None) == bool(over)
    if denial:
        assert ("nano" if denial.limit == "usd" else denial.limit) == over[0]
        assert denial.may_pass == (denial.spent + denial.asked <= denial.most)


@given(budgets, amounts)
def test_what_is_used_up_leaves_no_room_for_the_smallest_call(budget: Budget, spent: Amounts) -> None:
    denial = find_exhausted("run", "r", budget, spent=spent)
    smallest = Amounts(nano=1, tokens=1, calls=1)
    assert (denial is None) == (check_limits("run", "r", budget, spent=spent, asked=smallest) is None)


@given(amounts, amounts)
def test_nothing_is_denied_without_a_limit(spent: Amounts, asked: Amounts) -> None:
    assert check_limits("run", "r", Budget(), spent=spent, asked=asked) is None
    assert find_exhausted("run", "r", Budget(), spent=spent) is None


@given(amounts, amounts)
def test_amounts_add_up(one: Amounts, other: Amounts) -> None:
    assert one.add(other) == other.add(one)
    assert one.add(NO_AMOUNTS) == one
    assert sum(one.add(other)) == sum(one) + sum(other)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)))
def test_periods_begin_at_midnight_utc(at: datetime) -> None:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    found = {per: period_start(per, at.timestamp()) for per in _PERIODS}
    assert found == {"": 0.0, "day": midnight.timestamp(), "month": midnight.replace(day=1).timestamp()}


_PERIODS: tuple[Period, ...] = ("", "day", "month")


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "$0.00"),
        (2 * 10**9, "$2.00"),
        (1_500_000_000, "$1.50"),
        (1_234_567, "$0.0012"),
        (10**15, "$1000000.00"),
        (99_999, "$0.000099999"),
        (3, "$0.000000003"),
    ],
)
def test_dollars_are_shown_as_people_read_them(nano: int, text: str) -> None:
    assert format_dollars(nano) == text
