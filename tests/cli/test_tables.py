"""Tables that fit: what is dropped, what is cut, and in which order; off a terminal, nothing is."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from inspan.cli.commands.ps import _COLUMNS as PS_COLUMNS  # pyright: ignore[reportPrivateUsage]  the table to try
from inspan.cli.output import Column, format_columns, format_table
from inspan.reporters.width import measure_width
from tests.cli_env import CliEnv

from .scenarios import SAYS_HELLO

ROWS = [
    (
        "k3fb",
        "● working: pytest -q (12.0s)",
        "codex",
        "~/projects/basket",
        "12.3s",
        "31000",
        "$0.0312",
        "1m02s",
        "Fix it",
    ),
    (
        "fix-login",
        "✔ completed",
        "claude",
        "~/shop",
        "4m02s",
        "5",
        "-",
        "2h10m",
        "日本語のプロンプトを直してください 🚀 please",
    ),
]


def show(width: int | None, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    return format_table(PS_COLUMNS, rows, width=width).splitlines()


def test_nothing_is_cut_where_there_is_no_terminal() -> None:
    head, *lines = show(None)
    assert head.split() == [column.head for column in PS_COLUMNS]
    for line, row in zip(lines, ROWS, strict=True):
        assert [cell for cell in row if cell not in line] == []
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("width", range(20, 200))
def test_no_line_is_wider_than_the_terminal_and_what_is_cut_says_so(width: int) -> None:
    for line in show(width):
        assert measure_width(line) <= width
    for line, row in zip(show(width)[1:], ROWS, strict=False) if width >= 60 else ():
        assert line.startswith(row[0])
        assert row[1] in line or "…" in line


@pytest.mark.parametrize(
    ("width", "dropped"),
    [
        (200, set[str]()),
        (120, {"TOKENS", "AGE"}),
        (80, {"TOKENS", "AGE"}),
        (70, {"TOKENS", "AGE", "COST"}),
        (60, {"TOKENS", "AGE", "COST", "TIME"}),
    ],
)
def test_columns_are_dropped_in_the_stated_order(width: int, dropped: set[str]) -> None:
    assert {column.head for column in PS_COLUMNS} - set(show(width)[0].split()) == dropped


def test_the_prompt_is_cut_before_the_folder_and_the_folder_before_the_state() -> None:
    columns = (
        Column("STATE", cut="end", least=4),
        Column("FOLDER", cut="middle", least=6),
        Column("PROMPT", cut="end", least=6),
    )
    rows = [("s" * 20, "f" * 30, "p" * 30)]
    widths = [format_table(columns, rows, width=width).splitlines()[1].split() for width in (80, 62, 60)]
    assert [[len(cell) for cell in line] for line in widths] == [[20, 30, 26], [20, 30, 8], [20, 30, 6]]
    short = [tuple("x" * 40 for _ in columns)]
    assert [len(cell) for cell in format_table(columns, short, width=60).splitlines()[1].split()] == [40, 10, 6]


def test_on_a_narrow_terminal_an_entry_has_two_lines() -> None:
    head, *lines = show(40)
    assert head == "RUN  STATE"
    assert lines[0] == "k3fb  ● working: pytest -q (12.0s)"
    assert lines[1] == "  codex · ~/proj…basket · 12.3s · Fix it"
    assert lines[2] == "fix-login  ✔ completed"
    assert lines[3:] == ["  claude · ~/shop · 4m02s · 日本語のプ…"]


def test_a_number_has_its_head_before_it_where_there_is_no_table() -> None:
    columns = (Column("AGENT", lead=True), Column("CALLS", drop=1, named=True), Column("COST", named=True))
    assert format_table(columns, [("codex", "3", "-")], width=40) == "AGENT\ncodex\n  calls 3"
    assert format_table(columns, [("codex", "3", "$0.12")], width=16) == "AGENT\ncodex\n  cost $0.12"


def test_a_name_that_is_too_long_for_any_terminal_is_cut_at_last() -> None:
    lines = format_table((Column("RUN", lead=True), Column("STATE")), [("n" * 90, "ok")], width=60).splitlines()
    assert lines[1] == "n" * 59 + "…"


@pytest.mark.parametrize("width", [None, 80, 40])
def test_what_a_cell_holds_is_not_obeyed(width: int | None) -> None:
    shown = format_table((Column("RUN", lead=True), Column("PROMPT")), [("k3fb", "a\n\x1b[31mb\tc")], width=width)
    assert "a␊␛[31mb␉c" in shown


def test_wide_characters_leave_columns_straight() -> None:
    text = format_columns(("A", "B", "C"), [("日本", "x", "1"), ("a", "yy", "2")])
    assert text.splitlines() == ["A     B   C", "日本  x   1", "a     yy  2"]


def test_an_empty_table_has_its_head() -> None:
    assert [show(width, []) for width in (80, 40)] == [
        ["RUN  STATE  AGENT  FOLDER  TIME  TOKENS  COST  AGE  PROMPT"],
        ["RUN  STATE"],
    ]


def show_in_pty(cli_env: CliEnv, *arguments: str, columns: int) -> str:
    """What a command prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        cli_env.argv(*arguments), env=cli_env.env, cwd=cli_env.work, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 65536):
            printed += piece
    except OSError:
        pass  # So ends a terminal whose last writer has left.
    finally:
        os.close(ours)
    assert process.wait(timeout=120) == 0, printed
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("command", ["ps -a", "agents", "cost", "cost --by project", "budget", "approvals"])
def test_the_tables_of_the_commands_fit(readonly_env: CliEnv, command: str, columns: int) -> None:
    table = show_in_pty(readonly_env, *command.split(), columns=columns).split("default:")[0]
    assert table
    assert [line for line in table.splitlines() if measure_width(line) > columns] == []


def test_a_run_is_listed_on_a_terminal_of_any_width(cli_env: CliEnv) -> None:
    prompt = "make a very long sentence that no terminal of eighty columns could ever show beside all else"
    model = cli_env.scenario(SAYS_HELLO)
    assert (
        cli_env.inspan("run", prompt, "-q", "-a", "scripted", "--model-from", model, "--name", "long").returncode == 0
    )
    wide = show_in_pty(cli_env, "ps", "-a", columns=80)
    assert [line.split()[0] for line in wide.splitlines()] == ["RUN", "long"]
    assert "make a" in wide and "…" in wide and "TOKENS" not in wide
    whole = show_in_pty(cli_env, "ps", "-a", "--wide", columns=80)
    assert prompt[:80] in whole and "TOKENS" in whole and str(cli_env.work) in whole
    head, first, second = show_in_pty(cli_env, "ps", "-a", columns=40).splitlines()
    assert (head, first) == ("RUN  STATE", "long  ✔ completed")
    assert second.startswith("  scripted · ") and second.endswith("…")
    pruned = show_in_pty(cli_env, "prune", "--older-than", "0d", "--dry-run", columns=60).splitlines()
    assert pruned[0].split()[:2] == ["WHAT", "NAME"] and pruned[1].startswith("run ")
    assert [line for line in pruned[:3] if measure_width(line) > 60] == []


def test_a_folder_below_home_is_shown_from_there(cli_env: CliEnv) -> None:
    place = cli_env.root / "home" / "shop"
    place.mkdir()
    model = cli_env.scenario(SAYS_HELLO)
    cli_env.inspan("run", "do it", "-q", "-a", "scripted", "--model-from", model, cwd=place)
    assert " ~/shop " in cli_env.inspan("ps", "-a", cwd=place).stdout
