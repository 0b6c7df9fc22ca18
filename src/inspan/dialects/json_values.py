"""Looking into JSON that a stranger wrote: what is missing or of another kind is empty, never an error."""

from collections.abc import Iterable
from typing import Any, cast

Json = dict[str, Any]


def as_object(value: object) -> Json:
    """The object, or an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


def get_object(value: object, *path: str) -> Json:
    """The object at a path of keys."""
    for key in path:
        value = as_object(value).get(key)
    return as_object(value)


def as_list(value: object) -> list[Any]:
    """The list, or an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_objects(value: object) -> list[Json]:
    """The objects in a list."""
    return [cast(Json, each) for each in as_list(value) if isinstance(each, dict)]


def get_text(source: Json, key: str) -> str:
    """The text at a key."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def as_texts(value: object) -> list[str]:
    """The texts in a list."""
    return [each for each in as_list(value) if isinstance(each, str)]


def parts_to_text(parts: Iterable[Json]) -> str:
    """What a tool gave back in parts, as text: of a part that has none, its kind."""
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in parts)


def get_int(source: Json, key: str) -> int:
    """The whole number at a key, or 0."""
    value = source.get(key)
    return value if isinstance(value, int) else 0
