"""One cell of the matrix: what an agent made of a scenario."""

from typing import Literal

import msgspec

Result = Literal["pass", "fail", "cannot"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """`cannot` is what the program itself does not offer; `reason` says why a cell is not a pass."""

    agent: str
    channel: str
    version: str
    scenario: str
    result: Result
    reason: str = ""
    seconds: float = 0.0


class Unmet(Exception):
    """A scenario was not met; the sentence says what was wanted and what came."""


def must(holds: object, sentence: str) -> None:
    """Raises `Unmet` with the sentence where something does not hold."""
    if not holds:
        raise Unmet(sentence)


def same(what: str, got: object, wanted: object) -> None:
    """Raises `Unmet` where two values are not the same."""
    if got != wanted:
        raise Unmet(f"{what}: {_short(got)}, and {_short(wanted)} was wanted")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
