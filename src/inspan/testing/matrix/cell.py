"""One cell of the matrix: what an agent made of a scenario."""

from typing import Literal

import msgspec

Result = Literal["pass", "fail", "cannot", "asked"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """`cannot` is what the program itself does not offer, `asked` what it is only told to do and need not.

    `reason` says why a cell is not a pass, `note` what a pass rests on where that is not plain, and `skipped` names
    every step of its scripts that was left out, and why.
    """

    agent: str
    channel: str
    version: str
    scenario: str
    result: Result
    reason: str = ""
    seconds: float = 0.0
    note: str = ""
    skipped: list[str] = []


class ScenarioFailed(Exception):
    """A scenario was not met; the sentence says what was wanted and what came."""


class CannotDo(Exception):
    """What a scenario asks for is not offered, as the driver's own data say; the sentence says what."""


class NotEnforced(Exception):
    """An agent did what it was only told not to do; the sentence says what."""


def require(holds: object, sentence: str) -> None:
    """Raises `ScenarioFailed` with the sentence where something does not hold."""
    if not holds:
        raise ScenarioFailed(sentence)


def require_equal(what: str, got: object, wanted: object) -> None:
    """Raises `ScenarioFailed` where two values are not the same."""
    if got != wanted:
        raise ScenarioFailed(f"{what}: {_shorten(got)}, and {_shorten(wanted)} was wanted")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
