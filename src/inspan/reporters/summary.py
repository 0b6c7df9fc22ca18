"""The words for how nodes and runs ended: status, duration, tokens, cost. What comes in is redacted already."""

from collections.abc import Iterable, Iterator

from inspan.contracts.reporter import NodeReport, NodeResult, NodeStatus, RunReport
from inspan.protocol.usage import Usage

from .styles import Line
from .text import Style, format_duration, truncate

MARKS: dict[NodeStatus, str] = {"success": "✔", "failed": "✘", "skipped": "–"}
STYLES: dict[NodeStatus, Style] = {"success": "green", "failed": "red", "skipped": "dim"}


def format_node(result: NodeResult, *, name: str = "") -> Iterator[Line]:
    """How a node ended; without a name where it is the only one."""
    label = f"{name}: " if name else ""
    yield f"{MARKS[result.status]} {label}{_format_ending(result)}", STYLES[result.status]
    if result.error:
        yield f"  {truncate(result.error)}", ""
    is_agent = result.outcome is not None
    if is_agent or result.files_changed:
        yield truncate(f"  files changed: {', '.join(result.files_changed) or 'none reported'}"), ""
    if is_agent or result.usage is not None or result.cost_usd is not None:
        cost = _format_cost(result.cost_usd, notes=[result.cost_note])
        yield f"  tokens: {format_tokens(result.usage)} · cost: {cost}", ""
    if result.next_step:
        yield f"  → {truncate(result.next_step)}", ""


def format_run(report: RunReport) -> Iterator[Line]:
    """What a run came to: its duration, the status of each node, tokens and cost of all."""
    yield f"{MARKS[report.status]} run: {report.status} in {format_duration(report.duration_s)}", STYLES[report.status]
    yield from _format_table(report.nodes)
    notes = dict.fromkeys(node.result.cost_note for node in report.nodes)
    cost = _format_cost(report.cost_usd, notes=notes, unpriced=report.unpriced)
    yield f"  tokens: {format_tokens(report.usage)} · cost: {cost}", ""


def format_tokens(usage: Usage | None) -> str:
    """The tokens by kind; those of which there were none are left out."""
    if usage is None:
        return "not reported"
    read = f", {usage.cache_read} cache read" if usage.cache_read else ""
    written = f", {usage.cache_write} cache write" if usage.cache_write else ""
    reasoning = f" ({usage.reasoning} reasoning)" if usage.reasoning else ""
    return f"{usage.input} in{read}{written}, {usage.output} out{reasoning}"


def _format_cost(cost_usd: float | None, *, notes: Iterable[str], unpriced: tuple[str, ...] = ()) -> str:
    if cost_usd is None:
        return "not reported"
    note = "".join(f" ({note})" for note in notes if note)
    return f"${cost_usd:.4f}{note}" + (f", not reported by {', '.join(unpriced)}" if unpriced else "")


def _format_ending(result: NodeResult) -> str:
    if result.status == "skipped":
        return "skipped"
    why = "" if result.reason in (None, "done") else f" ({result.reason})"
    return f"{result.outcome or result.status}{why} in {format_duration(result.duration_s)}"


def _format_table(nodes: tuple[NodeReport, ...]) -> Iterator[Line]:
    name_width = max((len(node.name) for node in nodes), default=0)
    type_width = max((len(node.type) for node in nodes), default=0)
    for node in nodes:
        mark, style = MARKS[node.result.status], STYLES[node.result.status]
        yield f"  {mark} {node.name:<{name_width}}  {node.type:<{type_width}}  {_format_ending(node.result)}", style
