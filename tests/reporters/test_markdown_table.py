"""Tables at a terminal: in columns that fit it, whatever its width, and never moved once they are shown."""

import pytest

from inspan.protocol.events import TextDelta, TextSaid

from .test_live_console import Session

TABLE = """\
Results:

| File | Result | Why |
|:-----|-------:|:---:|
| `basket.py` | ✔ 12 | all of them pass |
| shop\\|cart.py | 3 | the total is subtracted where it should be added, and nobody noticed |
| 漢字.py | | - |

Well.
"""


def show(text: str, *, columns: int = 80, colour: bool = True) -> list[str]:
    return Session(columns=columns, colour=colour).show(TextSaid(text=text)).text


@pytest.mark.parametrize("colour", [True, False])
def test_columns_are_aligned_as_the_table_says_and_cells_are_wrapped(colour: bool) -> None:
    name = "`basket.py`"
    assert show(TABLE, colour=colour) == [
        "Results:",
        "",
        f"  {'File':<12}  {'Result':>6}  {'Why':^55}".rstrip(),
        f"  {'─' * 12}  {'─' * 6}  {'─' * 55}",
        f"  {name:<12}  {'✔ 12':>6}  {'all of them pass':^55}".rstrip(),
        f"  {'shop|cart.py':<12}  {'3':>6}  {'the total is subtracted where it should be added, and':^55}".rstrip(),
        f"{'':24}{'nobody noticed':^55}".rstrip(),
        f"  漢字.py       {'':>6}  {'-':^55}".rstrip(),
        "",
        "Well.",
    ]


def test_at_forty_columns_a_table_of_three_still_has_columns() -> None:
    assert show(TABLE, columns=40)[2:6] == [
        f"  File          Result  {'Why':^15}".rstrip(),
        f"  {'─' * 12}  {'─' * 6}  {'─' * 15}",
        f"  `basket.py`     ✔ 12  {'all of them':^15}".rstrip(),
        f"{'':24}{'pass':^15}".rstrip(),
    ]


def test_where_columns_would_be_too_narrow_each_row_is_a_list() -> None:
    wide = (
        "| Name | Owner | Reason | Next |\n|-|-|-|-|\n"
        + "| basket_test.py | somebody else | too slow to wait for | later |\n"
    )
    assert show(wide, columns=40) == [
        "  Name: basket_test.py",
        "  Owner: somebody else",
        "  Reason: too slow to wait for",
        "  Next: later",
    ]
    assert show(wide, columns=20)[2:5] == ["  Owner: somebody", "    else", "  Reason: too"]


@pytest.mark.parametrize("columns", [80, 40, 20, 10, 5])
def test_no_row_is_wider_than_the_terminal_and_no_word_is_lost(columns: int) -> None:
    session = Session(columns=columns, rows=200).show(TextSaid(text=TABLE))
    rows = session.text
    assert all(len(row) <= columns for row in rows)
    shown = "".join("".join(rows).split())
    for word in ("basket.py", "shop|cart.py", "noticed"):
        assert word in shown
    assert rows[-1] == "Well."


def test_what_is_shown_of_a_table_that_streams_never_changes() -> None:
    rows = "".join(f"| row {number} | {'x' * (number % 40)} |\n" for number in range(100))
    session = Session(rows=150, status=False)
    before: list[str] = []
    for start in range(0, len(rows), 61):
        session.show(
            TextDelta(block="1", text=("| a | b |\n|---|---|\n" if not start else "") + rows[start : start + 61])
        )
        assert session.rows[: len(before)] == before
        before = session.rows
    assert before[:1] == ["  a       b"], "a long table is shown before it ends"
    last = session.text[-1]
    assert last.startswith("  row 99  ")
    assert len(session.text) > 100


def test_pipes_in_code_and_lines_that_only_begin_like_a_row_are_left_alone() -> None:
    code = "```\n| a | b |\n|---|---|\n```"
    assert show(code) == code.split("\n")
    assert show("| alone") == ["| alone"]
    assert show("|| true\nand so on") == ["|| true", "and so on"]
