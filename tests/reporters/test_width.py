"""How wide a text is on a terminal, and where it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.reporters.width import advance_column, cut_to_width, measure_width


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("plain", 5), ("漢字", 4), ("é", 1), ("e\u0301", 1), ("👍", 2), ("a\u200db", 2), ("·●…", 3)],
)
def test_a_text_is_as_wide_as_a_terminal_draws_it(text: str, width: int) -> None:
    assert measure_width(text) == width


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("fits", 4, "fits"),
        ("too long", 4, "too…"),
        ("漢字漢", 6, "漢字漢"),
        ("漢字漢", 5, "漢字…"),
        ("漢字漢", 4, "漢…"),
        ("漢字", 1, "…"),
        ("anything", 0, ""),
    ],
)
def test_what_does_not_fit_is_cut_with_an_ellipsis(text: str, columns: int, cut: str) -> None:
    assert cut_to_width(text, columns) == cut


@given(st.text(alphabet="ab漢👍e\u0301", max_size=30), st.integers(0, 20))
def test_no_cut_is_wider_than_it_may_be(text: str, columns: int) -> None:
    cut = cut_to_width(text, columns)
    assert measure_width(cut) <= columns
    assert cut == text or measure_width(text) > columns


@pytest.mark.parametrize(
    ("column", "text", "after"),
    [
        (0, "", 0),
        (0, "12345", 5),
        (0, "1234567890", 10),
        (0, "12345678901", 1),
        (9, "漢", 2),
        (8, "漢", 10),
        (3, "é", 4),
    ],
)
def test_the_cursor_goes_on_in_the_next_row(column: int, text: str, after: int) -> None:
    assert advance_column(column, text, 10) == after
