"""A status line below what scrolls, on the screen of an emulated terminal."""

import io

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inspan.reporters.live_screen import LiveScreen
from inspan.reporters.width import character_width


class Emulated(pyte.HistoryScreen):
    """A screen on which a wide character that does not fit at the end of a row goes to the next, as on terminals."""

    def draw(self, data: str) -> None:
        for character in data:
            if character_width(character) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(character)


class Shown:
    """A `LiveScreen` of which every byte is drawn; the clock stands still unless it is moved."""

    def __init__(self, columns: int = 20, rows: int = 6) -> None:
        self.emulated = Emulated(columns, rows, history=1000)
        self.feed = pyte.Stream(self.emulated)
        self._stream = io.StringIO()
        self.size = columns, rows
        self.now = 100.0
        self.screen = LiveScreen(self._stream, colour=True, size=lambda: self.size, clock=lambda: self.now)
        self.bytes = 0

    def flush(self) -> None:
        self.screen.flush()
        text = self._stream.getvalue().replace("\n", "\r\n")  # As the kernel does on a terminal.
        self.bytes += len(text)
        self.feed.feed(text)
        self._stream.seek(0)
        self._stream.truncate()

    def draw(self, status: str) -> None:
        self.screen.draw([(status, "cyan")])
        self.flush()

    @property
    def rows(self) -> list[str]:
        self.flush()
        above = ["".join(row[at].data for at in range(self.size[0])) for row in self.emulated.history.top]
        rows = [row.rstrip() for row in [*above, *self.emulated.display]]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def test_the_status_stands_below_the_text_and_never_in_it() -> None:
    shown = Shown()
    shown.screen.write_line(("one", ""))
    shown.draw("busy")
    assert shown.rows == ["one", "", "busy"]
    shown.screen.write(("two", ""))
    assert shown.rows == ["one", "two", "busy"]
    shown.screen.write((" goes on", ""))
    assert shown.rows == ["one", "two goes on", "busy"]
    shown.screen.write_line(("three", ""))
    assert shown.rows == ["one", "two goes on", "three"]
    shown.draw("busy")
    shown.screen.erase()
    assert shown.rows == ["one", "two goes on", "three"]


def test_at_the_bottom_of_the_screen_the_text_scrolls_and_the_status_stays() -> None:
    shown = Shown(rows=4)
    for number in range(1, 8):
        shown.screen.write_line((f"line {number}", ""))
        shown.draw("busy")
        assert [row.rstrip() for row in shown.emulated.display][-1 if number > 2 else number + 1] == "busy"
    shown.screen.write(("open", ""))
    shown.draw("still busy")
    assert [row.rstrip() for row in shown.emulated.display] == ["line 6", "line 7", "open", "still busy"]
    shown.screen.end_line()
    shown.screen.erase()
    assert shown.rows == [f"line {number}" for number in range(1, 8)] + ["open"]


PIECES = st.lists(
    st.one_of(
        st.text(alphabet="ab 漢\n", min_size=1, max_size=30),
        st.sampled_from(["!draw", "!draw a rather long status that is cut", "!erase", "x" * 20, "y" * 40, "漢" * 10]),
    ),
    max_size=25,
)


@given(PIECES, st.sampled_from([12, 20, 31]), st.sampled_from([3, 5, 40]))
@example(["aaaaa漢漢", "漢" * 10, "x" * 20, "!draw"], 12, 3)
def test_whatever_is_written_the_text_is_what_it_would_be_without_a_status(
    pieces: list[str], columns: int, rows: int
) -> None:
    shown, plain = Shown(columns, rows), Shown(columns, rows)
    for number, piece in enumerate(pieces):
        if piece == "!erase":
            shown.screen.erase()
        elif piece.startswith("!draw"):
            shown.now += 1
            shown.draw(f"{piece[1:]} {number}")
        else:
            shown.screen.write((piece, ""))
            plain.screen.write((piece, ""))
        shown.flush()
    shown.screen.erase()
    assert shown.rows == plain.rows


def test_a_status_is_cut_by_its_width_and_takes_one_row() -> None:
    shown = Shown(columns=12)
    shown.draw("● 漢字漢字漢字漢字")
    assert shown.rows == ["", "● 漢字漢字…"]


def test_a_status_that_stays_the_same_is_not_drawn_again() -> None:
    shown = Shown()
    shown.draw("busy")
    before = shown.bytes
    shown.draw("busy")
    assert shown.bytes == before


def test_a_status_of_which_only_the_glyph_changes_costs_the_glyph() -> None:
    shown = Shown()
    shown.screen.write(("text", ""))
    shown.draw("◐ working · 12s")
    before = shown.bytes
    shown.now += 1.0
    shown.draw("◓ working · 12s")
    assert shown.rows == ["text", "◓ working · 12s"]
    assert shown.bytes - before == len("\x1b7\r\r\n\x1b[36m◓\x1b[0m\x1b8")
    shown.screen.write((" goes on", ""))
    assert shown.rows == ["text goes on", "◓ working · 12s"]


