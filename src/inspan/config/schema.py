"""JSON Schema of a configuration file, for editors that complete and check TOML."""

from collections.abc import Sequence
from typing import Any

from .keys import ANY, Leaf, Node, Table, key_tree

VERSION = 1


def json_schema(*, known_agents: Sequence[str]) -> dict[str, Any]:
    """The schema of one file, with these agents."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"inspan:config:{VERSION}",
        "title": "inspan configuration",
        **_build_schema(key_tree(), known_agents),
    }


def _build_schema(node: Node, known_agents: Sequence[str]) -> dict[str, Any]:
    if isinstance(node, Leaf):
        kind = node.note.value_type
        return {"description": node.note.doc, **kind.schema, "default": kind.to_toml(node.default)}
    properties = {name: _build_property(name, below, known_agents) for name, below in node.below.items() if name != ANY}
    others = _build_schema(node.below[ANY], known_agents) if ANY in node.below else False
    return _build_object(node, properties, others)


def _build_property(name: str, node: Node, known_agents: Sequence[str]) -> dict[str, Any]:
    if name == "agents" and isinstance(node, Table):
        each = _build_schema(node.below[ANY], known_agents)
        # An agent of the user's own says how it speaks.
        return _build_object(node, dict.fromkeys(known_agents, each), {**each, "required": ["dialect"]})
    return _build_schema(node, known_agents)


def _build_object(node: Table, properties: dict[str, Any], others: object) -> dict[str, Any]:
    known = {"properties": properties} if properties else {}
    return {"description": node.doc, "type": "object", **known, "additionalProperties": others}
