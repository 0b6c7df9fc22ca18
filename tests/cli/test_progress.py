"""The line that long work shows at a terminal: there while it works, gone afterwards, and nowhere else."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from inspan.cli.progress import Progress
from tests.cli_env import CliEnv

from .scenarios import SAYS_HELLO

_MOVES = re.compile(r"[\d.]+ [KMGT]?B free|\b[\d.hms]+s\b")
ERASE = "\r\x1b[K"


class _Screen(io.StringIO):
    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    yield


def test_a_line_is_shown_and_erased() -> None:
    screen = _Screen()
    with Progress("reading logs", stream=screen) as progress:
        progress.show("3 runs", "")
        shown = screen.getvalue()
        assert shown.startswith(f"{ERASE}● reading logs · 3 runs · ")
    assert screen.getvalue() == shown + ERASE
    progress.clear()
    assert screen.getvalue() == shown + ERASE


@pytest.mark.parametrize(
    ("variables", "terminal"),
    [({"TERM": "dumb"}, True), ({"TERM": ""}, True), ({"CI": "true"}, True), ({}, False)],
    ids=["dumb", "no TERM", "CI", "pipe"],
)
def test_nothing_is_shown_where_nobody_looks(
    variables: dict[str, str], terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    screen = _Screen(terminal=terminal)
    with Progress("work", stream=screen) as progress:
        progress.show("x")
        progress.show_count(1, 2)
    assert screen.getvalue() == ""


def test_the_line_is_erased_whatever_ends_the_work() -> None:
    screen = _Screen()
    with pytest.raises(KeyboardInterrupt), Progress("work", stream=screen) as progress:
        progress.show("x")
        raise KeyboardInterrupt
    assert screen.getvalue().endswith(ERASE)


def test_facts_that_follow_each_other_at_once_are_left_out() -> None:
    screen = _Screen()
    with Progress("work", stream=screen) as progress:
        for number in range(10_000):
            progress.show_count(number, 10_000)
    assert screen.getvalue().count("work") < 5_000
    assert "● work · 0 of 10000 · " in screen.getvalue()


def test_what_is_shown_stays_one_line_that_moves_no_cursor() -> None:
    screen = _Screen()
    with Progress("work", stream=screen) as progress:
        progress.show("a\nb\x1b[2Jc", "x" * 500)
        line = screen.getvalue().removeprefix(ERASE)
    assert (len(line), line[-8:]) == (79, "… · 0.0s")
    assert line.isprintable()


@pytest.mark.parametrize("columns", [1, 2, 20, 40])
def test_the_line_fits_the_terminal(columns: int) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    _set_columns(theirs, columns)
    with open(theirs, "w", encoding="utf-8") as stream, Progress("installing pi", stream=stream) as progress:
        progress.show_install("@some/long-package@1.2.3", 12_345_678)
        line = os.read(ours, 4096).decode().removeprefix(ERASE)
        assert len(line) <= max(2, columns - 1)
    os.close(ours)


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (60, "● installing pi · @some/long-package@1.2.3 · 12.3 MB · 0.0s"),
        (40, "● installing pi · @so… · 12.3 MB · 0.0s"),
        (20, "●… · 12.3 MB · 0.0s"),
    ],
)
def test_figures_outrank_names_where_the_terminal_is_narrow(columns: int, line: str) -> None:
    assert _show_install(columns) == line


def _show_install(columns: int) -> str:
    ours, theirs = pty.openpty()
    _set_columns(theirs, columns)
    with open(theirs, "w", encoding="utf-8") as stream, Progress("installing pi", stream=stream) as progress:
        progress.show_install("@some/long-package@1.2.3", 12_345_678)
        line = os.read(ours, 4096).decode().removeprefix(ERASE)
    os.close(ours)
    return re.sub(r"[\d.]+s$", "0.0s", line)


def _set_columns(fd: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


@pytest.mark.parametrize(
    "command", [("doctor", "scripted"), ("reindex",), ("prune", "--older-than", "0d", "--dry-run")], ids=" ".join
)
def test_a_command_shows_its_progress_at_a_terminal_and_leaves_no_trace_of_it(
    cli_env: CliEnv, command: tuple[str, ...]
) -> None:
    cli_env.run("scripted", SAYS_HELLO)
    plain = cli_env.inspan(*command, env={"TERM": "xterm"})
    assert ERASE not in plain.stderr
    stdout, shown = _run_with_terminal_as_stderr(cli_env, *command)
    # Others write to the same disk meanwhile, and time goes on.
    assert _MOVES.sub("", stdout).split() == _MOVES.sub("", plain.stdout).split()
    assert "● " in shown
    assert shown.endswith(ERASE)
    assert shown.rpartition(ERASE)[0].count("\n") == 0


def _run_with_terminal_as_stderr(cli_env: CliEnv, *command: str) -> tuple[str, str]:
    ours, theirs = pty.openpty()
    env = {**cli_env.env, "TERM": "xterm"}
    done = subprocess.run(
        cli_env.argv(*command), env=env, cwd=cli_env.work, stdout=subprocess.PIPE, stderr=theirs, text=True, check=False
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # All of it was read.
    os.close(ours)
    return done.stdout, shown.decode()


def test_the_usual_stream_is_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("work") as progress:
        progress.show()
    assert "● work · " in screen.getvalue()
