"""What a blueprint came to, out of its logs: as text, as JSON, and as one HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

import msgspec

from inspan.contracts.reporter import NodeReport, RunReport
from inspan.errors import BadInput, InspanError
from inspan.folds.blueprint import BlueprintFold, BlueprintState, NodeRun
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.events import NodeEnded, RunEnded
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import status_of
from inspan.protocol.usage import Usage
from inspan.redaction import Gate
from inspan.reporters.costs import format_cost_cell
from inspan.reporters.html_page import build_html_page, build_html_patch, build_html_table
from inspan.reporters.node_events import build_result_of_node, find_cost_without_agents
from inspan.reporters.summary import format_run
from inspan.reporters.text import format_duration
from inspan.runs.find import find_run_folder, list_continued, refresh_summary
from inspan.stores.event_log import iter_log
from inspan.stores.git import SnapshotError
from inspan.stores.run_folder import RunFolder, read_json, write_json, write_text
from inspan.stores.snapshot import patch_between

from .drawing import draw_svg
from .graph import Graph, build_graph

_CLASSES = {"success": "passed", "failed": "failed", "skipped": "skipped"}


class ReportedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One round of a node: when it began, and how it ended."""

    ended: NodeEnded
    started_at: float
    ended_at: float


class BlueprintReport(msgspec.Struct, frozen=True, kw_only=True):
    """A blueprint, its inputs and its nodes in the order in which they ended; `ended` once all of it has."""

    run_id: str
    blueprint: Blueprint
    inputs: dict[str, str]
    nodes: list[ReportedNode]
    ended: RunEnded | None = None

    @property
    def summary(self) -> RunReport:
        """The same as reporters have it."""
        nodes = [each.ended for each in self.nodes]
        return RunReport(
            nodes=tuple(
                NodeReport(name=each.node, type=each.type, result=build_result_of_node(each)) for each in nodes
            ),
            status=status_of(self.ended.outcome) if self.ended else "failed",
            duration_s=self.ended.duration_s if self.ended else 0.0,
            spent=find_cost_without_agents(nodes),
        )


def load_report(state: str, folder: RunFolder) -> tuple[BlueprintReport, Graph, dict[str, str]]:
    """The report by now, the graph, and what became of each node by name; raises `BadInput` for what is none."""
    described = read_json(folder.file("run.json"))
    if described.get("work") != "blueprint":
        raise BadInput("RUN", folder.run_id, "it is no blueprint.", next_step="`inspan show` shows runs and loops.")
    refresh_summary(state, folder)
    blueprint = msgspec.convert(described["blueprint"], know_type(Blueprint))
    fold = BlueprintFold(blueprint)
    for each in (*list_continued(state, str(described["task"].get("continues", ""))), folder):
        for record in iter_log(each.log):
            fold.add(record)
    graph = build_graph(blueprint, described["inputs"])
    found = fold.state
    report = BlueprintReport(
        run_id=str(folder.run_id),
        blueprint=blueprint,
        inputs=described["inputs"],
        nodes=sorted(_list_ended(found), key=lambda each: each.ended_at),
        ended=found.ended,
    )
    return report, graph, _list_statuses(graph, found)


def write_reports(state: str, folder: RunFolder, *, gate: Gate) -> None:
    """Leaves the report beside the log, as JSON and as a page; it can always be made anew."""
    with suppress(InspanError, OSError):
        report, graph, statuses = load_report(state, folder)
        write_json(folder.file("report.json"), to_dict(report), sync=False)
        write_text(folder.file("report.html"), build_report_page(state, report, graph, statuses, gate=gate))


def format_report(report: BlueprintReport) -> str:
    """The summary of reporters, and what failed for which reason."""
    lines = [text for text, _ in format_run(report.summary)]
    if report.ended is None:  # How long, nobody has counted yet.
        lines[0] = "▸ run: still running"
    lines += [f"  {each.ended.node}: {each.ended.error}" for each in report.nodes if each.ended.error]
    return "\n".join(lines) + "\n"


def to_dict(report: BlueprintReport) -> dict[str, Any]:
    """The report as its JSON spells it."""
    ended = report.ended
    return {
        "run_id": report.run_id,
        "blueprint": report.blueprint.name,
        "inputs": report.inputs,
        "status": status_of(ended.outcome) if ended else "running",
        "ended": msgspec.to_builtins(ended),
        "nodes": [
            {
                **msgspec.to_builtins(each.ended),
                "started_at": each.started_at,
                "ended_at": each.ended_at,
            }
            for each in report.nodes
        ],
    }


