"""Values by name inside of texts: `{{name}}`, and `{{name.field.0}}` for a part of one that is JSON."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from inspan.errors import BadInput
from inspan.loop.prompts import is_cut
from inspan.protocol.wire import DECODE_ERRORS

PREVIOUS = "previous"
_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_REFERENCE = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_INDEX = re.compile(r"[0-9]{1,9}")
_NOTHING = ("", "false", "no", "null", "0", "[]", "{}")


def list_references(text: str, *, field: str) -> list[str]:
    """The names in a text, each with the path behind it; raises `BadInput` for braces around something else."""
    return [_check_reference(match[1].strip(), field=field) for match in _BRACES.finditer(text)]


def find_whole_reference(text: str) -> str:
    """The name where the text is one reference and nothing else; else nothing."""
    match = _BRACES.fullmatch(text.strip())
    return match[1].strip() if match else ""


def name_of(reference: str) -> str:
    """The name without the path; of what a node came to in the round before, with that."""
    parts = reference.split(".")
    return ".".join(parts[:2]) if parts[0] == PREVIOUS else parts[0]


def fill(text: str, values: Mapping[str, str], *, field: str) -> str:
    """The text with the values in their places; what stands in a value is never looked at again. Raises `BadInput` for
    a path that leads nowhere."""
    return _BRACES.sub(lambda match: look_up(match[1].strip(), values, field=field), text)


def holds_something(reference: str, values: Mapping[str, str], *, field: str) -> bool:
    """Whether a value says yes: anything but nothing, `false`, `no`, `null`, `0` and what is empty."""
    return look_up(reference, values, field=field).strip().lower() not in _NOTHING


def look_up(reference: str, values: Mapping[str, str], *, field: str) -> str:
    """One value, or a part of one, as text."""
    name = name_of(reference)
    found, path = values.get(name, ""), reference[len(name) :].split(".")[1:]
    if not path or not found.strip():
        return found
    try:
        value: Any = msgspec.json.decode(found)
    except DECODE_ERRORS as error:
        if is_cut(found):
            problem = f"{name} was too long to be kept whole, so that it has no parts."
            step = f'Let the node print less, or give it whole: outputs = {{ {name} = "stdout" }}.'
            raise BadInput(field, reference, problem, next_step=step) from error
        step = f"Use {{{{{name}}}}}, or let the node give JSON."
        raise BadInput(field, reference, f"{name} is no JSON, so that it has no parts.", next_step=step) from error
    for part in path:
        value = _take(value, part, reference, field=field)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _take(value: Any, part: str, reference: str, *, field: str) -> Any:
    if isinstance(value, dict) and part in value:
        return cast(dict[str, Any], value)[part]
    if isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(cast(list[Any], value)):
        return cast(list[Any], value)[int(part)]
    known = ", ".join(_list_parts(value)) or "none"
    raise BadInput(field, reference, f"there is no {part!r} in it.", next_step=f"Its parts are: {known}.")


def _list_parts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from map(str, cast(dict[str, Any], value))
    elif isinstance(value, list):
        yield from map(str, range(len(cast(list[Any], value))))


def _check_reference(reference: str, *, field: str) -> str:
    if not _REFERENCE.fullmatch(reference) or reference == PREVIOUS:
        step = "Write {{NAME}} or {{NAME.FIELD}}; for braces of your own, put the text into a file."
        raise BadInput(field, f"{{{{{reference}}}}}", "it is no name.", next_step=step)
    return reference
