"""Try the agents' real programs on every scenario."""

import os
import sys
import time

import click
import msgspec

from inspan.cli.exit_codes import FAILED
from inspan.cli.output import print_json, styled, wants_colour
from inspan.errors import BadInput
from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.page import as_data, as_page, merged
from inspan.testing.matrix.running import JOBS, columns, run
from inspan.testing.matrix.scenario import scenarios

_MARKS = {"pass": ("✔", "green"), "fail": ("✘", "red"), "cannot": ("–", "yellow")}


@click.command()
@click.option("-a", "--agent", multiple=True, metavar="NAME[@VERSION]", help="Which agent; repeatable. [default: all]")
@click.option("-s", "--scenario", multiple=True, metavar="NAME", help="Which scenario; repeatable. [default: all]")
@click.option("--channel", default="", metavar="NAME", help="The way into the agent. [default: its usual one]")
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
    wanted = scenarios(scenario)
    if listing:
        for each in wanted:
            click.echo(f"{each.name}: {each.title}")
        return 0
    began = time.monotonic()
    cells = run(columns(agent, channel=channel), wanted, jobs=jobs, keep=keep, tell=_silent if as_json else _tell)
    if write:
        _write(write, cells)
    if as_json:
        print_json(cells=[msgspec.to_builtins(cell) for cell in cells])
    else:
        _sum_up(cells, time.monotonic() - began)
    return FAILED if any(cell.result == "fail" for cell in cells) else 0


def _write(folder: str, cells: list[Cell]) -> None:
    """Puts these cells among those that were written before."""
    data, page = os.path.join(folder, "matrix.json"), os.path.join(folder, "matrix.md")
    try:
        os.makedirs(folder, exist_ok=True)
        before = _read(data)
        whole = merged(before, cells, scenarios())
        for path, content in ((data, as_data(whole)), (page, as_page(whole, scenarios()).encode())):
            with open(f"{path}.draft", "wb") as file:
                file.write(content)
            os.replace(f"{path}.draft", path)
    except OSError as error:
        problem = f"it cannot be written: {error.strerror or error}."
        raise BadInput("write", folder, problem, next_step="Name a folder that you may write to.") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _tell(cell: Cell) -> None:
    colour = wants_colour(sys.stdout)
    mark, style = _MARKS[cell.result]
    reason = f": {cell.reason}" if cell.reason else ""
    name = f"{cell.agent} {cell.version} {cell.scenario}"
    click.echo(f"{styled(mark, style, colour=colour)} {name} {cell.seconds:.1f}s{reason}", color=colour)


def _silent(_: Cell) -> None:
    pass


def _sum_up(cells: list[Cell], seconds: float) -> None:
    for agent in dict.fromkeys(cell.agent for cell in cells):
        own = [cell.result for cell in cells if cell.agent == agent]
        click.echo(f"{agent}: {own.count('pass')} pass, {own.count('fail')} fail, {own.count('cannot')} cannot")
    click.echo(f"{len(cells)} cells in {seconds:.0f}s")
