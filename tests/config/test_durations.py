"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "length"),
    [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("10m", 600.0), ("1h", 3600.0), ("0", 0.0), ("off", None)],
)
def test_a_duration_is_read_as_seconds(text: str, length: float | None) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "soon", "-5", "1d", "nan", "inf", "1e3", "5 m", "5m ", "٣", "9" * 400, "OFF"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("length", "text"),
    [(600.0, "10m"), (3600.0, "1h"), (90.0, "90s"), (0.25, "0.25s"), (5400.0, "90m"), (0.0, "0s"), (None, "off")],
)
def test_seconds_are_spelled_as_a_person_would(length: float | None, text: str) -> None:
    assert format_duration(length) == text


@given(st.integers(min_value=0, max_value=10**12).map(lambda thousandths: thousandths / 1000))
def test_what_is_spelled_is_read_back(length: float) -> None:
    assert parse_duration(format_duration(length)) == pytest.approx(length)
