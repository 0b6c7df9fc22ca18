"""The script is strict: what it did not foresee is refused and complained of, in one sentence."""

import pytest

from .stage import WIRES, Stage

TWICE = '[[call]]\nsay = "a"\nrepeat = 2\n[[call]]\nsay = "b"\n'


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (0, "Call 1 of 2 was never asked for."),
        (1, "Call 1 of 2 was asked for 1 of 2 times."),
        (2, "Call 2 of 2 was never asked for."),
        (3, ""),
        (4, "A request came after the last call: 'hi'."),
    ],
)
def test_calls_left_over_or_too_many_are_complained_of(asked: int, complaint: str) -> None:
    with Stage(TWICE) as stage:
        for _ in range(asked):
            stage.ask("messages")
    assert stage.script.complaint == complaint


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_after_the_end_is_refused_as_an_invalid_request(wire: str) -> None:
    with Stage('[[call]]\nsay = "a"\n') as stage:
        stage.ask(wire)
        response = stage.ask(wire)
        stage.next_call()
        call = stage.next_call()
    assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error")
    assert call.problem == "unexpected request: A request came after the last call: 'hi'."


@pytest.mark.parametrize("asked", [0, 1, 5])
def test_a_tail_that_may_always_be_repeated_need_not_be_used(asked: int) -> None:
    with Stage('[[call]]\nsay = "a"\nrepeat = "always"\n') as stage:
        for _ in range(asked):
            stage.ask("chat")
    assert stage.script.complaint == ""


@pytest.mark.parametrize("wire", WIRES)
def test_an_unmet_expectation_says_what_came_instead(wire: str) -> None:
    with Stage('[[call]]\nexpect = "green"\nsay = "a"\n') as stage:
        response = stage.ask(wire, "red" + "!" * 500)
    assert response.status == 400
    shown = "red" + "!" * 197
    assert stage.script.complaint == f"Call 1 expected 'green', but what came was '{shown}'."


@pytest.mark.parametrize("wire", WIRES)
def test_a_step_that_no_tool_fits_names_those_on_offer(wire: str) -> None:
    with Stage('[[call]]\nrun = "ls"\n') as stage:
        response = stage.ask(wire, tools=({"name": "Read"}, {"name": "Look"}))
    assert response.status == 400
    assert stage.script.complaint == "Call 1 finds no tool for 'ls'; offered: Read, Look."
