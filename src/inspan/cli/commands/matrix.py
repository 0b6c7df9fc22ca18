"""Try the agents' real programs on every scenario."""

import os
import sys
import time

import click
import msgspec

from inspan.cli.exit_codes import FAILED
from inspan.cli.output import print_json, styled, wants_colour
from inspan.testing.matrix.cell import Cell
from inspan.testing.matrix.page import as_data, as_page
from inspan.testing.matrix.running import JOBS, columns, run
from inspan.testing.matrix.scenario import scenarios

_MARKS = {"pass": ("✔", "green"), "fail": ("✘", "red"), "cannot": ("–", "yellow")}


@click.command()
@click.option("-a", "--agent", multiple=True, metavar="NAME[@VERSION]", help="Which agent; repeatable. [default: all]")
@click.option("-s", "--scenario", multiple=True, metavar="NAME", help="Which scenario; repeatable. [default: all]")
@click.option("--channel", default="", metavar="NAME", help="The way into the agent. [default: its usual one]")
@click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="Cells at a time.")
@click.option("--write", type=click.Path(), default="", metavar="FOLDER", help="Write matrix.md and matrix.json there.")
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
        os.makedirs(write, exist_ok=True)
        with open(os.path.join(write, "matrix.json"), "wb") as file:
            file.write(as_data(cells))
        with open(os.path.join(write, "matrix.md"), "w", encoding="utf-8") as file:
            file.write(as_page(cells, wanted))
    if as_json:
        print_json(cells=[msgspec.to_builtins(cell) for cell in cells])
    else:
        _sum_up(cells, time.monotonic() - began)
    return FAILED if any(cell.result == "fail" for cell in cells) else 0


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
