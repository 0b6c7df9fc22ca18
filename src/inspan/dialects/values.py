"""Looking into JSON that a stranger wrote: what is missing or of another kind is empty, never an error."""

from collections.abc import Iterable
from typing import Any, cast

Json = dict[str, Any]


def table(value: object) -> Json:
    """The object, or an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


def inner(value: object, *path: str) -> Json:
    """The object at a path of keys."""
    for key in path:
        value = table(value).get(key)
    return table(value)


def listed(value: object) -> list[Any]:
    """The list, or an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def tables(value: object) -> list[Json]:
    """The objects in a list."""
    return [cast(Json, each) for each in listed(value) if isinstance(each, dict)]


def word(source: Json, key: str) -> str:
    """The text at a key."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def words(value: object) -> list[str]:
    """The texts in a list."""
    return [each for each in listed(value) if isinstance(each, str)]


def shown(parts: Iterable[Json]) -> str:
    """What a tool gave back in parts, as text: of a part that has none, its kind."""
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in parts)


def number(source: Json, key: str) -> int:
    """The whole number at a key, or 0."""
    value = source.get(key)
    return value if isinstance(value, int) else 0
