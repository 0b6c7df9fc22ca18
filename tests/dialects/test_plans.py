"""Lists of steps, as agents write them with a tool of their own."""

import pytest

from inspan.dialects.plans import plan_events
from inspan.protocol.events import PlanChanged, PlanStep


def test_each_step_has_its_words_and_its_state() -> None:
    todos = [
        {"content": "look", "status": "completed"},
        {"content": "write", "status": "in_progress"},
        {"content": "test", "status": "pending"},
        {"content": 7},
        "no step",
    ]
    assert plan_events(todos) == [
        PlanChanged(
            steps=[
                PlanStep(text="look", state="done"),
                PlanStep(text="write", state="active"),
                PlanStep(text="test"),
                PlanStep(text=""),
            ]
        )
    ]


def test_the_words_of_a_step_may_have_another_name() -> None:
    assert plan_events([{"description": "look"}], text="description") == [PlanChanged(steps=[PlanStep(text="look")])]


@pytest.mark.parametrize("todos", [None, "x", {}, 3])
def test_what_is_no_list_is_no_plan(todos: object) -> None:
    assert plan_events(todos) == []
