"""What results say of agents, in numbers that can be looked up."""

import statistics

import msgspec
import pytest

from inspan.compare.page import format_mean, format_total_cost
from inspan.compare.standings import Interval, find_winner, mean_interval, rank, wilson_interval
from inspan.compare.values import CellResult
from inspan.protocol.cost import Cost


def result(agent: str, *, passed: bool, usd: float = 1.0, wall_s: float = 1.0, repeat: int = 1) -> CellResult:
    cost = Cost(kind="paid", usd=usd)
    return CellResult(task="t", agent=agent, repeat=repeat, passed=passed, cost=cost, wall_s=wall_s, attempts=1)


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 2, 0.0945, 0.9055)],
)
def test_wilsons_interval_is_the_one_in_the_tables(passed: int, total: int, low: float, high: float) -> None:
    found = wilson_interval(passed, total)
    assert (found.value, found.low, found.high) == (
        passed / total,
        pytest.approx(low, abs=1e-4),
        pytest.approx(high, abs=1e-4),
    )


def test_students_interval_is_the_one_in_the_tables() -> None:
    found = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.value, found.low, found.high) == (
        3.0,
        pytest.approx(1.0368, abs=1e-3),
        pytest.approx(4.9632, abs=1e-3),
    )


@pytest.mark.parametrize(("count", "t"), [(2, 12.706), (16, 2.131), (17, 2.120), (31, 2.042), (121, 1.980)])
def test_students_interval_is_students_for_many_too(count: int, t: float) -> None:
    values = [float(number % 2) for number in range(count)]
    found = mean_interval([10 + value for value in values])
    deviation = statistics.stdev(values)
    assert found.high is not None
    assert (found.high - found.value) * count**0.5 / deviation == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize("found", [wilson_interval(1, 1), mean_interval([1.0])])
def test_of_one_observation_nothing_is_known_for_sure(found: Interval) -> None:
    assert found == Interval(1.0)


def test_agents_are_ranked_by_what_passed_then_by_cost_then_by_time() -> None:
    results = [
        *(result("dear", passed=True, usd=3.0, repeat=each) for each in (1, 2)),
        *(result("slow", passed=True, usd=1.0, wall_s=9.0, repeat=each) for each in (1, 2)),
        *(result("quick", passed=True, usd=1.0, repeat=each) for each in (1, 2)),
        *(result("half", passed=each == 1, usd=0.1, repeat=each) for each in (1, 2)),
    ]
    ranked = rank(results, ["half", "dear", "slow", "quick"])
    assert [each.agent for each in ranked] == ["quick", "slow", "dear", "half"]
    winner = find_winner(results, ["half", "dear", "slow", "quick"], task="t")
    assert winner is not None and winner.agent == "quick"


def test_a_change_that_was_accepted_costs_what_the_failures_cost_too() -> None:
    (standing,) = rank([result("a", passed=each == 1, usd=2.0, repeat=each) for each in (1, 2, 3)], ["a"])
    assert standing.per_accepted == Cost(kind="paid", usd=6.0)


def test_a_cell_that_could_not_be_tried_counts_for_nobody() -> None:
    problem = CellResult(task="t", agent="a", repeat=1, problem="It is not installed.")
    (standing,) = rank([problem], ["a"])
    assert (standing.cells, standing.passed, standing.problems, standing.per_accepted) == (0, 0, 1, None)
    assert find_winner([problem], ["a"], task="t") is None


def test_what_was_repeated_has_an_interval_in_every_mean() -> None:
    results = [result("a", passed=True, usd=float(each), repeat=each) for each in (1, 2, 3, 4, 5)]
    more = [msgspec.structs.replace(each, attempts=each.repeat, files=["f"] * each.repeat) for each in results]
    (standing,) = rank([msgspec.structs.replace(each, lines_added=each.repeat) for each in more], ["a"])
    expected = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    found = (standing.attempts, standing.cell_usd, standing.lines, standing.files)
    assert found == (expected, expected, expected, expected)
    assert format_mean(standing.attempts, digits=1) == "3.0 (1.0–5.0)"
    assert format_total_cost(standing) == "$15.00 ($1.0371–$4.9629 each)"


def test_of_what_nobody_paid_for_there_is_no_interval() -> None:
    cells = [result("a", passed=True, repeat=each) for each in (1, 2)]
    cells[1] = msgspec.structs.replace(cells[1], cost=Cost(kind="unknown"))
    (standing,) = rank(cells, ["a"])
    assert standing.cell_usd is None and "each" not in format_total_cost(standing)