def build_report_page(
    state: str, report: BlueprintReport, graph: Graph, statuses: Mapping[str, str], *, gate: Gate
) -> str:
    """One page without anything from elsewhere: the graph, when each node ran, what it came to, what was changed;
    `gate` keeps secrets out of that, and all else is out of the log."""
    ended = report.ended
    how = f"{ended.outcome} ({ended.reason}) in {format_duration(ended.duration_s)}" if ended else "still running"
    message = f"<p class=note>{escape(ended.message)}</p>" if ended and ended.message else ""
    summary = report.summary
    body = [
        f"<h1>{escape(report.blueprint.name)}</h1>",
        f"<p>Run {escape(report.run_id)}: <b>{escape(how)}</b>. Cost: {escape(format_cost_cell(summary.cost))}. "
        f"Tokens: {_count_tokens(summary.usage):,}.</p>",
        message,
        draw_svg(graph, statuses),
        "<h2>Nodes</h2>",
        build_html_table(_HEADS, [_format_row(each, report.nodes) for each in report.nodes]),
        *_format_inputs(report.inputs),
        "<h2>What they gave</h2>",
        *(part for each in report.nodes for part in _format_outputs(each.ended)),
        "<h2>Changes</h2>",
        *_format_patches(state, report.nodes, gate=gate),
    ]
    return build_html_page(f"{report.blueprint.name}: {how}", body)


_HEADS = ("Node", "Kind", "Result", "When", "Time", "Tokens", "Cost", "Files")


def _list_ended(state: BlueprintState) -> Iterator[ReportedNode]:
    for rounds in state.nodes.values():
        for run in rounds.values():
            if run.ended:
                yield ReportedNode(ended=run.ended, started_at=run.started_at, ended_at=run.ended_at)


def _list_statuses(graph: Graph, state: BlueprintState) -> dict[str, str]:
    return {name: _find_status(state.find_last(name)) for name in graph.order}


def _find_status(run: NodeRun | None) -> str:
    if run is None:
        return ""
    return run.ended.status if run.ended else "running"


def _format_row(node: ReportedNode, nodes: Sequence[ReportedNode]) -> list[str]:
    ended = node.ended
    name = f"{ended.node} ({ended.round})" if ended.round > 1 else ended.node
    verdict = f"{ended.status}: {ended.error}" if ended.error else ended.status
    return [
        escape(name),
        escape(ended.type),
        f"<span class={_CLASSES[ended.status]}>{escape(verdict[:160])}</span>",
        _draw_bar(node, nodes),
        "" if ended.status == "skipped" else format_duration(ended.duration_s),
        f"{_count_tokens(ended.usage):,}" if ended.usage else "",
        escape(format_cost_cell(ended.cost)) if ended.cost else "",
        _count_files(ended),
    ]


def _count_files(ended: NodeEnded) -> str:
    count = str(len(ended.files_changed) or "")
    return (f"{count} or more" if count else "unknown") if ended.files_unknown else count


def _draw_bar(node: ReportedNode, nodes: Sequence[ReportedNode]) -> str:
    """When the node ran, within the time from the first to the last."""
    began_at = min(each.started_at for each in nodes)
    whole_s = max(max(each.ended_at for each in nodes) - began_at, 0.001)
    left = (node.started_at - began_at) / whole_s * 100
    width = (node.ended_at - node.started_at) / whole_s * 100
    style = f"left:{left:.2f}%;width:{width:.2f}%"
    return f'<div class="bar {_CLASSES[node.ended.status]}"><i style="{style}"></i></div>'


def _format_inputs(inputs: Mapping[str, str]) -> Iterator[str]:
    if inputs:
        yield "<h2>Inputs</h2>"
        yield build_html_table(("Name", "Value"), [[escape(name), escape(text)] for name, text in inputs.items()])


def _format_outputs(ended: NodeEnded) -> Iterator[str]:
    for name, text in ended.outputs.items():
        if text:
            title = escape(f"{ended.node}: {name}")
            yield f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"


def _format_patches(state: str, nodes: Sequence[ReportedNode], *, gate: Gate) -> Iterator[str]:
    for node in nodes:
        for run in node.ended.runs:
            try:
                patch = b"".join(patch_between(find_run_folder(state, run).path)).decode(errors="replace")
            except (InspanError, SnapshotError, OSError):
                continue  # What was deleted since, or never was known, is not shown.
            if patch:
                yield build_html_patch(f"{node.ended.node}: run {run}", gate.redact_text(patch))


def _count_tokens(usage: Usage | None) -> int:
    return usage.total if usage else 0
