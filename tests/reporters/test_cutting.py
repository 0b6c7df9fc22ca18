"""Room on a terminal: what a text takes, and how it is cut; nothing is cut without `…`."""

import pytest

from inspan.reporters.text import shorten_home
from inspan.reporters.width import cut_middle, cut_to_width, measure_width, pad

COMBINED = "e\u0301"  # An e and an accent that stands on it.


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("日本", 4), ("🚀", 2), (COMBINED, 1), ("a\u200db", 2), ("✔ ok", 4), ("é", 1), ("ｶ", 1)],
)
def test_a_text_takes_the_room_that_a_terminal_gives_it(text: str, width: int) -> None:
    assert measure_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        (f"{COMBINED}{COMBINED}x", 2, f"{COMBINED}…"),
    ],
)
def test_an_end_is_cut_by_columns(text: str, width: int, expected: str) -> None:
    assert cut_to_width(text, width) == expected
    assert measure_width(expected) <= width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("~/projects/shop", 15, "~/projects/shop"),
        ("~/projects/shop", 10, "~/pr…/shop"),
        ("~/projects/shop", 9, "~/pr…shop"),
        ("~/projects/shop", 2, "…p"),
        ("~/projects/shop", 1, "…"),
        ("~/projects/shop", 0, ""),
        ("/日本/日本/日本", 8, "/日…日本"),
    ],
)
def test_of_a_path_the_middle_is_cut(text: str, width: int, expected: str) -> None:
    assert cut_middle(text, width) == expected
    assert measure_width(expected) <= width


def test_a_cell_is_filled_up_by_columns() -> None:
    assert [pad(text, 4) for text in ("ab", "日", "日本語")] == ["ab  ", "日  ", "日本語"]


@pytest.mark.parametrize(
    ("home", "path", "expected"),
    [
        ("/home/ann", "/home/ann/shop", "~/shop"),
        ("/home/ann/", "/home/ann", "~"),
        ("/home/ann", "/home/anna/shop", "/home/anna/shop"),
        ("/", "/srv/shop", "/srv/shop"),
        ("", "/srv/shop", "/srv/shop"),
        ("relative", "relative/shop", "relative/shop"),
        (None, "/srv/shop", "/srv/shop"),
    ],
)
def test_a_path_below_home_is_shown_so(
    monkeypatch: pytest.MonkeyPatch, home: str | None, path: str, expected: str
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert shorten_home(path) == expected
