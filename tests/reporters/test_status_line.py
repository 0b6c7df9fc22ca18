"""The words of the status line: what a run does, what it has used, which limit is near."""

import msgspec
import pytest

from inspan.folds.live_state import LiveState
from inspan.protocol.session import SessionStatus
from inspan.reporters.status_line import RunFigures, format_status

NOW = 1000.0
WORKING = LiveState(status="working", tool="bash", subject="pytest -q", since=NOW - 12)
FIGURES = RunFigures(began_at=NOW - 64, tokens=31_000, cost_usd=0.021, calls=3)


def show(state: LiveState, figures: RunFigures = FIGURES, *, columns: int = 80, ending: bool = False) -> str:
    spans = format_status(state, figures, now=NOW, columns=columns, cwd="/w", ending=ending)
    return "".join(text for text, _ in spans)


@pytest.mark.parametrize(
    ("state", "head"),
    [
        (LiveState(status="starting"), "● starting"),
        (WORKING, "● working · pytest -q (12s)"),
        (LiveState(status="working", tool="Edit", subject="/w/a.py", since=NOW), "● working · a.py (0s)"),
        (
            LiveState(status="working", tool="shell", subject="/bin/bash -lc 'ls -l'", since=NOW),
            "● working · ls -l (0s)",
        ),
        (LiveState(status="working"), "● working"),
        (LiveState(status="working", waits_for="model", heard_at=NOW - 4), "○ waiting for the model (4s)"),
        (LiveState(status="waiting", subject="git push", asks_for="permission"), "▲ needs you: allow git push?"),
        (LiveState(status="waiting", subject="Which?", asks_for="answer"), "▲ needs you: Which?"),
        (LiveState(status="rate_limited", resets_at=NOW + 845), "◷ limit lifts in 14:05"),
        (LiveState(status="rate_limited"), "◷ rate limited"),
        (LiveState(status="idle"), "· idle"),
    ],
)
def test_each_state_has_its_glyph_and_words(state: LiveState, head: str) -> None:
    assert show(state) == f"{head} · 1m04s · 31k tokens · $0.02 · Ctrl-C stops"


def test_a_run_that_is_ending_says_how_to_end_it_at_once() -> None:
    assert show(WORKING, ending=True) == "■ ending · 1m04s · 31k tokens · $0.02 · Ctrl-C again kills"


@pytest.mark.parametrize(("timeout_s", "words"), [(64 + 61, ""), (64 + 58, "ends in 0:58"), (60, "ends in 0:00")])
def test_the_last_minute_of_a_run_is_told(timeout_s: float, words: str) -> None:
    shown = show(LiveState(status="working"), FIGURES._replace(ends_at=FIGURES.began_at + timeout_s))
    assert ("ends in" in shown) is bool(words)
    assert words in shown


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"budget_usd": 0.025}, "budget 84%"),
        ({"budget_usd": 0.03}, ""),
        ({"budget_tokens": 31_000, "budget_usd": 0.025}, "budget 100%"),
        ({"budget_calls": 2}, "budget 100%"),
    ],
)
def test_a_budget_is_told_when_it_is_nearly_spent(limits: dict[str, float], words: str) -> None:
    shown = show(WORKING, FIGURES._replace(**limits))
    assert ("budget" in shown) is bool(words)
    assert words in shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, "● working · pytest -q (12s) · 1m04s · 31k tokens · $0.02"),
        (40, "● working · pytest -q (12s) · 1m04s"),
        (30, "● working · pytest -q (12s)"),
    ],
)
def test_what_does_not_fit_is_left_out_whole(columns: int, shown: str) -> None:
    assert show(WORKING, columns=columns) == shown


def test_a_long_subject_leaves_room_for_the_rest() -> None:
    state = LiveState(status="working", subject="x" * 100, since=NOW)
    assert show(state).endswith("x… (0s) · 1m04s · 31k tokens · $0.02 · Ctrl-C stops")
    assert show(state, columns=70).endswith("x… (0s) · 1m04s · 31k tokens · $0.02")
    assert show(state, columns=100).endswith("x… (0s) · 1m04s · 31k tokens · $0.02 · Ctrl-C stops")


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            120,
            "● working · pytest -q (12s) · 1m04s · tests/test_basket.py ....... [ 42%]"
            " · 31k tokens · $0.02 · Ctrl-C stops",
        ),
        (80, "● working · pytest -q (12s) · 1m04s · tests/test_basket.py ..… · 31k tokens"),
        (60, "● working · pytest -q (12s) · 1m04s · tests/test_basket.py…"),
        (40, "● working · pytest -q (12s) · 1m04s"),
    ],
)
def test_the_end_of_what_a_tool_puts_out_stands_behind_the_clock(columns: int, shown: str) -> None:
    state = msgspec.structs.replace(WORKING, output="tests/test_basket.py ....... [ 42%]")
    assert show(state, columns=columns) == shown


def test_a_short_output_takes_no_more_than_it_needs() -> None:
    state = msgspec.structs.replace(WORKING, output="12 %")
    assert show(state) == "● working · pytest -q (12s) · 1m04s · 12 % · 31k tokens · $0.02 · Ctrl-C stops"


@pytest.mark.parametrize("status", ["waiting", "rate_limited"])
def test_a_tool_that_is_not_at_work_shows_no_output(status: SessionStatus) -> None:
    assert "12 %" not in show(LiveState(status=status, subject="a", output="12 %"))


def test_only_the_glyph_of_a_run_that_works_turns() -> None:
    def glyphs(state: LiveState) -> list[str]:
        turns = [format_status(state, FIGURES, now=NOW, columns=80, turn=turn) for turn in range(5)]
        assert len({spans[0][0][1:] for spans in turns}) == 1
        return [spans[0][0][0] for spans in turns]

    assert glyphs(WORKING) == glyphs(LiveState(status="starting")) == list("◐◓◑◒◐")
    assert set(glyphs(LiveState(status="working", waits_for="model"))) == {"○"}
    assert set(glyphs(LiveState(status="waiting", subject="a", asks_for="permission"))) == {"▲"}
