"""The columns of the matrix whose programs come with the tests: every scenario holds, as for a user."""

from pathlib import Path

import pytest

from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.running import columns, try_cell
from inspan.testing.matrix.scenario import Scenario, scenarios


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_of_the_matrix_holds(tmp_path: Path, agent: str, scenario: Scenario) -> None:
    (column,) = columns([agent])
    cell = try_cell(tmp_path, column, scenario)
    assert cell == Cell(
        agent=agent,
        channel="stream",
        version=column.driver.install.version,
        scenario=scenario.name,
        result="pass",
        seconds=cell.seconds,
    ), cell.reason
