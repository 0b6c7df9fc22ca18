"""Answers and their schemas: what fits, what does not and why, and what is no schema at all."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.errors import BadInput
from inspan.protocol.task import Task
from inspan.running.answers import SchemaMismatch, build_repair, check_schema, parse_answer, strip_fence

NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "array", "items": {"type": "integer"}}},
    "required": ["n"],
}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ('{"n": [1, 2]}', NUMBERS, {"n": [1, 2]}),
        ('\n```json\n{"n": []}\n```\n', NUMBERS, {"n": []}),
        ('```\n{"n": []}```', NUMBERS, {"n": []}),
        ("[1]", {"type": "array"}, [1]),
        ("null", {}, None),
        ('"[large: words"', {"type": "string"}, "[large: words"),
        ("1", {"$ref": "#"}, 1),
        (str(10**30), {"type": "integer"}, 10**30),
        (
            '{"a": 1}',
            {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"minimum": 1}}},
            {"a": 1},
        ),
    ],
)
def test_an_answer_that_fits_is_its_value(text: str, schema: dict[str, Any], value: Any) -> None:
    assert parse_answer(text, schema, folder="/nowhere") == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there was no answer at all"),
        (" \n", "there was no answer at all"),
        ("I would rather not.", "it is not one JSON value (JSON is malformed: invalid character (byte 0))"),
        ('{"n": []} {"n": []}', "it is not one JSON value (JSON is malformed: trailing characters (byte 11))"),
        ('Here:\n```json\n{"n": []}\n```', "it is not one JSON value (JSON is malformed: invalid character (byte 0))"),
        ("[" * 100_000, "it is not one JSON value (maximum recursion depth exceeded"),
        ("NaN", "it is not one JSON value ("),
        ("[]", '[] is not of type "object"'),
        ("{}", '"n" is a required property'),
        ('{"n": [1, "two"]}', 'at n/1: "two" is not of type "integer"'),
    ],
)
def test_an_answer_that_does_not_fit_says_why(text: str, problem: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        parse_answer(text, NUMBERS, folder="/nowhere")
    assert str(caught.value).startswith(problem)


def test_a_long_complaint_is_cut() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        parse_answer(f'"{"x" * 10_000}"', {"type": "integer"}, folder="/nowhere")
    assert len(str(caught.value)) <= 400


def test_an_answer_that_lies_beside_the_log_is_put_together_first(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "5-1.txt").write_text('{"n": [7]}')
    (tmp_path / "large" / "6-1.txt").write_text("many words")
    folder = str(tmp_path)
    assert parse_answer("[large: 10 bytes in large/5-1.txt]", NUMBERS, folder=folder) == {"n": [7]}
    inside = '{"text": "[large: 10 bytes in large/6-1.txt]"}'
    assert parse_answer(inside, {"type": "object"}, folder=folder) == {"text": "many words"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "nonsense"}, "it is not a JSON Schema: "),
        ({"properties": []}, "it is not a JSON Schema: "),
        ({"pattern": "("}, "it is not a JSON Schema: "),
        ({"$ref": "#/$defs/gone"}, "it is not a JSON Schema: "),
        ({"$ref": "file:///etc/passwd"}, "it is not a JSON Schema: "),
        ({"$schema": "http://127.0.0.1:9/draft"}, "it is not a JSON Schema: "),
        ({"maximum": 10**30}, "it is not a JSON Schema: "),
    ],
    ids=["type", "properties", "pattern", "dangling", "outside", "draft", "huge"],
)
def test_what_is_no_schema_is_refused_in_one_line(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_schema(schema)
    assert (caught.value.field, caught.value.value) == ("output_schema", schema)
    assert caught.value.message.startswith(f"output_schema {schema!r}: {problem}")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("schema", [{}, NUMBERS, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}])
def test_a_schema_is_a_schema(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("```json\n{}\n```", "{}"),
        (" ```\n{}\n``` ", "{}"),
        ("```{}```", "```{}```"),
        ("{}", "{}"),
        ("```json\n{}\n``` and more", "```json\n{}\n``` and more"),
    ],
)
def test_a_fence_around_all_of_an_answer_is_taken_off(text: str, bare: str) -> None:
    assert strip_fence(text) == bare


_REPAIR = (
    "Your answer could not be used: at n: 1 is not text. Give the whole answer again, corrected, in the form asked for."
)


def test_whoever_is_asked_again_in_its_session_is_told_only_what_was_wrong() -> None:
    task = Task(prompt="count", cwd="/w", resume="before", fork=True, attachments=("/a",))
    again = build_repair(task, "at n: 1 is not text", run_id="run-1", session_id="its-own")
    assert again == Task(prompt=_REPAIR, cwd="/w", resume="run-1")


def test_whoever_has_no_session_is_told_everything_again() -> None:
    task = Task(prompt="count", cwd="/w", resume="before", fork=True, attachments=("/a",))
    again = build_repair(task, "at n: 1 is not text", run_id="run-1", session_id="")
    assert again == msgspec.structs.replace(task, prompt=f"count\n\n{_REPAIR}")


@pytest.mark.parametrize("session_id", ["", "its-own"])
def test_a_name_stays_with_the_run_that_has_it(session_id: str) -> None:
    task = Task(prompt="count", cwd="/w", name="counts")
    assert build_repair(task, "at n: 1 is not text", run_id="run-1", session_id=session_id).name == ""
