"""The matrix that is part of the pages: whole, of the versions that are pinned, and nothing in it failed."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import select_channel
from inspan.contracts.driver import Driver
from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.page import to_markdown
from inspan.testing.matrix.scenario import list_scenarios

from .pages import ROOT

DATA = ROOT / "docs" / "reference" / "matrix.json"
PAGE = ROOT / "docs" / "reference" / "matrix.md"
PROGRAMS = [each.name for each in load_drivers() if not (each.built_in or each.family or each.program.hosted)]


def read_page(path: Path) -> str:
    assert path.is_file(), f"{path.name} is not there: run `make matrix`"
    return path.read_text(encoding="utf-8")


@pytest.fixture
def cells() -> list[Cell]:
    data: dict[str, Any] = json.loads(read_page(DATA))
    assert list(data) == ["cells"]
    wanted = set(Cell.__struct_fields__)
    assert [each for each in data["cells"] if each.keys() != wanted] == [], "a cell lacks a field, or has one more"
    return msgspec.convert(data["cells"], list[Cell], strict=True)


def driver_of_cell(cell: Cell) -> Driver:
    """The driver as this cell's channel makes it."""
    return select_channel(find_driver(cell.agent), cell.channel)


def due_version(cell: Cell) -> str:
    """The version that a cell should be of: the pinned one. Where nothing is installed, there is none to pin."""
    return driver_of_cell(cell).program.install.version or cell.version


@pytest.mark.parametrize("agent", PROGRAMS)
def test_every_scenario_was_run_once_by_an_agents_usual_channel(cells: list[Cell], agent: str) -> None:
    usual = find_driver(agent).channels[0].name
    run = [cell.scenario for cell in cells if (cell.agent, cell.channel) == (agent, usual)]
    assert sorted(run) == sorted(each.name for each in list_scenarios())


def test_no_cell_failed(cells: list[Cell]) -> None:
    assert [cell for cell in cells if cell.result == "fail"] == []


def test_the_versions_are_the_pinned_ones(cells: list[Cell]) -> None:
    programs = [cell for cell in cells if cell.agent in PROGRAMS]
    run = {(cell.agent, cell.channel, cell.version) for cell in programs}
    assert run == {(cell.agent, cell.channel, due_version(cell)) for cell in programs}


def test_what_an_agent_cannot_do_is_what_its_driver_says_it_cannot(cells: list[Cell]) -> None:
    """Both ways: a reason that was added or taken away since wants the matrix to be run again."""
    told = {(cell.agent, cell.channel, cell.scenario): cell.reason for cell in cells if cell.result == "cannot"}
    said = {
        (agent, channel, scenario): reason
        for agent, channel in {(cell.agent, cell.channel) for cell in cells}
        for scenario, reason in select_channel(find_driver(agent), channel).trials.unsupported_scenarios.items()
    }
    assert told == said


def test_a_cell_that_is_no_pass_has_its_reason_and_a_pass_has_none(cells: list[Cell]) -> None:
    assert [cell for cell in cells if bool(cell.reason) != (cell.result != "pass")] == []


def test_the_page_is_what_the_data_makes(cells: list[Cell]) -> None:
    assert read_page(PAGE) == to_markdown(cells, list_scenarios())
