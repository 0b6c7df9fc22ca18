"""The script is strict: what it did not foresee is refused and complained of, in one sentence."""

import pytest

from .scripted_gateway import INVALID_REQUEST, WIRES, ScriptedGateway, error_kind, text_in_body, tool_in_body

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
    with ScriptedGateway(TWICE) as stage:
        for _ in range(asked):
            stage.ask("messages")
    assert stage.script.mismatch == complaint


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_after_the_end_is_refused_as_an_invalid_request(wire: str) -> None:
    with ScriptedGateway('[[call]]\nsay = "a"\n') as stage:
        stage.ask(wire)
        response = stage.ask(wire)
        stage.next_call()
        call = stage.next_call()
    assert (response.status, error_kind(wire, response.json)) == (400, INVALID_REQUEST[wire])
    assert call.problem == "unexpected request: A request came after the last call: 'hi'."


@pytest.mark.parametrize("asked", [0, 1, 5])
def test_a_tail_that_may_always_be_repeated_need_not_be_used(asked: int) -> None:
    with ScriptedGateway('[[call]]\nsay = "a"\nrepeat = "always"\n') as stage:
        for _ in range(asked):
            stage.ask("chat")
    assert stage.script.mismatch == ""


@pytest.mark.parametrize("wire", WIRES)
def test_an_unmet_expectation_says_what_came_instead(wire: str) -> None:
    with ScriptedGateway('[[call]]\nexpect = "green"\nsay = "a"\n') as stage:
        response = stage.ask(wire, "red" + "!" * 500)
    assert response.status == 400
    shown = "red" + "!" * 197
    assert stage.script.mismatch == f"Call 1 expected 'green', but what came was '{shown}'."


@pytest.mark.parametrize("wire", WIRES)
def test_a_step_that_no_tool_fits_names_those_on_offer(wire: str) -> None:
    with ScriptedGateway('[[call]]\nrun = "ls"\n') as stage:
        response = stage.ask(wire, tools=({"name": "Read"}, {"name": "Look"}))
    assert response.status == 400
    assert stage.script.mismatch == "Call 1 finds no tool for 'ls'; offered: Read, Look."


OUT_OF_ORDER = """
[[call]]
say = "first"
[[call]]
when = "please"
say = "at your service"
[[call]]
say = "second"
[[call]]
when = "never"
fail = {status = 500}
"""


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_out_of_order_is_given_whenever_its_text_comes(wire: str) -> None:
    with ScriptedGateway(OUT_OF_ORDER) as stage:
        texts = ["do please", "one", "two", "please again"]
        said = [text_in_body(wire, stage.ask(wire, text, stream=False).json) for text in texts]
    assert said == ["at your service", "first", "second", "at your service"]
    assert stage.script.mismatch == ""


def test_an_answer_out_of_order_may_have_expectations_of_its_own() -> None:
    with ScriptedGateway('[[call]]\nwhen = "red"\nexpect = "green"\nsay = "a"\n') as stage:
        assert stage.ask("chat", "red").status == 400
    assert stage.script.mismatch == "Call 0 expected 'green', but what came was 'red'."


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("texts", "missing"),
    [('"say"', ""), ("['say \"it\"', 'é\\n']", ""), ("['hi', 'gone']", "gone")],
    ids=["one", "as-spelled", "not-there"],
)
def test_a_text_may_be_expected_anywhere_in_a_request(wire: str, texts: str, missing: str) -> None:
    with ScriptedGateway(f'[[call]]\nexpect_anywhere = {texts}\nsay = "a"\n') as stage:
        response = stage.ask(wire, 'hi, say "it" é\\n')
    assert response.status == (400 if missing else 200)
    complaint = f"Call 1 expected '{missing}' anywhere in the request, and it is not there."
    assert stage.script.mismatch == (complaint if missing else "")


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_is_called_by_its_name_whether_or_not_it_is_offered(wire: str) -> None:
    with ScriptedGateway("[[call]]\nuse = {tool = 'Look', input = {at = 'me'}}\nrepeat = 2\n") as stage:
        uses = [
            tool_in_body(wire, stage.ask(wire, stream=False, tools=tools).json)
            for tools in ((), ({"name": "Look", "fields": ("at",)},))
        ]
    assert uses == [("Look", {"at": "me"})] * 2


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_goes_through_the_tool_for_answers_or_is_said(wire: str) -> None:
    with ScriptedGateway("[[call]]\nanswer = {n = 1}\nrepeat = 2\n") as stage:
        through = stage.ask(wire, stream=False, tools=({"name": "StructuredOutput"},)).json
        said = stage.ask(wire, stream=False, tools=({"name": "Bash"},)).json
    assert tool_in_body(wire, through) == ("StructuredOutput", {"n": 1})
    assert text_in_body(wire, said) == '{"n":1}'


_OPTIONAL = """
[[call]]
run = "ls"
optional = true
[[call]]
write = {path = "f", content = "x"}
optional = true
repeat = 2
[[call]]
say = "done"
"""


@pytest.mark.parametrize("wire", WIRES)
def test_an_optional_step_is_left_out_where_no_tool_fits(wire: str) -> None:
    with ScriptedGateway(_OPTIONAL) as stage:
        response = stage.ask(wire, stream=False, tools=({"name": "Look"},))
    assert (text_in_body(wire, response.json), stage.script.mismatch) == ("done", "")


@pytest.mark.parametrize("wire", WIRES)
def test_an_optional_step_is_played_where_one_fits(wire: str) -> None:
    writer = {"name": "write_file", "fields": ("path", "content")}
    with ScriptedGateway(_OPTIONAL) as stage:
        uses = [tool_in_body(wire, stage.ask(wire, stream=False, tools=(writer,)).json) for _ in range(2)]
        last = stage.ask(wire, stream=False, tools=(writer,)).json
    assert uses == [("write_file", {"path": "/f", "content": "x"})] * 2
    assert (text_in_body(wire, last), stage.script.mismatch) == ("done", "")


def test_steps_that_are_all_left_out_leave_nothing_to_say() -> None:
    with ScriptedGateway('[[call]]\nrun = "ls"\noptional = true\n') as stage:
        assert stage.ask("chat").status == 400
    assert stage.script.mismatch == "A request came after the last call: 'hi'."


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_without_tools_is_answered_aside_and_uses_no_step(wire: str) -> None:
    scenario = 'asides = true\n[[call]]\nsay = "first"\n[[call]]\nwhen = "please"\nsay = "at your service"\n'
    with ScriptedGateway(scenario) as stage:
        said = [
            text_in_body(wire, stage.ask(wire, text, stream=False, tools=tools).json)
            for text, tools in (
                ("a title", ()),
                ("please", ()),
                ("go", ({"name": "Look", "fields": ("at",)},)),
                ("a title", ({"name": "web_search"},)),  # A tool of the provider's, which takes nothing.
            )
        ]
    assert said == ["An aside.", "at your service", "first", "An aside."]
    assert stage.script.mismatch == ""


def test_without_asides_a_request_without_tools_is_one_like_any_other() -> None:
    with ScriptedGateway('[[call]]\nsay = "first"\n') as stage:
        assert text_in_body("chat", stage.ask("chat", stream=False).json) == "first"