def test_after_a_resize_a_glyph_is_not_all_that_is_drawn() -> None:
    shown = Shown()
    shown.draw("◐ working · 12s")
    shown.size = (12, 6)
    shown.emulated.resize(6, 12)
    shown.now += 1.0
    shown.draw("◓ working · 12s")
    assert shown.rows[-1] == "◓ working …"


def test_draws_keep_their_distance_unless_the_status_was_taken_away() -> None:
    shown = Shown()
    shown.draw("busy")
    assert not shown.screen.may_draw
    shown.now += 0.1
    assert shown.screen.due_s == pytest.approx(0.1)
    shown.now += 0.11
    assert shown.screen.may_draw
    shown.draw("busier")
    shown.screen.erase()
    assert shown.screen.may_draw


def test_after_a_resize_the_old_status_is_gone() -> None:
    shown = Shown(columns=30)
    shown.screen.write(("text", ""))
    shown.draw("a status of twenty-five c")
    shown.size = 15, 6
    shown.emulated.resize(6, 15)
    shown.feed.feed("\x1b7\r\n\nnty-five c\x1b8")  # Most terminals move what does not fit to a row of its own.
    shown.draw("a status of twenty-five c")
    assert shown.rows == ["text", "a status of t…"]


@pytest.mark.parametrize("columns", [9, 5])
def test_a_terminal_that_becomes_too_narrow_keeps_no_old_status(columns: int) -> None:
    shown = Shown(columns=30)
    shown.screen.write(("text", ""))
    shown.draw("busy")
    shown.size = columns, 6
    shown.emulated.resize(6, columns)
    shown.draw("busy")
    assert shown.rows == ["text"]


def test_a_resize_takes_the_status_away_at_once_and_the_last_size_is_drawn_for() -> None:
    shown = Shown(columns=30)
    shown.screen.write(("text", ""))
    shown.draw("busy")
    shown.screen.erase_at_once(lambda data: shown.feed.feed(data.decode()))
    assert shown.rows == ["text"]
    assert shown.screen.lacks_status and not shown.screen.may_draw
    assert shown.screen.due_s == pytest.approx(0.3)
    written: list[bytes] = []
    shown.screen.erase_at_once(written.append)
    assert written == [], "there is nothing below the text, or somebody else's"


def test_a_status_that_is_too_long_for_a_size_not_told_yet_breaks_no_row() -> None:
    shown = Shown(columns=40, rows=4)
    for number in range(6):
        shown.screen.write_line((f"line {number}", ""))
    shown.screen.write(("open", ""))
    shown.flush()
    shown.emulated.resize(4, 12)
    shown.draw("a status of thirty-six columns wide")
    shown.screen.write((" line", ""))
    assert [row.rstrip() for row in (shown.flush(), shown.emulated.display)[1]][:3] == ["line 4", "line 5", "open line"]


def test_a_line_that_was_broken_by_a_narrow_terminal_is_whole_again_on_a_wide_one() -> None:
    shown = Shown(columns=60)
    shown.screen.write(("x" * 50, ""))
    shown.draw("busy")
    for columns, column in ((12, 2), (60, 50)):
        shown.size = columns, 6
        shown.draw("busy")
        assert shown.screen.column == column


def test_a_row_that_is_full_has_no_status_until_the_text_goes_on() -> None:
    shown = Shown(columns=20)
    shown.screen.write(("x" * 20, ""))
    shown.draw("busy")
    assert shown.rows == ["x" * 20]
    shown.screen.write(("y", ""))
    shown.draw("busy")
    assert shown.rows == ["x" * 20, "y", "busy"]


@pytest.mark.parametrize("size", [(80, 2), (9, 24)])
def test_a_terminal_that_is_too_small_has_no_status(size: tuple[int, int]) -> None:
    shown = Shown(*size)
    shown.draw("busy")
    assert shown.rows == []


def test_nothing_that_is_written_is_obeyed_by_the_terminal() -> None:
    shown = Shown()
    shown.screen.write_line(("\x1b[2J\x1b]0;owned\x07\r\x9b1m", ""))
    shown.draw("\x1b[2Jbusy\n")
    assert shown.rows == ["␛[2J␛]0;owned␇␍�1m", "", "␛[2Jbusy␊"]


def test_without_colours_no_text_is_styled() -> None:
    stream = io.StringIO()
    screen = LiveScreen(stream, colour=False, size=lambda: (80, 24))
    screen.write(("bold", "bold"), (" red", "red"))
    screen.flush()
    assert stream.getvalue() == "bold red"
