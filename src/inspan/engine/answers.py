"""Answers that must fit a JSON Schema: the schema itself, the answer, and the words that ask again."""

from typing import Any, cast

import jsonschema_rs
import msgspec

from inspan.errors import BadInput
from inspan.protocol.wire import UNREADABLE

from .large import whole

REPAIRS = 2
_SHOWN_CHARACTERS = 400
_FENCE = "```"


class Misfit(Exception):
    """Why an answer does not fit, as a sentence for the agent and the user."""


def check_schema(schema: dict[str, Any]) -> None:
    """Raises `BadInput` for what is no JSON Schema, or points outside itself."""
    try:
        _validator(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        problem = f"it is no JSON Schema: {_first_line(str(error))}."
        raise BadInput("output_schema", schema, problem, next_step="Correct it.") from error


def answer_of(text: str, schema: dict[str, Any], *, folder: str) -> Any:
    """The JSON value of an answer; raises `Misfit` when it is none or does not fit the schema.

    `folder` is the run's: an answer may be so large that the log only refers to it.
    """
    if not text.strip():
        raise Misfit("there was no answer at all")
    try:
        value = whole(msgspec.json.decode(unfenced(whole(text, folder=folder)).encode()), folder=folder)
    except UNREADABLE as error:
        raise Misfit(f"it is not one JSON value ({error})") from error
    for problem in _validator(schema).iter_errors(value):
        place = "/".join(str(key) for key in problem.instance_path)
        raise Misfit(f"{'at ' + place + ': ' if place else ''}{problem.message[:_SHOWN_CHARACTERS]}")
    return value


def repair_prompt(problem: str) -> str:
    """What is said to an agent whose answer did not fit."""
    return f"Your answer could not be used: {problem}. Give the whole answer again, corrected, in the form asked for."


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    # Nothing is fetched for a schema: a reference must stay inside it.
    return cast(Any, jsonschema_rs.validator_for(schema, retriever=_refuse))


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} lies outside the schema")


def unfenced(text: str) -> str:
    """The text without a Markdown fence around all of it, which models like to add."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        return text[text.index("\n") : -len(_FENCE)].strip()
    return text


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0].rstrip(".")
