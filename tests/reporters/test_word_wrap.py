"""Text in pieces on an emulated terminal: broken between words at any width, the same however it came."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.protocol.events import TextDelta, TextSaid
from inspan.reporters.width import measure_width
from inspan.reporters.word_wrap import WordWrap

from .test_live_console import BEGUN, Session
from .test_live_screen import Shown

PROSE = (
    "I'll run the tests first, then read `basket.py` and look for the place where two prices are subtracted instead of "
    "added; the fix should be one line.\n\nNothing else in the module depends on it."
)
each_width = pytest.mark.parametrize("columns", [80, 40, 20])


def wrap(*pieces: str, columns: int, status: bool = False) -> list[str]:
    """The rows of a terminal after these pieces."""
    shown = Shown(columns, rows=12)
    words = WordWrap(shown.screen)
    for number, piece in enumerate(pieces):
        words.write((piece, ""))
        if status:
            shown.now += 1.0
            shown.draw(f"status {number}")
    shown.screen.erase()
    return shown.rows


def expect(text: str, columns: int) -> list[str]:
    """What Python's own wrapping makes of it."""
    return [
        row
        for line in text.split("\n")
        for row in textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""]
    ]


@each_width
def test_prose_is_broken_between_words(columns: int) -> None:
    assert wrap(PROSE, columns=columns) == expect(PROSE, columns)


@each_width
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("status", [False, True])
def test_text_in_pieces_is_broken_as_the_whole_is(columns: int, size: int, status: bool) -> None:
    pieces = [PROSE[place : place + size] for place in range(0, len(PROSE), size)]
    assert wrap(*pieces, columns=columns, status=status) == expect(PROSE, columns)


words = st.text(st.sampled_from("abcé-.,`"), min_size=1, max_size=20)
lines = st.lists(words, min_size=1, max_size=12).map(" ".join)


@given(st.lists(lines, min_size=1, max_size=4).map("\n".join), st.sampled_from([80, 40, 20]), st.data())
def test_any_words_in_any_pieces_are_broken_between_them(text: str, columns: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=10)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert wrap(*pieces, columns=columns, status=data.draw(st.booleans())) == expect(text, columns)


@each_width
def test_a_word_that_is_longer_than_a_row_begins_one_and_goes_on_in_the_next(columns: int) -> None:
    link = "https://example.com/" + "x" * columns
    rows = wrap("see ", link[:15], link[15:], " there", columns=columns)
    assert rows[:2] == ["see", link[:columns]]
    assert rows[2:] == expect(f"{link[columns:]} there", columns)


@each_width
def test_wide_characters_may_be_parted_anywhere_and_none_is_cut(columns: int) -> None:
    text = "テストを実行します。" * 10
    rows = wrap(*text, columns=columns)
    assert "".join("".join(row.split()) for row in rows) == text
    assert {measure_width(row) for row in rows[:-1]} == {columns}


@each_width
def test_words_among_wide_characters_stay_whole(columns: int) -> None:
    text = "関数totalは足し算です " * 8
    rows = wrap(*text, columns=columns)
    assert sum(row.count("total") for row in rows) == 8
    assert all(measure_width(row) <= columns for row in rows)


def test_characters_that_are_joined_stay_together() -> None:
    family = "👩\N{ZERO WIDTH JOINER}💻"
    first, second = wrap("a" * 17 + family, columns=20)
    assert (first, second.replace(" ", "")) == ("a" * 17, "👩💻")  # The emulated screen leaves joiners out.


def test_indentation_is_kept_and_is_no_place_to_break() -> None:
    assert wrap("    " + "x" * 20, columns=20) == ["    " + "x" * 16, "x" * 4]
    assert wrap("  one two three four five", columns=20) == ["  one two three four", "five"]


def test_spaces_at_the_end_of_a_row_are_not_carried_to_the_next() -> None:
    assert wrap("x" * 20, "   ", "y", columns=20) == ["x" * 20, "y"]


def test_a_word_in_several_styles_is_moved_whole() -> None:
    shown = Shown(20, rows=6)
    writing = WordWrap(shown.screen)
    writing.write(("one two three ", ""), ("bol", "bold"), ("d-and-plain", ""))
    assert shown.rows == ["one two three", "bold-and-plain"]
    assert shown.emulated.buffer[1][0].bold
    assert not shown.emulated.buffer[1][3].bold
    assert not shown.emulated.buffer[0][14].bold


def test_after_a_resize_new_text_follows_the_new_width() -> None:
    shown = Shown(40, rows=12)
    writing = WordWrap(shown.screen)
    writing.write(("one two three four five six seven eight ni", ""))
    shown.draw("status")
    shown.size = (20, 12)
    shown.emulated.resize(12, 20)
    shown.now += 1.0
    shown.draw("status")
    writing.write(("ne\n" + "alpha beta gamma delta epsilon", ""))
    shown.screen.erase()
    assert shown.rows[-2:] == ["alpha beta gamma", "delta epsilon"]


@each_width
@pytest.mark.parametrize("colour", [True, False])
def test_code_and_tables_are_left_to_the_terminal(columns: int, colour: bool) -> None:
    code = "def total(first, second): return first + second  # " + "two prices " * 8
    table = "| " + "a cell | " * 12
    text = f"{PROSE}\n```py\n{code}\n```\n{table}\nThen all is well again, as it was in the beginning of this text."
    session = Session(columns=columns, rows=60, colour=colour, status=False).show(*BEGUN)
    for place in range(0, len(text), 5):
        session.show(TextDelta(block="1", text=text[place : place + 5]))
    shown = session.show(TextSaid(text=text)).text
    for verbatim in (code, table):
        cut = [verbatim[place : place + columns].rstrip() for place in range(0, len(verbatim), columns)]
        begin = shown.index(cut[0])
        assert shown[begin : begin + len(cut)] == cut
    assert shown[: len(expect(PROSE, columns))] == expect(PROSE, columns)
    last = expect(text.rpartition("\n")[2], columns)
    assert shown[-len(last) :] == last


@each_width
def test_a_text_that_comes_whole_is_broken_in_the_same_way(columns: int) -> None:
    shown = Session(columns=columns, colour=False, status=False).show(*BEGUN, TextSaid(text=PROSE)).text
    assert shown == expect(PROSE, columns)
