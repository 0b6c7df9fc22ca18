"""A comparison as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import msgspec

from inspan.protocol.known_types import know_type
from inspan.redaction import Gate
from inspan.reporters.costs import format_cost_cell, format_count, format_usd
from inspan.reporters.html_page import build_html_page, build_html_patch, build_html_table

from .standings import Interval, Standing, find_winner, rank
from .values import CellResult, CompareTask, Comparison

_HEADS = (
    *("Agent", "Passed", "Attempts", "Wall time", "Tokens", "Cost", "Cost per accepted change"),
    *("Lines", "Files", "Denied calls"),
)
_CELL_HEADS = ("Task", "Agent", "#", "Result", "Attempts", "Wall time", "Tokens", "Cost", "Lines", "Files", "Denied")


def build_page(comparison: Comparison, results: Sequence[CellResult], patches: Mapping[str, str], *, gate: Gate) -> str:
    """The page; `patches` are by run. Whatever an agent or a person wrote is shown as text, without what is secret."""
    # Before it is put into HTML, which spells some characters in other ways.
    comparison = msgspec.convert(gate.redact_json(msgspec.to_builtins(comparison)), know_type(Comparison))
    results = msgspec.convert(gate.redact_json(msgspec.to_builtins(results)), know_type(list[CellResult]))
    patches = {run: gate.redact_text(patch) for run, patch in patches.items()}
    body = [
        f"<h1>Comparison {escape(comparison.id)}</h1>",
        f"<p>{len(results)} of {format_count(len(comparison.cells), 'cell')}: "
        f"{len(comparison.tasks)} × {len(comparison.agents)} × {comparison.times} (tasks, agents, times).</p>",
        *_list_notes(comparison),
        build_html_table(_HEADS, [_format_standing(each) for each in rank(results, comparison.agents)]),
        "<h2>Tasks</h2>",
        *(part for task in comparison.tasks for part in _format_task(comparison, results, task.name)),
        "<h2>Cells</h2>",
        build_html_table(_CELL_HEADS, [_format_cell(each) for each in results]),
        *(part for result in results for part in _format_patches(result, patches)),
    ]
    return build_html_page("Comparison", body)


def _list_notes(comparison: Comparison) -> Iterable[str]:
    for words in describe_untracked(comparison.tasks):
        yield f"<p class=note>{escape(words)}</p>"
    for task in comparison.tasks:
        for check in task.passed_before:
            said = f"<code>{escape(check)}</code> passed before anything was done: it proves nothing."
            yield f"<p class=note>{escape(task.name)}: {said}</p>"


def describe_untracked(tasks: Iterable[CompareTask]) -> list[str]:
    """A sentence for each folder with files that git does not know: no agent gets to see them."""
    counts = {task.cwd: task.untracked for task in tasks if task.untracked}
    return [
        f"{count} untracked {'file or folder' if count == 1 else 'files or folders'} in {cwd} that no agent gets to see"
        for cwd, count in counts.items()
    ]


def _format_standing(standing: Standing) -> list[str]:
    usage = standing.usage
    accepted = "–" if standing.per_accepted is None else format_cost_cell(standing.per_accepted)
    return [
        escape(standing.agent) + (f" ({standing.problems} not judged)" if standing.problems else ""),
        f"{standing.passed} of {standing.cells}{_format_rate(standing.rate)}",
        format_mean(standing.attempts, digits=1),
        format_mean(standing.wall_s, digits=1, unit=" s"),
        f"{usage.input + usage.cache_read + usage.cache_write + usage.output:,}",
        format_total_cost(standing),
        accepted,
        format_mean(standing.lines, digits=0),
        format_mean(standing.files, digits=1),
        str(standing.denied_calls),
    ]


def _format_task(comparison: Comparison, results: Sequence[CellResult], name: str) -> Iterable[str]:
    task = comparison.find_task(name)
    yield f"<h3>{escape(name)}</h3><pre>{escape(task.prompt)}</pre>"
    yield f"<p>Begins at <code>{escape(task.start)}</code>."
    yield "".join(f" Check: <code>{escape(check)}</code>." for check in task.checks) + "</p>"
    if winner := find_winner(results, comparison.agents, task=name):
        commands = " &amp;&amp; ".join(f"inspan apply {escape(run)}" for run in winner.runs)
        yield f"<p>Best: <b>{escape(winner.agent)}</b>. To take it: <code>{commands}</code></p>"


def _format_cell(result: CellResult) -> list[str]:
    verdict = "passed" if result.passed else result.problem or f"{result.outcome}: {result.reason} {result.message}"
    usage = result.usage
    return [
        escape(result.task),
        escape(result.agent),
        str(result.repeat),
        f"<span class={'passed' if result.passed else 'failed'}>{escape(verdict[:200])}</span>",
        str(result.attempts),
        f"{result.wall_s:.1f} s",
        f"{usage.input + usage.cache_read + usage.cache_write + usage.output:,}",
        format_cost_cell(result.cost),
        f"+{result.lines_added} −{result.lines_removed}",
        str(len(result.files)),
        str(result.denied_calls),
    ]


def _format_patches(result: CellResult, patches: Mapping[str, str]) -> Iterable[str]:
    for run in result.runs:
        if patch := patches.get(run):
            yield build_html_patch(f"{result.task}, {result.agent} {result.repeat}: run {run}", patch)


def format_mean(interval: Interval, *, digits: int, unit: str = "") -> str:
    """A mean, with how far off it may be."""
    said = f"{interval.value:.{digits}f}{unit}"
    return said if interval.low is None else f"{said} ({interval.low:.{digits}f}–{interval.high:.{digits}f})"


def format_total_cost(standing: Standing) -> str:
    """What all cells cost, and between what and what one of them lies."""
    said, cell = format_cost_cell(standing.cost), standing.cell_usd
    if cell is None or cell.low is None or cell.high is None:
        return said
    return f"{said} ({format_usd(cell.low)}–{format_usd(cell.high)} each)"


def _format_rate(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({interval.low * 100:.0f}–{interval.high * 100:.0f} %)"
