"""Controls: asked in order before each call, told of the end of what they let through, and never passed by."""

import asyncio
import http.client
import socket
from collections.abc import Sequence

import pytest

from inspan.gateway import Gateway, ModelCall, Request, ScriptUpstream, parse_scenario
from inspan.gateway.control import Control, Refusal

from .scripted_gateway import PATHS, TOKEN, WAIT_S, Response, ask_body, exchange

SAYS = '[[call]]\nsay = "hello"\nrepeat = "always"\n'


class RecordingControl:
    """A control that keeps a diary, and answers as it is told."""

    def __init__(self, name: str, diary: list[str], *, answer: Refusal | Exception | None = None) -> None:
        self._name = name
        self._diary = diary
        self._answer = answer
        self.heard: list[ModelCall] = []

    async def admit(self, request: Request, number: int) -> Refusal | None:
        self._diary.append(f"{self._name} is asked for {number}")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def on_progress(self, call: ModelCall) -> None:
        self.heard.append(call)

    def on_ended(self, call: ModelCall) -> None:
        self._diary.append(f"{self._name} hears of {call.number}: {call.status} {call.problem}".rstrip())


def test_all_are_asked_in_order_and_hear_of_the_end() -> None:
    diary: list[str] = []
    answer, call = _ask_behind([RecordingControl("a", diary), RecordingControl("b", diary)])
    assert (answer.status, call.problem) == (200, "")
    assert diary == ["a is asked for 1", "b is asked for 1", "a hears of 1: 200", "b hears of 1: 200"]


def test_a_refusal_is_the_answer_and_only_who_was_passed_hears_of_it() -> None:
    diary: list[str] = []
    refusal = Refusal(status=429, message="Later.", problem="refused: rate", headers={"retry-after": "7"})
    answer, call = _ask_behind(
        [RecordingControl("a", diary), RecordingControl("b", diary, answer=refusal), RecordingControl("c", diary)]
    )
    assert (answer.status, answer.headers["retry-after"], call.problem) == (429, "7", "refused: rate")
    assert answer.json["error"]["message"] == "Later."
    assert diary == ["a is asked for 1", "b is asked for 1", "a hears of 1: 429 refused: rate"]


def test_a_control_that_breaks_lets_nothing_through() -> None:
    diary: list[str] = []
    answer, call = _ask_behind([RecordingControl("a", diary), RecordingControl("b", diary, answer=KeyError("oops"))])
    assert (answer.status, call.problem) == (500, "gateway broke: KeyError('oops')")
    assert diary == ["a is asked for 1", "b is asked for 1", "a hears of 1: 500 gateway broke: KeyError('oops')"]


def test_who_let_a_call_through_hears_how_far_its_answer_has_come_a_few_times() -> None:
    control, long = RecordingControl("a", []), "word " * 60_000
    _, call = _ask_behind([control], says=f'[[call]]\nsay = "{long}"\n', stream=True)
    sizes = [each.answer_bytes for each in control.heard]
    assert sizes == sorted(sizes)
    assert 1 <= len(sizes) < 40
    # With its first bytes, then before much more has come than was said, and when it is whole.
    first, last = control.heard[0], control.heard[-1]
    assert (first.usage is not None, first.whole) == (True, len(sizes) == 1)
    assert (last.whole, last.usage) == (True, call.usage)


def test_nobody_hears_of_the_progress_of_a_refusal() -> None:
    control = RecordingControl("a", [])
    _ask_behind([control, RecordingControl("b", [], answer=Refusal(message="No.", problem="refused: budget"))])
    assert control.heard == []


@pytest.mark.parametrize("wire", ["messages", "responses"])
def test_an_agent_may_need_another_status_to_give_up(wire: str) -> None:
    refusal = Refusal(message="No.", problem="refused: budget")
    answer, _ = _ask_behind([RecordingControl("a", [], answer=refusal)], wire=wire, refusal_status=403)
    assert answer.status == 403


def _ask_behind(
    controls: Sequence[Control],
    *,
    wire: str = "messages",
    refusal_status: int = 0,
    says: str = SAYS,
    stream: bool = False,
) -> tuple[Response, ModelCall]:
    """The answer to one call behind these controls, and its report."""

    async def serve() -> tuple[Response, ModelCall]:
        calls: asyncio.Queue[ModelCall] = asyncio.Queue()
        listener = socket.create_server(("127.0.0.1", 0))
        gateway = Gateway(
            token=TOKEN,
            upstream=ScriptUpstream(parse_scenario(says, name="test"), cwd="/"),
            on_call=calls.put_nowait,
            controls=controls,
            refusal_status=refusal_status,
        )
        port: int = listener.getsockname()[1]
        await gateway.open(listener)
        try:
            answer = await asyncio.to_thread(_ask, port, wire, stream)
            return answer, await asyncio.wait_for(calls.get(), WAIT_S)
        finally:
            await gateway.close()

    return asyncio.run(serve())


def _ask(port: int, wire: str, stream: bool) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        return exchange(connection, "POST", PATHS[wire], body=ask_body(wire, "hi", stream=stream))
    finally:
        connection.close()
