"""What an MCP server asks the user in the middle of a call: a form, put as questions and filled in by their answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from inspan.protocol.events import Question

from .json_values import Json, as_object, as_objects, as_texts, get_object, get_text

_YES, _NO = "yes", "no"


def read_questions(message: str, schema: object) -> list[Question]:
    """One question for each field; a form without fields wants a yes or no."""
    fields = [Question(text=text, options=_list_options(field)) for text, _, field in _iter_fields(message, schema)]
    return fields or [Question(text=message, options=[_YES, _NO])]


def fill_form(message: str, schema: object, answers: Mapping[str, str]) -> Json | None:
    """The form with these answers, by the questions' texts; None where a field that is needed has no fit answer."""
    fields = list(_iter_fields(message, schema))
    if not fields:
        return {} if answers.get(message) == _YES else None
    required = as_texts(as_object(schema).get("required"))
    filled: Json = {}
    for text, name, field in fields:
        value = _read_value(field, answers[text]) if text in answers else None
        if value is not None:
            filled[name] = value
        elif name in required or text in answers:
            return None
    return filled


def _iter_fields(message: str, schema: object) -> Iterator[tuple[str, str, Json]]:
    """The text that a field is asked for by, its name, and what it may hold."""
    for name, field in get_object(schema, "properties").items():
        known = as_object(field)
        label = get_text(known, "title") or get_text(known, "description") or name
        yield f"{message}: {label}", name, known


def _list_options(field: Json) -> list[str]:
    if field.get("type") == "boolean":
        return [_YES, _NO]
    return as_texts(field.get("enum")) or [get_text(each, "const") for each in as_objects(field.get("oneOf"))]


def _read_value(field: Json, answer: str) -> Any:
    """The answer as the field has it; None where it is no such value."""
    options, kind = _list_options(field), field.get("type")
    if options and answer not in options:
        return None
    if kind == "boolean":
        return answer == _YES
    try:
        return int(answer) if kind == "integer" else float(answer) if kind == "number" else answer
    except ValueError:
        return None
