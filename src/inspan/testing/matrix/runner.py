"""Running the matrix: every scenario on every agent, a few cells at a time."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

import msgspec

from inspan.agents.install import Report, ignore_progress, install
from inspan.agents.program import Program, locate_program
from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import select_channel
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, InspanError
from inspan.stores.paths import data_home

from .cell import CannotDo, Cell, NotEnforced, Result, ScenarioFailed
from .cell_environment import CellEnvironment
from .scenario import Scenario

JOBS = 3
_KEPT_VARIABLES = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """An agent by one of its channels, ready to be tried."""

    agent: str
    channel: str
    driver: Driver
    program: Program

    @property
    def title(self) -> str:
        """As it was asked for: one agent may stand beside itself in another version."""
        return f"{self.agent} ({self.channel})" if self.channel else self.agent


def build_columns(names: Sequence[str], *, channel: str = "", report: Report = ignore_progress) -> list[Column]:
    """The agents of these names, or all of other makers that have the channel; what is missing is installed.

    Raises `InspanError` for an agent that there is not or that cannot be had.
    """
    wanted = dict.fromkeys(names or [each.name for each in load_drivers() if _is_included(each, channel)])
    return [_build_column(name, channel, report) for name in wanted]


def _is_included(driver: Driver, channel: str) -> bool:
    known = [each.name for each in driver.channels]
    return not driver.built_in and not driver.family and (not channel or channel in known)


def run_cells(
    wanted: Sequence[Column],
    scenarios: Sequence[Scenario],
    *,
    jobs: int = JOBS,
    keep: str = "",
    on_cell: Callable[[Cell], None],
) -> list[Cell]:
    """Runs every cell and tells of each as it ends; gives them in the order of agents and scenarios.

    With `keep`, the grounds of cells that failed are left in that folder.
    """
    root = Path(tempfile.mkdtemp(prefix="inspan-matrix-"))
    (root / "cache").mkdir()
    order = {(column.title, scenario.name): 0 for column in wanted for scenario in scenarios}
    cells: dict[tuple[str, str], Cell] = {}
    try:
        with ThreadPoolExecutor(jobs) as pool:
            # Scenario by scenario, so that the agents that are slow to start do not all run at once.
            pending = {
                pool.submit(try_cell, root, column, scenario, keep=keep): (column.title, scenario.name)
                for scenario in scenarios
                for column in wanted
            }
            for future in as_completed(pending):
                cells[pending[future]] = future.result()
                on_cell(cells[pending[future]])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return [cells[place] for place in order]


def _build_column(name: str, channel: str, report: Report) -> Column:
    driver = select_channel(find_driver(name), channel)
    try:
        program = locate_program(driver)
    except AgentMissing:
        if os.environ.get(driver.program_variable) and not driver.program.pinned:
            raise  # The user means another program than the one that could be had.
        program = install(driver, report=report)
    return Column(agent=name, channel=channel, driver=driver, program=program)


def try_cell(root: Path, column: Column, scenario: Scenario, *, keep: str = "") -> Cell:
    """Plays one scenario on one agent, in a folder of its own below `root`, which is gone afterwards."""
    cannot = column.driver.trials.unsupported_scenarios.get(scenario.name)
    if cannot:
        return _build_cell(column, scenario, "cannot", cannot)
    place = root / f"{column.title}-{scenario.name}".replace("/", "_")
    env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    env |= {"XDG_CACHE_HOME": str(root / "cache"), "XDG_DATA_HOME": os.path.dirname(data_home())}
    if not (column.driver.built_in or column.driver.program.hosted or column.driver.program.pinned):
        env[column.driver.program_variable] = column.program.path
    cell_env = CellEnvironment(place, column.driver, agent=column.agent, channel=column.channel, env=env)
    began = time.monotonic()
    result: Result
    try:
        scenario.check(cell_env)
        result, reason = "pass", ""
    except CannotDo as missing:
        result, reason = "cannot", str(missing)
    except NotEnforced as asked:
        result, reason = "asked", str(asked)
    except (ScenarioFailed, InspanError) as unmet:
        result, reason = "fail", str(unmet)
    except Exception as error:  # A fault of the scenario itself is a failed cell, and the others go on.
        result, reason = "fail", f"the scenario broke: {error!r}"
    seconds = time.monotonic() - began
    try:
        with suppress(ScenarioFailed):  # Its own limit; what it leaves is in nobody's way.
            cell_env.close()
        if keep and result == "fail":
            _copy_folder(place, keep)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    note = cell_env.note if result == "pass" else ""
    return _build_cell(column, scenario, result, reason, seconds=seconds, note=note, skipped=cell_env.skipped)


def _copy_folder(place: Path, folder: str) -> None:
    """Copies what can be copied: sockets and files that are just going are no reason to lose the rest."""
    with suppress(shutil.Error, FileNotFoundError):
        shutil.copytree(place, os.path.join(folder, place.name), symlinks=True, dirs_exist_ok=True)


def _build_cell(
    column: Column,
    scenario: Scenario,
    result: Result,
    reason: str,
    *,
    seconds: float = 0.0,
    note: str = "",
    skipped: Sequence[str] = (),
) -> Cell:
    return Cell(
        agent=column.driver.name,
        channel=column.driver.channels[0].name,
        version=column.program.version,
        scenario=scenario.name,
        result=result,
        reason=reason,
        seconds=round(seconds, 1),
        note=note,
        skipped=list(skipped),
    )
