"""The columns of the matrix whose programs come with the tests: every scenario holds, as for a user."""

from pathlib import Path

import pytest

from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.runner import build_columns, try_cell
from inspan.testing.matrix.scenario import Scenario, list_scenarios


@pytest.mark.sample(20)  # Other files prove the same for these two; `inspan matrix` does every cell of every agent.
@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("scenario", list_scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_of_the_matrix_holds(
    tmp_path: Path, request: pytest.FixtureRequest, agent: str, scenario: Scenario
) -> None:
    _require_programs(request, scenario)
    _check_cell(tmp_path, agent, "stream", scenario)


@pytest.mark.sample(14)
@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("scenario", list_scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_holds_by_the_vendors_sdk(
    tmp_path: Path, request: pytest.FixtureRequest, agent: str, scenario: Scenario
) -> None:
    _require_programs(request, scenario)
    _check_cell(tmp_path, agent, "sdk", scenario)


def _require_programs(request: pytest.FixtureRequest, scenario: Scenario) -> None:
    """A box that is asked for needs its program; the other scenarios do without where they can."""
    if scenario.name.startswith("boxed_"):
        request.getfixturevalue("bubblewrap")


def _check_cell(folder: Path, agent: str, channel: str, scenario: Scenario) -> None:
    (column,) = build_columns([agent], channel="" if channel == "stream" else channel)
    cell = try_cell(folder, column, scenario)
    assert cell == Cell(
        agent=agent,
        channel=channel,
        version=column.driver.program.install.version,
        scenario=scenario.name,
        result="pass",
        seconds=cell.seconds,
        note=cell.note,
    ), cell.reason
