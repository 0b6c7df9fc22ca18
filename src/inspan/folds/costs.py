"""What was spent, summed in groups. A row is a call that the gateway counted, or a run as its agent told it.

What nobody could tell is counted beside the sums, and is never a zero in them; nor is what was not paid a part of them.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

from inspan.protocol.cost import Cost, build_cost, is_paid_for, sum_costs
from inspan.protocol.events import MessageEnded, RunEnded
from inspan.protocol.spending import NANO_PER_USD, Source, Spending
from inspan.protocol.usage import Usage

from .summary import Summary

By = Literal["agent", "model", "run", "day", "project", "session", "task", "role"]
BY: tuple[By, ...] = get_args(By)
ROLES = ("main", "side", "retry")
SOURCES: tuple[Source, ...] = get_args(Source)

_NEWEST_FIRST: tuple[By, ...] = ("run", "day")
_UNKNOWN = "unknown"


class Subtotal(NamedTuple):
    """Rows together. `usage` is of the rows that state one; `None` where none does. `cost` has apart what was not paid.

    `calls` are those that the gateway counted; the rest are of calls and of runs that are missing in the sums, paid for
    or not. Of `estimated_calls` no usage was stated to its end: for these, budgets count `estimated_usd` and
    `estimated_tokens` more than the sums say.
    """

    runs: int
    calls: int
    usage: Usage | None
    calls_without_usage: int
    runs_without_usage: int
    cost: Cost
    calls_without_cost: int
    runs_without_cost: int
    estimated_calls: int = 0
    estimated_usd: float = 0.0
    estimated_tokens: int = 0


class GroupTotals(NamedTuple):
    """A group: all of it, what each source counted, and each role that the gateway told apart.

    `scripted` is the part that was never paid, because a script or a cassette answered in the model's place.
    """

    name: str
    overall: Subtotal
    sources: dict[Source, Subtotal]
    roles: dict[str, Subtotal]
    scripted: Subtotal


def group_spendings(spendings: Iterable[Spending], *, by: By) -> list[GroupTotals]:
    """The sums of each group, in the order of their names; days and runs begin with the newest."""
    found: dict[str, list[Spending]] = {}
    name_of = _NAMES[by]
    for spending in spendings:
        found.setdefault(name_of(spending), []).append(spending)
    return [sum_spendings(found[name], name=name) for name in sorted(found, reverse=by in _NEWEST_FIRST)]


def sum_spendings(spendings: Sequence[Spending], *, name: str = "total") -> GroupTotals:
    """The sums of all these rows together."""
    return GroupTotals(
        name=name,
        overall=_sum_rows(spendings),
        sources={source: _sum_rows([row for row in spendings if row.source == source]) for source in SOURCES},
        roles={role: _sum_rows([row for row in spendings if row.role == role]) for role in ROLES},
        scripted=_sum_rows([row for row in spendings if row.scripted]),
    )


def read_cost(ended: RunEnded | MessageEnded, *, model_from: str) -> Cost:
    """The cost of a run or a message that has ended, also in a log of before there was a `cost_kind`."""
    if ended.cost_kind == "not_paid":
        return Cost(kind="not_paid", not_paid_usd=ended.not_paid_usd)
    if ended.cost_kind is None and not is_paid_for(model_from):
        return Cost(kind="not_paid", not_paid_usd=ended.cost_usd)
    nano = None if ended.cost_usd is None else round(ended.cost_usd * NANO_PER_USD)
    missing = ended.calls_without_cost
    return build_cost(nano, unknown_calls=missing, unknown_runs=int(nano is None and not missing))


def read_run_cost(summary: Summary) -> Cost:
    """The cost of a run, ended or so far."""
    return read_cost(summary.ended, model_from=summary.model_from) if summary.ended else summary.cost


def _sum_rows(rows: Sequence[Spending]) -> Subtotal:
    usages = [row.usage for row in rows if row.usage is not None]
    calls = [row for row in rows if row.source == "gateway"]
    runs = [row for row in rows if row.source == "agent"]
    more = [extra_charge(row) for row in rows if row.charged_tokens is not None]
    return Subtotal(
        runs=len({row.run_id for row in rows}),
        calls=len(calls),
        usage=_sum_usages(usages) if usages else None,
        # A call that is known to have cost nothing, such as an error, is missing no tokens.
        calls_without_usage=sum(row.usage is None and row.nano != 0 for row in calls),
        runs_without_usage=sum(row.usage is None for row in runs),
        cost=_sum_cost(rows),
        calls_without_cost=sum(row.nano is None for row in calls),
        runs_without_cost=sum(row.nano is None for row in runs),
        estimated_calls=len(more),
        estimated_usd=sum(nano for nano, _ in more) / NANO_PER_USD,
        estimated_tokens=sum(tokens for _, tokens in more),
    )


def _sum_cost(rows: Sequence[Spending]) -> Cost:
    parts = ([row for row in rows if row.scripted is scripted] for scripted in (False, True))
    return sum_costs(_sum_alike(part) for part in parts if part)


def _sum_alike(rows: Sequence[Spending]) -> Cost:
    """The cost of rows that were all paid for, or none of them."""
    known = [row.nano for row in rows if row.nano is not None]
    missing = [row.source for row in rows if row.nano is None]
    return build_cost(
        sum(known) if known else None,
        paid=not rows[0].scripted,
        unknown_calls=missing.count("gateway"),
        unknown_runs=missing.count("agent"),
    )


def extra_charge(row: Spending) -> tuple[int, int]:
    """By how many billionths of a dollar and tokens budgets count more for a call than was stated."""
    stated = row.usage.total if row.usage else 0
    return (row.charged_nano or 0) - (row.nano or 0), (row.charged_tokens or 0) - stated


def _sum_usages(usages: Sequence[Usage]) -> Usage:
    """The sum, field by field: adding value to value takes four times as long, and there may be many calls."""
    return Usage(**{name: sum(map(attrgetter(name), usages)) for name in Usage.__struct_fields__})


def _day_of(spending: Spending) -> str:
    """The day in UTC, as in the run's id."""
    return f"{datetime.fromtimestamp(spending.at, UTC):%Y-%m-%d}"


_NAMES: dict[By, Callable[[Spending], str]] = {
    "agent": lambda spending: spending.agent or _UNKNOWN,
    "model": lambda spending: spending.model or _UNKNOWN,
    "run": lambda spending: spending.run_id,
    "day": _day_of,
    "project": lambda spending: spending.project,
    "session": lambda spending: spending.session or _UNKNOWN,
    "task": lambda spending: f"{spending.project}/{spending.task}",
    "role": lambda spending: spending.role or _UNKNOWN,
}
