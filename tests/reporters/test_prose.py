"""Sentences at a terminal: whole words, indented below what they belong to."""

import pytest

from inspan.reporters.prose import wrap_words


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("short", ["short"]),
        ("", [""]),
        ("inspan: there is no run of this name", ["inspan: there is no", "  run of this name"]),
        ("  → Name another one of them.", ["  → Name another one", "    of them."]),
        ("    → Name another one of them.", ["    → Name another", "      one of them."]),
        ("  The budget is used up", ["  The budget is used", "  up"]),
        ("type `inspan show boat` then", ["type", "  `inspan show boat`", "  then"]),
        ("at /a/path/that/is/much/too/long it is", ["at", "  /a/path/that/is/much/too/long", "  it is"]),
        ("漢字漢字漢字 漢字漢字", ["漢字漢字漢字", "  漢字漢字"]),
        ("one ` quote and more words", ["one ` quote and more", "  words"]),
    ],
)
def test_a_line_is_broken_between_words_and_never_within_a_command(line: str, rows: list[str]) -> None:
    assert wrap_words(line, columns=21).split("\n") == rows
