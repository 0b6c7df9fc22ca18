"""The graph as a picture: lines for a terminal, SVG for a page. Pure."""

from collections.abc import Iterator, Mapping
from html import escape

from inspan.protocol.blueprint import AgentNode, ApplyNode, CommandNode, Node, PersonNode
from inspan.reporters.states import NODE_MARKS
from inspan.reporters.text import one_line

from .graph import Graph, kind_of

_COLOURS = {"success": "#1a7f37", "failed": "#cf222e", "skipped": "#888888", "running": "#9a6700", "": "#57606a"}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 52, 60, 18, 24


def draw_lines(graph: Graph, statuses: Mapping[str, str]) -> Iterator[str]:
    """A line for each node in an order in which they can run: what it is, and what it waits for."""
    nodes = graph.blueprint.nodes
    width = max(map(len, nodes))
    kinds = max(len(kind_of(node)) for node in nodes.values())
    for name in graph.order:
        node, needs = nodes[name], ", ".join(graph.needs[name])
        mark = NODE_MARKS[statuses.get(name, "")]
        after = f"  ← {needs}" if needs else ""
        yield f"{mark} {name:<{width}}  {kind_of(node):<{kinds}}  {describe_node(node)}{after}"
    for name, part in graph.blueprint.loops.items():
        yield f"↻ {name}: {', '.join(part.nodes)} again until {part.until} passes, at most {part.rounds} rounds"


def describe_node(node: Node) -> str:
    """What a node does, in a few words."""
    match node:
        case CommandNode():
            return one_line(node.run)
        case AgentNode():
            who = ", ".join(filter(None, (node.agent or next(iter(node.agents), "") or "the usual agent", node.mode)))
            return f"{who}: {one_line(node.prompt)[:60]}"
        case PersonNode():
            return one_line(node.question)
        case ApplyNode():
            return f"the changes of {node.of}"


def draw_svg(graph: Graph, statuses: Mapping[str, str]) -> str:
    """The graph from left to right, with the colours of what became of each node."""
    places = _place(graph)
    width = max(x for x, _ in places.values()) + _WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="The graph of {escape(graph.blueprint.name, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        *_draw_loops(graph, places),
        *_draw_edges(graph, places),
        *(_draw_node(name, graph, place, statuses.get(name, "")) for name, place in places.items()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _place(graph: Graph) -> dict[str, tuple[int, int]]:
    """Each node in the column behind the last of those that it needs."""
    columns: dict[str, int] = {}
    for name in graph.order:
        columns[name] = max((columns[need] + 1 for need in graph.needs[name]), default=0)
    rows = dict.fromkeys(range(max(columns.values()) + 1), 0)
    places: dict[str, tuple[int, int]] = {}
    for name, column in columns.items():
        places[name] = (
            _MARGIN + column * (_WIDTH + _GAP_X),
            _MARGIN + rows[column] * (_HEIGHT + _GAP_Y),
        )
        rows[column] += 1
    return places


def _draw_node(name: str, graph: Graph, place: tuple[int, int], status: str) -> str:
    x, y = place
    colour = _COLOURS[status]
    node = graph.blueprint.nodes[name]
    title = escape(f"{name}: {describe_node(node)}")
    return (
        f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
        f'fill="{colour}22" stroke="{colour}" stroke-width="1.5"/>'
        f'<text x="{x + 12}" y="{y + 22}" fill="currentColor">{NODE_MARKS[status]} {escape(_cut(name))}</text>'
        f'<text x="{x + 12}" y="{y + 40}" fill="currentColor" opacity="0.65" font-size="11">{kind_of(node)}</text></g>'
    )


def _draw_edges(graph: Graph, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, needs in graph.needs.items():
        for need in needs:
            (x1, y1), (x2, y2) = places[need], places[name]
            x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
            bend = max(20, (x2 - x1) // 2)
            path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
            yield f'<path d="{path}" fill="none" stroke="currentColor" opacity="0.4"/>'


def _draw_loops(graph: Graph, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, part in graph.blueprint.loops.items():
        xs, ys = zip(*(places[each] for each in part.nodes), strict=True)
        x, y = min(xs) - 10, min(ys) - 10
        width, height = max(xs) + _WIDTH + 10 - x, max(ys) + _HEIGHT + 10 - y
        yield (
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="12" fill="none" stroke="currentColor" '
            f'stroke-dasharray="5 4" opacity="0.5"><title>{escape(name)}: until {escape(part.until)} passes, '
            f"at most {part.rounds} rounds</title></rect>"
        )


def _cut(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"
