"""The schema for editors accepts what is accepted, and knows every key."""

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from inspan.config.keys import key_tree, leaves
from inspan.config.schema import json_schema

from .home import AGENTS

SCHEMA = json_schema(known_agents=AGENTS)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def fits(value: object, schema: dict[str, Any]) -> bool:
    """As much of JSON Schema as ours uses; an unknown word in it is an error."""
    words = set(schema) - {"$schema", "$id", "title", "description", "default"}
    return all(_RULES[word](value, schema[word], schema) for word in words)


def _fits_type(value: object, name: str, _: Any) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _fits_properties(value: object, properties: dict[str, Any], _: Any) -> bool:
    table = cast(dict[str, object], value)
    return all(fits(table[name], schema) for name, schema in properties.items() if name in table)


def _fits_others(value: object, others: Any, schema: dict[str, Any]) -> bool:
    table = cast(dict[str, object], value) if isinstance(value, dict) else {}
    left = {name: each for name, each in table.items() if name not in schema.get("properties", {})}
    return not left if others is False else all(fits(each, others) for each in left.values())


_RULES: dict[str, Callable[[Any, Any, dict[str, Any]], bool]] = {
    "type": _fits_type,
    "properties": lambda value, properties, schema: (
        isinstance(value, dict) and _fits_properties(cast(object, value), properties, schema)
    ),
    "additionalProperties": _fits_others,
    "items": lambda value, items, _: (
        isinstance(value, list) and all(fits(each, items) for each in cast(list[object], value))
    ),
    "enum": lambda value, names, _: value in names,
    "const": lambda value, only, _: value == only,
    "pattern": lambda value, pattern, _: isinstance(value, str) and re.search(pattern, value) is not None,
    "minimum": lambda value, least, _: not isinstance(value, int | float) or value >= least,
    "exclusiveMinimum": lambda value, least, _: not isinstance(value, int | float) or value > least,
    "required": lambda value, names, _: isinstance(value, dict) and set(names) <= set(cast(dict[str, object], value)),
    "anyOf": lambda value, options, _: any(fits(value, option) for option in options),
}


def test_every_key_is_in_the_schema_with_its_words() -> None:
    for path, leaf in leaves(key_tree()):
        node: Any = SCHEMA
        for name in path:
            known = node.get("properties", {})
            node = known.get(name) or known.get("codex") or node["additionalProperties"]
        assert node["description"] == leaf.note.doc


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"runtime": {"default": "codex", "profile": "clean"}, "models": {"gpt-5.2": "x"}},
        {"limits": {"timeout": "10m", "start_timeout": 5, "idle_timeout": 0.5, "stall_timeout": "off", "max_turns": 3}},
        {"limits": {"max_turns": "off"}},
        {"agents": {"mine": {"dialect": "codex", "command": "my-codex", "flags": ["-v"]}}},
        {"agents": {"my-agent": {"login": True, "options": ["-v"], "env": {"A": "1"}, "keyring": "a/b"}}},
        {"mcp": {"docs": {"command": "serve", "args": ["x"], "headers": {"A": "b"}}}},
        {"projects": {"trusted": ["/a"]}},
    ],
)
def test_what_is_right_fits(value: dict[str, object]) -> None:
    assert fits(value, SCHEMA)


@pytest.mark.parametrize(
    "value",
    [
        {"zzz": {}},
        {"runtime": {"defalt": "codex"}},
        {"runtime": "codex"},
        {"runtime": {"profile": "mine"}},
        {"models": {"fast": 1}},
        {"limits": {"timeout": "soon"}},
        {"limits": {"timeout": 0}},
        {"limits": {"max_turns": 0}},
        {"agents": {"cdoex": {}}},
        {"agents": {"codex": {"login": "yes"}}},
        {"agents": {"codex": {"options": "-v"}}},
        {"agents": {"codex": {"env": {"A": 1}}}},
        {"mcp": {"docs": {"ulr": "x"}}},
    ],
)
def test_what_is_wrong_does_not_fit(value: dict[str, object]) -> None:
    assert not fits(value, SCHEMA)
