"""Arguments that fit what a tool's schema asks for."""

from collections.abc import Mapping
from typing import Any

from inspan.gateway.upstream import Tool

_MAX_DEPTH = 6


def fill_arguments(tool: Tool, meant: Mapping[str, object]) -> dict[str, Any]:
    """These arguments as far as the tool has them, and for all else that it requires the plainest value."""
    schema = tool.schema or {"properties": {name: {"type": type_} for name, type_ in tool.fields.items()}}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required")
    wanted: list[Any] = required if isinstance(required, list) else list(properties) if not tool.schema else []  # pyright: ignore[reportUnknownVariableType]  JSON
    given = {name: _coerce(properties[name], value) for name, value in meant.items() if name in properties}
    return {name: _default_value(properties[name]) for name in properties if name in wanted} | given


def _coerce(schema: object, value: object) -> object:
    """The value in the shape that an argument has."""
    kind = _schema_type(schema)
    if kind == "array":
        return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]  JSON
    return value if kind in ("string", "") else _default_value(schema)


def _default_value(schema: object, depth: int = 0) -> object:
    """The plainest value that fits a schema."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "tried"
    declared: Mapping[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]  JSON
    for key in ("const", "default"):
        if declared.get(key) is not None:
            return declared[key]
    if declared.get("enum"):
        return declared["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if declared.get(key):
            return _default_value(declared[key][0], depth + 1)
    match _schema_type(declared):
        case "object":
            inner: Mapping[str, Any] = declared.get("properties") or {}
            return {
                name: _default_value(inner[name], depth + 1) for name in declared.get("required") or () if name in inner
            }
        case "array":
            return [_default_value(declared.get("items"), depth + 1)] if declared.get("minItems") else []
        case "integer" | "number":
            return declared.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "tried"


def _schema_type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  JSON
    if isinstance(kind, list):
        kind = kind[0] if kind else ""  # pyright: ignore[reportUnknownVariableType]  JSON
    return kind.lower() if isinstance(kind, str) else ""
