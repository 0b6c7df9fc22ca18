"""The matrix as a page and as data."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from inspan.protocol.known_types import know_type

from .cell import Cell
from .scenario import Scenario

_Column = tuple[str, str, str]
_MARKS = {"pass": "✔", "fail": "✘", "cannot": "–", "asked": "○"}
# The site leaves the menus out beside it and turns the column heads, so that every agent is seen at once.
_HEAD = """---
hide: [navigation, toc]
---

# The matrix

Every scenario on every agent's real program, behind a gateway with a scripted model and without a network:
`make matrix` runs it anew and writes this page and `matrix.json`. Versions and channels are in [Columns](#columns).

✔ it holds · ✘ it does not · – the program itself offers no such thing · ○ it is only told to and nothing makes it so ·
a number counts the steps of the script that were skipped because no tool on offer could do them · an empty cell was not
run by this channel. The reasons and the skipped steps stand below.

<div class="matrix" markdown>
"""


def to_json(cells: Sequence[Cell]) -> bytes:
    """`{"cells": […]}`, a line for each cell."""
    lines = b",\n".join(b"  " + msgspec.json.encode(cell) for cell in cells)
    return b'{"cells": [\n' + lines + b"\n]}\n"


def merge_cells(written: bytes, cells: Sequence[Cell], scenarios: Sequence[Scenario]) -> list[Cell]:
    """What was written before with these cells in it: of the same agent, channel and scenario the new one counts.

    Whatever cannot be read, or is about a scenario that is no more, is left out.
    """
    try:
        before = msgspec.json.decode(written, type=know_type(dict[str, list[Cell]])).get("cells", [])
    except msgspec.MsgspecError:
        before = []
    order = [scenario.name for scenario in scenarios]
    found = {(cell.agent, cell.channel, cell.scenario): cell for cell in (*before, *cells) if cell.scenario in order}
    return sorted(
        found.values(),
        key=lambda cell: (_format_channel(cell.channel), cell.agent, order.index(cell.scenario)),
    )


def to_markdown(cells: Sequence[Cell], scenarios: Sequence[Scenario]) -> str:
    """A table of scenarios and agents, the counts of each agent, and a reason for all that is no pass."""
    columns = list(dict.fromkeys(_column(cell) for cell in cells))
    heads = _name_columns(columns)
    by_place = {(*_column(cell), cell.scenario): cell for cell in cells}
    rows: list[str] = []
    for scenario in scenarios:
        marks = [_format_mark(by_place.get((*each, scenario.name))) for each in columns]
        rows.append(f"| {scenario.title} | {' | '.join(marks)} |")
    table = [f"| scenario | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}", *rows, "", "</div>"]
    titles = {scenario.name: scenario.title for scenario in scenarios}
    parts = [
        _format_columns(heads, columns, cells),
        _format_reasons(cells, titles),
        _format_notes(cells, titles),
        _format_skipped(cells, titles),
    ]
    return "\n".join([_HEAD, *table, *(line for part in parts if part for line in ("", *part))]) + "\n"


def _column(cell: Cell) -> _Column:
    return cell.agent, cell.channel, cell.version


def _name_columns(columns: Sequence[_Column]) -> list[str]:
    """Short heads: an agent and its channel, and the version only where there are several."""
    short = [f"{agent}{_format_channel(channel)}" for agent, channel, _ in columns]
    several = {name for name, count in Counter(short).items() if count > 1}
    return [
        f"{name} {version}" if name in several else name for name, (_, _, version) in zip(short, columns, strict=True)
    ]


def _format_channel(channel: str) -> str:
    return "" if channel in ("stream", "http") else f" ({channel})"


def _format_mark(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return f"{_MARKS[cell.result]} {len(cell.skipped)}" if cell.skipped else _MARKS[cell.result]


def _format_columns(heads: Sequence[str], columns: Sequence[_Column], cells: Sequence[Cell]) -> list[str]:
    rows: list[str] = []
    for head, column in zip(heads, columns, strict=True):
        counted = Counter(cell.result for cell in cells if _column(cell) == column)
        counts = " | ".join(str(counted[result]) for result in _MARKS)
        rows.append(f"| {head} | {column[2]} | {column[1]} | {counts} |")
    marks = " | ".join(_MARKS.values())
    return [
        "## Columns",
        "",
        f"| column | version | channel | {marks} |",
        f"|---|---|---|{'---|' * len(_MARKS)}",
        *rows,
    ]


def _format_reasons(cells: Sequence[Cell], titles: Mapping[str, str]) -> list[str]:
    others = [cell for cell in cells if cell.result != "pass"]
    if not others:
        return ["Every cell is a pass."]
    rows: list[str] = []
    for cell in others:
        why = f"{_MARKS[cell.result]} {_to_one_line(cell.reason)}"
        rows.append(_format_row(cell, titles, why))
    return ["## What is not a pass", "", "| agent | scenario | why |", "|---|---|---|", *rows]


def _format_notes(cells: Sequence[Cell], titles: Mapping[str, str]) -> list[str]:
    rows = [_format_row(cell, titles, _to_one_line(cell.note)) for cell in cells if cell.note]
    return ["## What a pass rests on", "", "| agent | scenario | how |", "|---|---|---|", *rows] if rows else []


def _format_skipped(cells: Sequence[Cell], titles: Mapping[str, str]) -> list[str]:
    rows = [_format_row(cell, titles, _to_one_line(step)) for cell in cells for step in cell.skipped]
    return ["## Steps that were skipped", "", "| agent | scenario | step |", "|---|---|---|", *rows] if rows else []


def _format_row(cell: Cell, titles: Mapping[str, str], words: str) -> str:
    return f"| {cell.agent} {cell.version}{_format_channel(cell.channel)} | {titles[cell.scenario]} | {words} |"


def _to_one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
