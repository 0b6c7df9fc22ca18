"""Forms of MCP servers as questions, and back."""

import pytest

from inspan.dialects.elicitation import fill_form, read_questions
from inspan.protocol.events import Question

SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "How large?"},
        "weight": {"type": "number"},
        "colour": {"type": "string", "oneOf": [{"const": "red", "title": "Red"}, {"const": "blue"}]},
        "gift": {"type": "boolean", "description": "Is it a gift?"},
    },
    "required": ["size"],
}
ALL = {"size": 3, "weight": 1.5, "colour": "blue", "gift": False}


def test_each_field_is_a_question() -> None:
    assert read_questions("Order", SCHEMA) == [
        Question(text="Order: How large?"),
        Question(text="Order: weight"),
        Question(text="Order: colour", options=["red", "blue"]),
        Question(text="Order: Is it a gift?", options=["yes", "no"]),
    ]


@pytest.mark.parametrize(
    ("answers", "filled"),
    [
        ({"How large?": "3"}, {"size": 3}),
        ({"How large?": "3", "weight": "1.5", "colour": "blue", "Is it a gift?": "no"}, ALL),
        ({"How large?": "three"}, None),
        ({"How large?": "3", "colour": "green"}, None),
        ({"weight": "1"}, None),
        ({}, None),
    ],
)
def test_answers_fill_the_form_or_it_is_declined(answers: dict[str, str], filled: dict[str, object] | None) -> None:
    given = {f"Order: {text}": answer for text, answer in answers.items()}
    assert fill_form("Order", SCHEMA, given) == filled


@pytest.mark.parametrize("schema", [None, {}, {"properties": 5}, {"properties": {}}, "x"])
def test_a_form_without_fields_wants_a_yes_or_no(schema: object) -> None:
    assert read_questions("Really?", schema) == [Question(text="Really?", options=["yes", "no"])]
    assert fill_form("Really?", schema, {"Really?": "yes"}) == {}
    assert fill_form("Really?", schema, {"Really?": "no"}) is None
    assert fill_form("Really?", schema, {}) is None
