"""Budgets as they are written: every one that can be read can be written again, and the others are named."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.protocol.budget import UNITS, Budget, Period, format_budget, parse_budget

_NANO = 10**9
_amounts = {
    "usd": st.integers(1, 10**15).map(lambda nano: nano / _NANO),
    "tokens": st.integers(1, 10**12),
    "calls": st.integers(1, 10**9),
    "seconds": st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000),
    "restarts": st.integers(1, 10**6),
}
_periods: list[Period] = ["", "day", "month"]
budgets = st.builds(
    Budget, **{name: st.none() | amount for name, amount in _amounts.items()}, per=st.sampled_from(_periods)
)


@given(budgets.filter(lambda budget: any(getattr(budget, name) is not None for name in _amounts)))
def test_a_budget_that_is_written_reads_the_same(budget: Budget) -> None:
    assert parse_budget(format_budget(budget)) == budget


@given(st.integers(1, 10**9), st.sampled_from([("tok", 1), ("ktok", 10**3), ("mtok", 10**6)]))
def test_tokens_in_thousands_and_millions_are_exact(tokens: int, unit: tuple[str, int]) -> None:
    name, size = unit
    whole, rest = divmod(tokens, size)
    places = len(str(size)) - 1
    written = f"{whole}.{rest:0{places}d}{name}" if places else f"{whole}{name}"
    assert parse_budget(written) == Budget(tokens=tokens)


@given(st.text(max_size=20))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        budget = parse_budget(text)
    except ValueError as error:
        assert str(error).endswith(".")
    else:
        amounts = [getattr(budget, name) for name in _amounts]
        assert any(amounts)
        assert all(amount is None or (amount > 0 and math.isfinite(amount)) for amount in amounts)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2usd", Budget(usd=2.0)),
        ("50 cents", Budget(usd=0.5)),
        (".5USD", Budget(usd=0.5)),
        ("200ktok", Budget(tokens=200_000)),
        ("1.005mtok", Budget(tokens=1_005_000)),
        ("50calls", Budget(calls=50)),
        ("30min", Budget(seconds=1800.0)),
        ("1.5h", Budget(seconds=5400.0)),
        ("3restarts", Budget(restarts=3)),
        ("20usd/day", Budget(usd=20.0, per="day")),
        ("2usd, 50calls", Budget(usd=2.0, calls=50)),
        ("2usd/month,1h/month", Budget(usd=2.0, seconds=3600.0, per="month")),
    ],
)
def test_a_budget_is_read(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a number with a unit."),
        ("usd", "is not a number with a unit."),
        ("2", "is not a number with a unit."),
        ("1e3usd", "is not a number with a unit."),
        ("0usd", "is not a budget: it must be more than 0."),
        ("-1usd", "is not a budget: it must be more than 0."),
        ("0.0000000001usd", "is not a budget: it must be more than 0."),
        ("9999999999999usd", "is not a budget: it must not be more than 1000000000000."),
        ("2eur", f"has the unit 'eur', which is none of {', '.join(UNITS)}."),
        ("2usd/week", "is per 'week', which is neither day nor month."),
        ("1.5calls", "is not a whole number of calls."),
        ("0.1tok", "is not a whole number of tokens."),
        ("2usd,3usd", "says twice how much of usd."),
        ("2usd/day,3calls", "mixes limits with and without a period."),
        ("2usd,", "is not a number with a unit."),
        ("nanusd", "is not a number with a unit."),
    ],
)
def test_what_is_no_budget_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_budget(text)
    assert problem in str(caught.value)
