"""What may be spent, and how it is written: `2usd`, `200ktok`, `50calls`, `30min`, `3restarts`, `20usd/day`."""

import re
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from .known_types import know_type

Node = Literal["project", "task", "run"]
Period = Literal["", "day", "month"]
NODES: tuple[Node, ...] = get_args(Node)

_LIMIT_PATTERN = re.compile(r"(?P<number>[-+]?\d*\.?\d+)\s*(?P<unit>[a-z$]+)(?:/(?P<per>[a-z]+))?", re.IGNORECASE)
# Unit → the field it fills, and how many of that field's own unit it is.
_UNITS: dict[str, tuple[str, float]] = {
    "usd": ("usd", 1),
    "cents": ("usd", 0.01),
    "tok": ("tokens", 1),
    "ktok": ("tokens", 1_000),
    "mtok": ("tokens", 1_000_000),
    "call": ("calls", 1),
    "calls": ("calls", 1),
    "s": ("seconds", 1),
    "min": ("seconds", 60),
    "h": ("seconds", 3600),
    "restart": ("restarts", 1),
    "restarts": ("restarts", 1),
}
UNITS = tuple(_UNITS)
_MAX_AMOUNT = 1e12
BUDGET_HINT = "For example 2usd, 200ktok, 50calls, 30min, 3restarts, task=5usd or project=20usd/day."


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The most that one node of the tree may spend; `None` is no limit.

    `per` begins anew each UTC day or month; without it, spending counts for ever. `restarts` are the runs of a task
    after its first.
    """

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None
    restarts: int | None = None
    per: Period = ""


def parse_budget(text: str) -> Budget:
    """Reads one or several limits with commas between them; raises `ValueError` with what is wrong."""
    limits: dict[str, float | int] = {}
    periods: set[str] = set()
    for part in text.split(","):
        field, number, per = _parse_limit(part.strip())
        if field in limits:
            raise ValueError(f"says twice how much of {field}.")
        limits[field] = number
        periods.add(per)
    if len(periods) > 1:
        raise ValueError("mixes limits with and without a period.")
    return msgspec.convert({**limits, "per": periods.pop()}, know_type(Budget))


def parse_budgets(texts: Iterable[str]) -> "dict[Node, Budget]":
    """Reads `2usd`, which is the run's, and `project=20usd/day`; raises `ValueError` with what is wrong."""
    written: dict[Node, str] = {}
    for text in texts:
        name, _, limits = text.rpartition("=")
        node = name.strip() or "run"
        if node not in NODES:
            raise ValueError(f"names {node!r}, which is none of {', '.join(NODES)}.")
        written[node] = f"{written[node]},{limits}" if node in written else limits
    return {node: parse_budget(limits) for node, limits in written.items()}


def format_budget(budget: Budget) -> str:
    """The budget as it is written, in its smallest units."""
    per = f"/{budget.per}" if budget.per else ""
    units = {"usd": "usd", "tokens": "tok", "calls": "calls", "seconds": "s", "restarts": "restarts"}
    given = {unit: getattr(budget, field) for field, unit in units.items()}
    return ",".join(f"{_format_number(number)}{unit}{per}" for unit, number in given.items() if number is not None)


def _format_number(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _parse_limit(text: str) -> tuple[str, float | int, str]:
    match = _LIMIT_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError("is not a number with a unit.")
    unit, per = match["unit"].lower(), (match["per"] or "").lower()
    if unit not in _UNITS:
        raise ValueError(f"has the unit {match['unit']!r}, which is none of {', '.join(UNITS)}.")
    if per not in get_args(Period):
        raise ValueError(f"is per {match['per']!r}, which is neither day nor month.")
    field, size = _UNITS[unit]
    # Rounded to billionths, the smallest part of a dollar that is counted: 1.005mtok must not miss by a bit.
    number = round(float(match["number"]) * size, 9 if size <= 1 else 3)
    if number <= 0:
        raise ValueError("is not a budget: it must be more than 0.")
    if number > _MAX_AMOUNT:
        raise ValueError(f"is not a budget: it must not be more than {_MAX_AMOUNT:.0f}.")
    if field in ("usd", "seconds"):
        return field, number, per
    if number != int(number):
        raise ValueError(f"is not a whole number of {field}.")
    return field, int(number), per
