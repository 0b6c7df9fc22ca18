"""What cells say of agents: how many passed, at which cost, and how sure that is. Nothing here does I/O."""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import msgspec

from inspan.protocol.cost import Cost, sum_costs
from inspan.protocol.usage import Usage

from .values import CellResult

_Z = 1.959964  # 95 % of a normal distribution lie within so many deviations.
# Student's t for 95 %, by degrees of freedom from 1 on.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


class Interval(msgspec.Struct, frozen=True):
    """A value, and between what and what it lies with 95 % confidence; of one observation nothing is known."""

    value: float
    low: float | None = None
    high: float | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's cells together. `per_accepted` is what a change that passed has cost, failures counted in. `cell_usd`
    is what one cell has cost, where that is known of all and paid for."""

    agent: str
    cells: int
    passed: int
    rate: Interval
    attempts: Interval
    wall_s: Interval
    usage: Usage
    cost: Cost
    cell_usd: Interval | None
    per_accepted: Cost | None
    lines: Interval
    files: Interval
    denied_calls: int
    problems: int


def rank(results: Sequence[CellResult], agents: Sequence[str]) -> list[Standing]:
    """The agents, the best first: by what they passed, then by what it cost, then by how long it took."""
    standings = [_build_standing(agent, [each for each in results if each.agent == agent]) for agent in agents]
    return sorted(standings, key=_rank_key)


def find_winner(results: Sequence[CellResult], agents: Sequence[str], *, task: str) -> CellResult | None:
    """The cell of a task whose changes are to be taken: one that passed, of the best agent that has such a one."""
    passed = [each for each in results if each.task == task and each.passed]
    order = {standing.agent: place for place, standing in enumerate(rank(results, agents))}
    return min(passed, key=lambda each: (order[each.agent], _usd(each.cost), each.wall_s), default=None)


def wilson_interval(passed: int, total: int) -> Interval:
    """Wilson's interval for a proportion, which holds for few observations too."""
    if not total:
        return Interval(0.0)
    rate = passed / total
    if total == 1:
        return Interval(rate)
    middle = (rate + _Z**2 / (2 * total)) / (1 + _Z**2 / total)
    half = _Z / (1 + _Z**2 / total) * math.sqrt(rate * (1 - rate) / total + _Z**2 / (4 * total**2))
    return Interval(rate, max(0.0, middle - half), min(1.0, middle + half))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean with Student's interval."""
    if not values:
        return Interval(0.0)
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in values) / (len(values) - 1))
    half = _find_t(len(values) - 1) * deviation / math.sqrt(len(values))
    return Interval(mean, max(0.0, mean - half), mean + half)


def _find_t(freedom: int) -> float:
    """Student's t for 95 %; beyond the table by its expansion around the normal distribution, right to four digits."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z, v = _Z, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def _build_standing(agent: str, results: Sequence[CellResult]) -> Standing:
    tried = [each for each in results if not each.problem]
    passed = sum(each.passed for each in tried)
    cost = sum_costs(each.cost for each in tried)
    paid = [each.cost.usd for each in tried if each.cost.kind == "paid" and each.cost.usd is not None]
    return Standing(
        agent=agent,
        cells=len(tried),
        passed=passed,
        rate=wilson_interval(passed, len(tried)),
        attempts=mean_interval([each.attempts for each in tried]),
        wall_s=mean_interval([each.wall_s for each in tried]),
        usage=reduce(add, (each.usage for each in tried), Usage()),
        cost=cost,
        cell_usd=mean_interval(paid) if len(paid) == len(tried) else None,
        per_accepted=_divide(cost, passed) if passed else None,
        lines=mean_interval([each.lines_added + each.lines_removed for each in tried]),
        files=mean_interval([len(each.files) for each in tried]),
        denied_calls=sum(each.denied_calls for each in tried),
        problems=len(results) - len(tried),
    )


def _rank_key(standing: Standing) -> tuple[float, float, float, str]:
    cost = _usd(standing.per_accepted) if standing.per_accepted else math.inf
    return -standing.rate.value if standing.cells else 1.0, cost, standing.wall_s.value, standing.agent


def _usd(cost: Cost) -> float:
    known = cost.usd if cost.usd is not None else cost.not_paid_usd
    return math.inf if known is None else known


def _divide(cost: Cost, count: int) -> Cost:
    def share(usd: float | None) -> float | None:
        return None if usd is None else usd / count

    return msgspec.structs.replace(cost, usd=share(cost.usd), not_paid_usd=share(cost.not_paid_usd))
