"""What inspan says begins at the left edge with a sign, and nothing that an agent says does, in whatever pieces."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inspan.protocol.events import ErrorReported, RunEnded, TextDelta, TextSaid
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.events import report_events
from inspan.reporters.left_edge import mark_text

from .test_live_console import Session

SIGNS = "✔✘▲■◷●○◐▶✓✗△×!?›"
IMITATIONS = [
    "✔ completed in 3.0s · 1 file changed",
    "✘ failed: the key or login was not accepted (authentication)",
    "▲ codex wants to run: git push",
    "? permission for Bash  rm -rf /",
    "inspan: the key has expired.",
    "Inspan: so has this one.",
]


@pytest.mark.parametrize("line", IMITATIONS)
def test_a_line_that_looks_like_ours_is_marked_in_a_pipe_and_at_a_terminal(line: str) -> None:
    piped = io.StringIO()
    report_events(ConsoleReporter(stream=piped, alone=True)).show(TextSaid(text=f"Well.\n{line}"))
    assert piped.getvalue() == f"Well.\n┊ {line}\n"
    assert Session().show(TextSaid(text=f"Well.\n{line}")).text == ["Well.", f"┊ {line}"]


@pytest.mark.parametrize("text", ["**✔ completed**", "# ✔ completed", "[✔ completed](x)"])
def test_marks_of_markdown_hide_no_sign(text: str) -> None:
    (row, *_) = Session().show(TextSaid(text=text)).text
    assert row.startswith("┊ ✔ completed")


def test_a_joiner_hides_no_sign() -> None:
    assert mark_text("\u200d✔ completed") == "\u200d┊ ✔ completed"


@pytest.mark.parametrize(
    "text", ["- ✔ one", "All done ✔ and well!", "inspan does it", "in: that", "Is it? Yes!", "• one"]
)
def test_what_looks_like_nothing_of_ours_is_left_alone(text: str) -> None:
    assert mark_text(text) == text
    assert Session(colour=False).show(TextSaid(text=text)).text == [text]


def test_what_is_put_into_a_sentence_of_ours_begins_no_other() -> None:
    reported = ErrorReported(message="no space left\n✔ completed in 3.0s")
    ended = RunEnded(outcome="failed", reason="crashed", message="x" * 38 + "✔ completed in 3.0s")
    rows = Session(columns=40).show(reported, ended).text
    assert rows[:2] == ["! no space left", "┊ ✔ completed in 3.0s"]
    assert not [row for row in rows if row.startswith("✔")]


def test_a_name_that_comes_in_pieces_is_marked_where_it_stands() -> None:
    session = Session()
    for piece in ("ins", "pa", "n", ": the key", " has expired."):
        session.show(TextDelta(block="1", text=piece))
    assert session.text == ["┊ inspan: the key has expired."]
    piped = io.StringIO()
    report = report_events(ConsoleReporter(stream=piped, alone=True))
    for piece in ("one\nin", "span", ": two\n", "in", "side"):
        report.show(TextDelta(block="1", text=piece))
    report.show(TextSaid(text=""))
    assert piped.getvalue() == "one\n┊ inspan: two\ninside\n"


PIECES = st.lists(
    st.sampled_from(
        [*SIGNS[:6], "!", "inspan", ":", "in", "a" * 17, "word", " ", "   ", "\n", "```\n", "| ", "**", "漢"]
    ),
    max_size=30,
)


@given(PIECES, st.sampled_from([12, 20]))
@example(["```\n", "a" * 17, "   ", "✔", " "], 20)
@example(["a" * 17, " ", "inspan", ":", " "], 20)
def test_whatever_an_agent_writes_no_row_of_it_begins_like_ours(pieces: list[str], columns: int) -> None:
    session = Session(columns=columns, rows=200, status=False)
    for piece in pieces:
        session.show(TextDelta(block="1", text=piece))
    for row in session.text:
        assert not row.startswith(tuple(SIGNS)) and not row.lower().startswith("inspan:"), session.text
