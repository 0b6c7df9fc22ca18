"""JSON Schema of a configuration file, for editors that complete and check TOML."""

from collections.abc import Sequence
from typing import Any

from .keys import ANY, Leaf, Node, Table, tree

VERSION = 1


def json_schema(*, known_agents: Sequence[str]) -> dict[str, Any]:
    """The schema of one file, with these agents."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"inspan:config:{VERSION}",
        "title": "inspan configuration",
        **_schema(tree(), known_agents),
    }


def _schema(node: Node, known_agents: Sequence[str]) -> dict[str, Any]:
    if isinstance(node, Leaf):
        kind = node.note.kind
        return {"description": node.note.doc, **kind.schema, "default": kind.spell(node.default)}
    properties = {name: _property(name, below, known_agents) for name, below in node.below.items() if name != ANY}
    others = _schema(node.below[ANY], known_agents) if ANY in node.below else False
    return _object(node, properties, others)


def _property(name: str, node: Node, known_agents: Sequence[str]) -> dict[str, Any]:
    if name == "agents" and isinstance(node, Table):
        each = _schema(node.below[ANY], known_agents)
        # An agent of the user's own says how it speaks.
        return _object(node, dict.fromkeys(known_agents, each), {**each, "required": ["dialect"]})
    return _schema(node, known_agents)


def _object(node: Table, properties: dict[str, Any], others: object) -> dict[str, Any]:
    known = {"properties": properties} if properties else {}
    return {"description": node.doc, "type": "object", **known, "additionalProperties": others}
