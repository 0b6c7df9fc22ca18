"""The words for how nodes and runs ended: status, duration, tokens, cost. What comes in is redacted already."""

from collections.abc import Iterator

from inspan.contracts.reporter import NodeReport, NodeResult, NodeStatus, RunReport
from inspan.protocol.usage import Usage

from .costs import format_cost
from .states import NODE_MARKS
from .styles import Line
from .text import Style, format_duration, one_line, truncate

STYLES: dict[NodeStatus, Style] = {"success": "green", "failed": "red", "skipped": "dim"}


def format_node(result: NodeResult, *, name: str = "") -> Iterator[Line]:
    """How a node ended; without a name where it is the only one."""
    label = f"{name}: " if name else ""
    yield f"{NODE_MARKS[result.status]} {label}{_format_ending(result)}", STYLES[result.status]
    if result.error:
        yield f"  {truncate(result.error)}", ""
    is_agent = result.outcome is not None
    if is_agent or result.files_changed or result.files_unknown:
        yield truncate(f"  files changed: {_format_files(result)}"), ""
    if result.cost is not None:
        # An agent's run says by its kind of cost what another node can only say in a note.
        note = f" ({result.cost_note})" if result.cost_note and result.cost_kind is None else ""
        yield f"  tokens: {format_tokens(result.usage)} · cost: {format_cost(result.cost)}{note}", ""
    if result.next_step:
        yield f"  → {truncate(result.next_step)}", ""


def format_run(report: RunReport) -> Iterator[Line]:
    """What a run came to: its duration, the status of each node, tokens and cost of all."""
    yield (
        f"{NODE_MARKS[report.status]} run: {report.status} in {format_duration(report.duration_s)}",
        STYLES[report.status],
    )
    yield from _format_table(report.nodes)
    cost = format_cost(report.cost, unknown_of=report.unpriced)
    yield f"  tokens: {format_tokens(report.usage)} · cost: {cost}", ""


def format_tokens(usage: Usage | None) -> str:
    """The tokens by kind; those of which there were none are left out."""
    if usage is None:
        return "not reported"
    read = f", {usage.cache_read} cache read" if usage.cache_read else ""
    written = f", {usage.cache_write} cache write" if usage.cache_write else ""
    reasoning = f" ({usage.reasoning} reasoning)" if usage.reasoning else ""
    return f"{usage.input} in{read}{written}, {usage.output} out{reasoning}"


def _format_files(result: NodeResult) -> str:
    named = ", ".join(map(one_line, result.files_changed))
    if result.files_unknown:
        return f"{named}, and perhaps others" if named else "unknown"
    return named or "none reported"


def _format_ending(result: NodeResult) -> str:
    if result.status == "skipped":
        return "skipped"
    why = "" if result.reason in (None, "done") else f" ({result.reason})"
    return f"{result.outcome or result.status}{why} in {format_duration(result.duration_s)}"


def _format_table(nodes: tuple[NodeReport, ...]) -> Iterator[Line]:
    name_width = max((len(node.name) for node in nodes), default=0)
    type_width = max((len(node.type) for node in nodes), default=0)
    for node in nodes:
        mark, style = NODE_MARKS[node.result.status], STYLES[node.result.status]
        yield f"  {mark} {node.name:<{name_width}}  {node.type:<{type_width}}  {_format_ending(node.result)}", style
