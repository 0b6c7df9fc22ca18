"""What runs have used and cost, summed by agent, model, run, day or project. What nobody reported is never a zero."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import fsum
from typing import Literal, NamedTuple, get_args

from inspan.protocol.usage import Usage

By = Literal["agent", "model", "run", "day", "project"]
BY: tuple[By, ...] = get_args(By)

_NEWEST_FIRST: tuple[By, ...] = ("run", "day")


class Spending(NamedTuple):
    """One run's part: `usage` and `cost_usd` are `None` where its agent did not report them."""

    run_id: str
    agent: str
    model: str
    project: str
    started_at: float
    usage: Usage | None
    cost_usd: float | None
    scripted: bool


class Sums(NamedTuple):
    """A group of runs. The sums are of those that reported; `None` where none did.

    `scripted_usd` is the part of the cost that was never paid, because a script answered in the model's place.
    """

    name: str
    runs: int
    usage: Usage | None
    usage_unknown: int
    cost_usd: float | None
    cost_unknown: int
    scripted: int
    scripted_usd: float


def groups(spendings: Iterable[Spending], *, by: By) -> list[Sums]:
    """The sums of each group, in the order of their names; days and runs begin with the newest."""
    found: dict[str, list[Spending]] = {}
    name_of = _NAMES[by]
    for spending in spendings:
        found.setdefault(name_of(spending), []).append(spending)
    return [summed(found[name], name=name) for name in sorted(found, reverse=by in _NEWEST_FIRST)]


def summed(spendings: Sequence[Spending], *, name: str = "total") -> Sums:
    """The sums of all these runs together."""
    usages = [spending.usage for spending in spendings if spending.usage is not None]
    costs = [spending.cost_usd for spending in spendings if spending.cost_usd is not None]
    scripted = [spending for spending in spendings if spending.scripted]
    return Sums(
        name=name,
        runs=len(spendings),
        usage=sum(usages, Usage()) if usages else None,
        usage_unknown=len(spendings) - len(usages),
        cost_usd=fsum(costs) if costs else None,
        cost_unknown=len(spendings) - len(costs),
        scripted=len(scripted),
        scripted_usd=fsum(spending.cost_usd or 0.0 for spending in scripted),
    )


def _day(spending: Spending) -> str:
    """The day in UTC, as in the run's id."""
    return f"{datetime.fromtimestamp(spending.started_at, UTC):%Y-%m-%d}"


_NAMES: dict[By, Callable[[Spending], str]] = {
    "agent": lambda spending: spending.agent,
    "model": lambda spending: spending.model or "unknown",
    "run": lambda spending: spending.run_id,
    "day": _day,
    "project": lambda spending: spending.project,
}
