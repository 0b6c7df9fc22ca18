"""The matrix as a page and as data."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from .cell import Cell
from .scenario import Scenario

_MARKS = {"pass": "✔", "fail": "✘", "cannot": "–"}
_HEAD = """# The matrix

Every scenario on every agent's real program, behind a gateway with a scripted model and without a network:
`make matrix` runs it anew and writes this page and `matrix.json`. ✔ it holds, ✘ it does not, – the program itself
offers no such thing; the reasons stand below. Versions are those that were run.
"""


def as_data(cells: Sequence[Cell]) -> bytes:
    """`{"cells": […]}`, a line for each cell."""
    lines = b",\n".join(b"  " + msgspec.json.encode(cell) for cell in cells)
    return b'{"cells": [\n' + lines + b"\n]}\n"


def merged(written: bytes, cells: Sequence[Cell], scenarios: Sequence[Scenario]) -> list[Cell]:
    """What was written before with these cells in it: of the same agent, channel and scenario the new one counts.

    Whatever cannot be read, or is about a scenario that is no more, is left out.
    """
    try:
        before = msgspec.json.decode(written, type=dict[str, list[Cell]]).get("cells", [])
    except msgspec.MsgspecError:
        before = []
    order = [scenario.name for scenario in scenarios]
    found = {(cell.agent, cell.channel, cell.scenario): cell for cell in (*before, *cells) if cell.scenario in order}
    return sorted(
        found.values(),
        key=lambda cell: (_by(cell.channel), cell.agent, order.index(cell.scenario)),
    )


def as_page(cells: Sequence[Cell], scenarios: Sequence[Scenario]) -> str:
    """A table of scenarios and agents, the counts of each agent, and a reason for all that is no pass."""
    agents = list(dict.fromkeys((cell.agent, cell.channel, cell.version) for cell in cells))
    by_place = {(cell.agent, cell.channel, cell.version, cell.scenario): cell for cell in cells}
    heads = [f"{agent} {version}{_by(channel)}" for agent, channel, version in agents]
    rows: list[str] = []
    for scenario in scenarios:
        marks = [_mark(by_place.get((*each, scenario.name))) for each in agents]
        rows.append(f"| {scenario.title} | {' | '.join(marks)} |")
    counts = [_counts([cell for cell in cells if (cell.agent, cell.channel, cell.version) == each]) for each in agents]
    table = [
        f"| scenario | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *rows,
        f"| **pass / fail / cannot** | {' | '.join(counts)} |",
    ]
    return "\n".join([_HEAD, *table, "", *_reasons(cells, scenarios)]) + "\n"


def _by(channel: str) -> str:
    return "" if channel in ("stream", "http") else f" ({channel})"


def _mark(cell: Cell | None) -> str:
    return _MARKS[cell.result] if cell else ""


def _counts(cells: Sequence[Cell]) -> str:
    counted = Counter(cell.result for cell in cells)
    return f"{counted['pass']} / {counted['fail']} / {counted['cannot']}"


def _reasons(cells: Sequence[Cell], scenarios: Sequence[Scenario]) -> list[str]:
    titles = {scenario.name: scenario.title for scenario in scenarios}
    others = [cell for cell in cells if cell.result != "pass"]
    if not others:
        return ["Every cell is a pass."]
    rows: list[str] = []
    for cell in others:
        why = f"{_MARKS[cell.result]} {_one_line(cell.reason)}"
        rows.append(f"| {cell.agent} {cell.version}{_by(cell.channel)} | {titles[cell.scenario]} | {why} |")
    return ["## What is not a pass", "", "| agent | scenario | why |", "|---|---|---|", *rows]


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
