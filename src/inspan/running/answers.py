"""Answers that must fit a JSON Schema: the schema itself, the answer, and the words that ask again."""

from typing import Any, cast

import jsonschema_rs
import msgspec

from inspan.errors import BadInput
from inspan.protocol.outcome import Reason
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS
from inspan.stores.large_text import restore_large_texts

MAX_REPAIRS = 2
_MAX_PROBLEM_CHARACTERS = 400
_FENCE = "```"
_NOT_RESUMED: tuple[Reason, ...] = ("environment", "session_not_found")


class SchemaMismatch(Exception):
    """Why an answer does not fit, as a sentence for the agent and the user."""


def check_schema(schema: dict[str, Any]) -> None:
    """Raises `BadInput` for what is no JSON Schema, or points outside itself."""
    try:
        _build_validator(schema)
        msgspec.msgpack.encode(schema)  # As a supervisor gets it: some numbers are too large for that.
    except (ValueError, OverflowError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
        problem = f"it is not a JSON Schema: {_first_line(str(error))}."
        raise BadInput("output_schema", schema, problem, next_step="Correct it.") from error


def parse_answer(text: str, schema: dict[str, Any], *, folder: str) -> Any:
    """The JSON value of an answer; raises `SchemaMismatch` when it is none or does not fit the schema.

    `folder` is the run's: an answer may be so large that the log only refers to it.
    """
    if not text.strip():
        raise SchemaMismatch("there was no answer at all")
    try:
        value = restore_large_texts(
            msgspec.json.decode(strip_fence(restore_large_texts(text, folder=folder)).encode()), folder=folder
        )
    except DECODE_ERRORS as error:
        raise SchemaMismatch(f"it is not one JSON value ({error})") from error
    for problem in _build_validator(schema).iter_errors(value):
        place = "/".join(str(key) for key in problem.instance_path)
        raise SchemaMismatch(f"{'at ' + place + ': ' if place else ''}{problem.message[:_MAX_PROBLEM_CHARACTERS]}")
    return value


class Repairs:
    """Asks again for an answer that does not fit its schema, at most `most` times; `asked` says how often it has.

    In the session of the run that gave it, if there is one and it can be resumed: `resumes` says what is known of the
    agent. One that has a session and turns out not to resume it is asked once more for the same, from the beginning.
    """

    def __init__(self, task: Task, *, most: int = MAX_REPAIRS, resumes: bool = True) -> None:
        self._task = task
        self._most = most
        self.asked = 0
        self._resumes = resumes
        self._in_session = False
        self._problem = ""

    def plan_next(self, reason: Reason, problem: str, *, run_id: str, session_id: str) -> Task | None:
        """The task that asks again, given how the last run ended; `None` where it fits, or nothing more is asked."""
        if self._in_session and reason in _NOT_RESUMED:
            self._resumes = self._in_session = False
            return build_repair(self._task, self._problem, run_id=run_id, session_id="")
        if reason != "unfit_answer" or self.asked >= self._most:
            return None
        self.asked += 1
        self._problem = problem
        self._in_session = self._resumes and bool(session_id)
        return build_repair(self._task, problem, run_id=run_id, session_id=session_id if self._in_session else "")


def build_repair(task: Task, problem: str, *, run_id: str, session_id: str) -> Task:
    """The task that asks again for an answer that did not fit, given the run that it came from and its session.

    The session knows what was said and attached; where there is none, all is said again.
    """
    words = f"Your answer could not be used: {problem}. Give the whole answer again, corrected, in the form asked for."
    if not session_id:
        return msgspec.structs.replace(task, prompt=f"{task.prompt}\n\n{words}", name="")
    return msgspec.structs.replace(task, prompt=words, resume=run_id, fork=False, attachments=(), name="")


def _build_validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    # Nothing is fetched for a schema: a reference must stay inside it.
    return cast(Any, jsonschema_rs.validator_for(schema, retriever=_refuse_reference))


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"{uri} lies outside the schema")


def strip_fence(text: str) -> str:
    """The text without a Markdown fence around all of it, which models like to add."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        return text[text.index("\n") : -len(_FENCE)].strip()
    return text


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0].rstrip(".")
