"""Try the agents' real programs on every scenario."""

import os
import sys
import time

import click
import msgspec

from inspan.cli.output import apply_style, print_json, wants_colour
from inspan.cli.progress import Progress
from inspan.cli.run_names import AgentName
from inspan.errors import BadInput
from inspan.protocol.reasons import FAILED
from inspan.system.atomic_file import replace_file
from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.page import merge_cells, to_json, to_markdown
from inspan.testing.matrix.runner import JOBS, build_columns, run_cells
from inspan.testing.matrix.scenario import list_scenarios

_MARKS = {"pass": ("✔", "green"), "fail": ("✘", "red"), "cannot": ("–", "yellow"), "asked": ("○", "yellow")}


@click.command()
@click.option(
    "-a",
    "--agent",
    multiple=True,
    type=AgentName(),
    metavar="NAME[@VERSION]",
    help="Which agent; repeatable. [default: all]",
)
@click.option("-s", "--scenario", multiple=True, metavar="NAME", help="Which scenario; repeatable. [default: all]")
@click.option("--channel", default="", metavar="NAME", help="Which channel. [default: the first]")
@click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="Cells at a time.")
@click.option("--write", type=click.Path(), default="", metavar="FOLDER", help="Put them into its matrix.json.")
@click.option("--keep", type=click.Path(), default="", metavar="FOLDER", help="Keep what failed cells left behind.")
@click.option("--list", "listing", is_flag=True, help="Only name the scenarios.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    agent: tuple[str, ...],
    scenario: tuple[str, ...],
    channel: str,
    jobs: int,
    write: str,
    keep: str,
    listing: bool,
    as_json: bool,
) -> int:
    """Try the agents' real programs on every scenario, with a scripted model and no network.

    Programs that are missing are installed first, into inspan's own folder.
    """
    wanted = list_scenarios(scenario)
    if listing:
        for each in wanted:
            click.echo(f"{each.name}: {each.title}")
        return 0
    began = time.monotonic()
    with Progress("installing") as progress:
        columns = build_columns(agent, channel=channel, report=progress.show_install)
    with Progress("trying") as progress:
        counter = _CellCounter(progress, total=len(columns) * len(wanted), prints=not as_json)
        cells = run_cells(columns, wanted, jobs=jobs, keep=keep, on_cell=counter.add)
    if write:
        _write_matrix(write, cells)
    if as_json:
        print_json(cells=[msgspec.to_builtins(cell) for cell in cells])
    else:
        _print_summary(cells, time.monotonic() - began)
    return FAILED if any(cell.result == "fail" for cell in cells) else 0


def _write_matrix(folder: str, cells: list[Cell]) -> None:
    """Puts these cells among those that were written before."""
    data, page = os.path.join(folder, "matrix.json"), os.path.join(folder, "matrix.md")
    try:
        os.makedirs(folder, exist_ok=True)
        before = _read(data)
        whole = merge_cells(before, cells, list_scenarios())
        for path, content in ((data, to_json(whole)), (page, to_markdown(whole, list_scenarios()).encode())):
            replace_file(path, content, mode=0o644)
    except OSError as error:
        problem = f"it cannot be written: {error.strerror or error}."
        raise BadInput("write", folder, problem, next_step="Name a folder that you may write to.") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _print_cell(cell: Cell) -> None:
    colour = wants_colour(sys.stdout)
    mark, style = _MARKS[cell.result]
    reason = f": {cell.reason}" if cell.reason else ""
    name = f"{cell.agent} {cell.version} {cell.scenario}"
    skipped = f", {len(cell.skipped)} steps skipped" if cell.skipped else ""
    click.echo(f"{apply_style(mark, style, colour=colour)} {name} {cell.seconds:.1f}s{skipped}{reason}", color=colour)


class _CellCounter:
    """Prints each cell as it ends, and keeps count of them below."""

    def __init__(self, progress: Progress, *, total: int, prints: bool) -> None:
        self._progress, self._total, self._prints = progress, total, prints
        self._done = 0
        self._progress.show_count(0, total)

    def add(self, cell: Cell) -> None:
        self._done += 1
        if self._prints:
            self._progress.clear()
            _print_cell(cell)
        self._progress.show_count(self._done, self._total)


def _print_summary(cells: list[Cell], seconds: float) -> None:
    for agent in dict.fromkeys(cell.agent for cell in cells):
        own = [cell.result for cell in cells if cell.agent == agent]
        counts = ", ".join(f"{own.count(result)} {result}" for result in _MARKS)
        click.echo(f"{agent}: {counts}")
    click.echo(f"{len(cells)} cells in {seconds:.0f}s")
