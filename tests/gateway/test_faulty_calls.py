"""Faults that a run asks for, on the whole way from the client to the report."""

import http.client
import json

import pytest

from .scripted_gateway import PATHS, TOKEN, WAIT_S, WIRES, ScriptedGateway, ask_body, exchange, path_of, text_in_body

SAY = '[[call]]\nsay = ["one ", "two"]\nrepeat = "always"\n'
either = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@either
@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_is_to_fail_never_reaches_the_upstream(wire: str, stream: bool) -> None:
    with ScriptedGateway('[[call]]\nsay = "one two"\n', faults=("call 1: 429 retry-after 5s",)) as stage:
        refused, answered = stage.ask(wire, stream=stream), stage.ask(wire, stream=False)
        calls = [stage.next_call(), stage.next_call()]
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert text_in_body(wire, answered.json) == "one two"
    assert [(call.number, call.status, call.problem, call.message) for call in calls] == [
        (1, 429, "", "Rate limit reached."),
        (2, 200, "", ""),
    ]
    assert calls[0].resets_at is not None
    assert stage.script.mismatch == ""


@either
@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_is_seen_by_the_client_and_reported(wire: str, stream: bool) -> None:
    with ScriptedGateway(SAY, faults=("call 1: cut",)) as stage:
        with pytest.raises(http.client.IncompleteRead):
            stage.ask(wire, stream=stream)
        assert (stage.next_call().problem, stage.ask(wire).status) == ("cut", 200)


@either
@pytest.mark.parametrize("place", ["before-headers", "mid-stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_stall_counts_as_silence_and_ends_when_the_gateway_closes(
    wire: str, place: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Closing does not have to give up on it: that would take longer than this test waits.
    monkeypatch.setattr("inspan.gateway.http.server._CLOSE_TIMEOUT_S", 10 * WAIT_S)
    with ScriptedGateway(SAY, faults=(f"every 1: stall {place}",), stall_timeout_s=0.05) as stage:
        connection = stage.connect()
        connection.request("POST", path_of(wire, stream=stream), _body(wire, stream=stream), {"x-api-key": TOKEN})
        assert stage.next_stall().problem == "stalled"
        stage.close()
        connection.close()
    assert [call.problem for call in stage.calls_so_far()] == ["stalled"]


@either
@pytest.mark.parametrize("wire", WIRES)
def test_garbage_costs_as_much_as_the_answer_in_whose_place_it_came(wire: str, stream: bool) -> None:
    with ScriptedGateway(SAY, faults=("call 1: garbage",)) as stage:
        response = stage.ask(wire, stream=stream)
        stage.ask(wire, stream=stream)
        spoilt, whole = stage.next_call(), stage.next_call()
    assert response.body.startswith(b"<!DOCTYPE html>")
    assert (spoilt.problem, spoilt.usage) == ("garbage", whole.usage)
    assert whole.usage is not None


def test_only_calls_are_counted_and_spoilt() -> None:
    with ScriptedGateway(SAY, faults=("call 1: 500",)) as stage:
        assert stage.send("POST", "/v1/messages/count_tokens").status == 200
        assert [stage.ask("chat").status, stage.ask("chat").status] == [500, 200]


def test_a_connection_that_was_not_cut_serves_the_next_call() -> None:
    with ScriptedGateway(
        SAY, faults=("call 1: garbage", "call 2: stall 1ms", "call 3: 529", "call 4: slow 1ms")
    ) as stage:
        connection = stage.connect()
        body = ask_body("messages", "hi", stream=True)
        statuses = [exchange(connection, "POST", PATHS["messages"], body=body).status for _ in range(5)]
        connection.close()
    assert statuses == [200, 200, 529, 200, 200]


def _body(wire: str, *, stream: bool) -> bytes:
    return json.dumps(ask_body(wire, "hi", stream=stream)).encode()
