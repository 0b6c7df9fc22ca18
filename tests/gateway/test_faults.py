"""Faults that a scenario asks for, as a client sees them and as they are reported."""

import http.client
import json
import socket

import pytest

from .scripted_gateway import PATHS, TOKEN, WAIT_S, WIRES, ScriptedGateway, ask_body, error_kind, texts_in_events

CUT = '[[call]]\nsay = ["so ", "far"]\ncut = true\n'
STALL = '[[call]]\nsay = "so far"\nstall = "mid-stream"\n'


@pytest.mark.parametrize(
    ("wire", "status", "kind"),
    [
        ("messages", 401, "authentication_error"),
        ("messages", 404, "not_found_error"),
        ("messages", 429, "rate_limit_error"),
        ("messages", 500, "api_error"),
        ("messages", 529, "overloaded_error"),
        ("responses", 429, "requests"),
        ("responses", 500, "server_error"),
        ("chat", 400, "invalid_request_error"),
        ("generate", 400, "INVALID_ARGUMENT"),
        ("generate", 401, "UNAUTHENTICATED"),
        ("generate", 402, "FAILED_PRECONDITION"),
        ("generate", 403, "PERMISSION_DENIED"),
        ("generate", 404, "NOT_FOUND"),
        ("generate", 413, "INVALID_ARGUMENT"),
        ("generate", 429, "RESOURCE_EXHAUSTED"),
        ("generate", 500, "INTERNAL"),
        ("generate", 503, "UNAVAILABLE"),
    ],
)
def test_a_failure_has_the_shape_that_the_provider_gives_it(wire: str, status: int, kind: str) -> None:
    with ScriptedGateway(f'[[call]]\nfail = {{status = {status}, message = "no luck"}}\n') as stage:
        response = stage.ask(wire)
        call = stage.next_call()
    assert (response.status, error_kind(wire, response.json)) == (status, kind)
    assert (call.status, call.message, call.problem, call.usage) == (status, "no luck", "", None)


def test_a_failure_may_bring_its_own_body_type_and_headers() -> None:
    scenario = """
    [[call]]
    fail = {status = 400, body = "plain words", headers = {x-odd = "1"}}
    [[call]]
    fail = {status = 429, type = "insufficient_quota"}
    [[call]]
    fail = {status = 429, body = {error = {message = "later", resets_at = 2000000000}}}
    """
    with ScriptedGateway(scenario) as stage:
        plain, typed, _ = stage.ask("chat"), stage.ask("chat"), stage.ask("chat")
        calls = [stage.next_call() for _ in range(3)]
    assert (plain.body, plain.headers["x-odd"]) == (b"plain words", "1")
    assert typed.json["error"]["code"] == "insufficient_quota"
    assert [call.message for call in calls] == ["plain words", "Rate limit reached.", "later"]
    assert calls[2].resets_at == 2000000000


def test_a_reset_in_the_headers_is_reported() -> None:
    headers = '{anthropic-ratelimit-unified-reset = "1900000000", retry-after = "5"}'
    with ScriptedGateway(f"[[call]]\nfail = {{status = 429, headers = {headers}}}\n") as stage:
        stage.ask("messages")
        assert stage.next_call().resets_at == 1900000000


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_answer_breaks_off_after_what_was_said(wire: str, stream: bool) -> None:
    with ScriptedGateway(CUT) as stage:
        with pytest.raises(http.client.IncompleteRead) as broken:
            stage.ask(wire, stream=stream)
        call = stage.next_call()
    assert broken.value.partial
    assert (call.status, call.problem) == (200, "cut")


@pytest.mark.parametrize("wire", WIRES)
def test_garbage_is_served_as_a_stream(wire: str) -> None:
    with ScriptedGateway('[[call]]\ngarbage = "<html>"\n') as stage:
        response = stage.ask(wire)
        call = stage.next_call()
    assert (response.status, response.body) == (200, b"<html>")
    assert (call.status, call.problem, call.message) == (200, "garbage", "<html>")


@pytest.mark.parametrize("place", ["before-headers", "mid-stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_stall_of_some_time_is_followed_by_the_whole_answer(wire: str, place: str) -> None:
    with ScriptedGateway(f'[[call]]\nsay = "late"\nstall = "{place}"\nstall_s = 0.05\n') as stage:
        response = stage.ask(wire)
        call = stage.next_call()
    assert texts_in_events(wire, response.events) == ["late"]
    assert call.problem == ""
    assert call.duration_s >= 0.05


@pytest.mark.parametrize("place", ["before-headers", "mid-stream"])
def test_a_silent_call_is_noticed_once_and_ends_when_the_gateway_closes(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Closing does not have to give up on it: that would take longer than this test waits.
    monkeypatch.setattr("inspan.gateway.http.server._CLOSE_TIMEOUT_S", 10 * WAIT_S)
    with ScriptedGateway(f'[[call]]\nsay = "so far"\nstall = "{place}"\n', stall_timeout_s=5.0) as stage:
        connection = stage.connect()
        connection.request("POST", PATHS["messages"], _body(), {"x-api-key": TOKEN})
        stall = stage.next_stall()
        assert stage.gateway.calls_in_flight == 1
        stage.close()
        connection.close()
    assert (stall.number, stall.problem) == (1, "stalled")
    assert stall.status == (200 if place == "mid-stream" else None)
    assert [call.problem for call in stage.calls_so_far()] == ["stalled"]
    assert stage.gateway.calls_in_flight == 0


def test_a_call_that_keeps_sending_is_not_taken_for_silent() -> None:
    with ScriptedGateway('[[call]]\nsay = "ok"\n', stall_timeout_s=30) as stage:
        stage.ask("messages")
        assert stage.next_call().problem == ""


@pytest.mark.parametrize("wire", WIRES)
def test_a_client_that_leaves_a_stall_is_reported_once(wire: str) -> None:
    with ScriptedGateway(STALL) as stage:
        _leave_after_first_bytes(stage, wire)
        call = stage.next_call()
    assert (call.status, call.problem) == (200, "stalled")
    assert stage.calls_so_far() == []


def test_a_client_that_leaves_after_the_last_event_has_had_a_whole_call() -> None:
    with ScriptedGateway('[[call]]\nsay = "ok"\n') as stage:
        client = socket.create_connection(("127.0.0.1", stage.port), timeout=WAIT_S)
        client.sendall(_request("responses"))
        received = b""
        while b"response.completed" not in received:
            received += client.recv(65536)
        client.close()
        call = stage.next_call()
    assert call.problem == ""
    assert call.usage is not None


def test_closing_twice_is_harmless() -> None:
    with ScriptedGateway('[[call]]\nsay = "ok"\n') as stage:
        stage.close()
        stage.close()


def _body() -> bytes:
    return _request("messages").partition(b"\r\n\r\n")[2]


def _request(wire: str) -> bytes:
    body = json.dumps(ask_body(wire, "hi", stream=True)).encode()
    head = f"POST {PATHS[wire]} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _leave_after_first_bytes(stage: ScriptedGateway, wire: str) -> None:
    with socket.create_connection(("127.0.0.1", stage.port), timeout=WAIT_S) as client:
        client.sendall(_request(wire))
        received = b""
        while b"so far" not in received:
            received += client.recv(65536)
