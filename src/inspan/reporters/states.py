"""The states of a run in words and glyphs: one table for whatever shows them. Colour never stands alone."""

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from inspan.protocol.session import SessionStatus

from .text import format_duration, one_line

if TYPE_CHECKING:
    from inspan.folds.live_state import LiveState

# How an ended run is marked, by its outcome; whatever is not here has failed.
_OUTCOME_GLYPHS = {"completed": "✔", "cancelled": "■"}
_SUBJECT_CHARACTERS = 40
NODE_MARKS = {"success": "✔", "failed": "✘", "skipped": "–", "running": "▸", "": "○"}
"""How a node is marked, by its status; one that has not begun has none."""


@cache  # A list of ten thousand runs has few of them.
def format_outcome(outcome: str, reason: str) -> str:
    """An ended run: what came of it, and why where it was not completed."""
    words = outcome if outcome == "completed" else f"{outcome} ({reason})"
    return f"{_OUTCOME_GLYPHS.get(outcome, '✘')} {words}"


def format_live_state(state: "LiveState", *, now: float | None = None) -> str:
    """A living run: what it is doing, and for how long; in one line."""
    glyph, describe = _STATES[state.status]
    return f"{glyph} {describe(state, time.time() if now is None else now)}"


def _describe_starting(state: "LiveState", now: float) -> str:
    return f"starting ({_elapsed(state, now)})"


def _describe_idle(state: "LiveState", now: float) -> str:
    return f"idle ({_elapsed(state, now)})"


def _describe_working(state: "LiveState", now: float) -> str:
    what = _shorten(state.subject or state.tool)
    return f"working: {what} ({_elapsed(state, now)})" if what else f"working ({_elapsed(state, now)})"


def _describe_stuck(state: "LiveState", now: float) -> str:
    what = _shorten(state.subject or state.tool or state.waits_for)
    return f"stuck: {what} ({_elapsed(state, now)})" if what else f"stuck ({_elapsed(state, now)})"


def _describe_waiting(state: "LiveState", now: float) -> str:
    what = _shorten(state.subject)
    return f"needs you: allow {what}?" if state.asks_for == "permission" else f"needs you: {what}"


def _describe_limited(state: "LiveState", now: float) -> str:
    if state.resets_at is None or state.resets_at <= now:
        return f"rate limited ({_elapsed(state, now)})"
    return f"rate limited: lifts in {format_duration(state.resets_at - now)}"


def _describe_error(state: "LiveState", now: float) -> str:
    return f"error: {_shorten(state.error)}"


def _describe_closed(state: "LiveState", now: float) -> str:
    return "closed"


_STATES: dict[SessionStatus, tuple[str, "Callable[[LiveState, float], str]"]] = {
    "starting": ("●", _describe_starting),
    "working": ("●", _describe_working),
    "idle": ("·", _describe_idle),
    "waiting": ("▲", _describe_waiting),
    "rate_limited": ("◷", _describe_limited),
    "stuck": ("▲", _describe_stuck),
    "error": ("✘", _describe_error),
    "closed": ("■", _describe_closed),
}


def _elapsed(state: "LiveState", now: float) -> str:
    return format_duration(now - state.since)


def _shorten(text: str) -> str:
    """The beginning of a text, on one line; where a line of it ends can be seen, for a command goes on there."""
    words = one_line(" ".join(text.strip().replace("\n", " ␊ ").split()))
    return words if len(words) <= _SUBJECT_CHARACTERS else words[: _SUBJECT_CHARACTERS - 1] + "…"
