"""What a client is asked with, looked at in one place: the same is refused in the same words, here and by a server."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast, get_args

import msgspec

from inspan.errors import BadInput
from inspan.protocol.events import Event
from inspan.protocol.known_types import know_type

T = TypeVar("T", bound=msgspec.Struct)
# A field that is missing, or that there is not.
_FIELD = re.compile(r"field `([^`]*)`$")


@cache
def event_kinds() -> frozenset[str]:
    """Every kind of event that a log may hold."""
    return frozenset(str(event.__struct_config__.tag) for event in get_args(Event))


def convert_fields(kind: type[T], given: dict[str, Any], *, name: str, strict: bool = True) -> T:
    """What is given as fields, as a value of this kind; raises `BadInput` that names the field. `name` stands for all
    of them."""
    for field, value in given.items():
        _check_sendable(field, value)
    try:
        params = msgspec.convert(given, know_type(kind), strict=strict)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        named = _FIELD.search(problem)
        field = ".".join(filter(None, (place.removeprefix("$").lstrip(".").rstrip("`"), named[1] if named else "")))
        field = field or name
        fields = ", ".join(kind.__struct_fields__) or "none"
        raise BadInput(field, _value_at(given, field), f"{problem}.", next_step=f"Fields: {fields}.") from error
    _check_kinds(getattr(params, "kinds", ()))
    return params


def refuse_future(field: str, given: int, last: int, *, of: str) -> None:
    """Whoever has heard more than there is speaks of another run, and would wait for ever."""
    if given > last:
        step = f"Start again with `{field}=0`."
        raise BadInput(field, given, f"it is from the future: {of}.", next_step=step)


def _check_sendable(field: str, value: object) -> None:
    """Raises `BadInput` for what JSON cannot say, as null for a number means "no limit", and what no file can hold."""
    if isinstance(value, Mapping):
        for name, each in cast(Mapping[object, object], value).items():
            _check_sendable(f"{field}.{name}", name)
            _check_sendable(f"{field}.{name}", each)
    elif isinstance(value, list | tuple):
        for each in cast(Sequence[object], value):
            _check_sendable(field, each)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput(field, value, "it is not a finite number.", next_step="Leave it out for no limit.")
    elif isinstance(value, str) and (problem := _find_text_problem(value)):
        raise BadInput(field, ascii(value), problem, next_step="Leave that character out.")


def _find_text_problem(text: str) -> str:
    if "\0" in text:
        return "it has a zero byte."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair, which is no text."
    return ""


def _check_kinds(kinds: Sequence[str]) -> None:
    if unknown := sorted(set(kinds) - event_kinds()):
        raise BadInput("kinds", unknown[0], "it is no kind of event.", next_step="`inspan schema` lists them.")


def _value_at(given: Any, field: str) -> Any:
    """The value at `task.cwd` and the like; nothing for what is not a plain one."""
    for part in field.partition("[")[0].split("."):
        given = cast(dict[str, Any], given).get(part) if isinstance(given, dict) else None
    return given if isinstance(given, str | int | float | bool) else ""
