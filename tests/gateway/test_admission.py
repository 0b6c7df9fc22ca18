"""Who is let in, and what is served besides model calls."""

import json
import socket
import subprocess
import sys

import pytest

from .scripted_gateway import (
    INVALID_REQUEST,
    PATHS,
    TOKEN,
    WAIT_S,
    WIRES,
    Json,
    ScriptedGateway,
    ask_body,
    error_kind,
    exchange,
)

SAY = '[[call]]\nsay = "ok"\n'
ODD_BODIES: list[Json] = [
    {},
    {"messages": 1, "tools": 2},
    {"input": [[3]], "messages": [{"content": 4}]},
    {"contents": [5, {"parts": [{"text": 6}, {"functionResponse": []}]}], "generationConfig": [7]},
]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("headers", [{}, {"x-api-key": "other"}, {"authorization": "Bearer other"}])
def test_a_request_without_the_token_never_reaches_the_script(wire: str, headers: dict[str, str]) -> None:
    body = ask_body(wire, "hi", stream=True)
    with ScriptedGateway(SAY) as stage:
        response = stage.send("POST", PATHS[wire], body=body, headers=headers)
    assert response.status == 401
    assert response.json["error"]["message"] == "Invalid API key."
    assert (stage.calls_so_far(), stage.gateway.unauthorized_requests) == ([], 1)
    assert stage.script.mismatch == "Call 1 of 1 was never asked for."


@pytest.mark.parametrize("headers", [{"x-api-key": TOKEN}, {"Authorization": f"bearer {TOKEN}"}])
def test_either_way_of_sending_the_token_is_good(headers: dict[str, str]) -> None:
    with ScriptedGateway(SAY) as stage:
        body = ask_body("messages", "hi", stream=False)
        assert stage.send("POST", PATHS["messages"], body=body, headers=headers).status == 200


def test_a_websocket_upgrade_is_told_to_use_http() -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "x-api-key": TOKEN}
    with ScriptedGateway(SAY) as stage:
        assert stage.send("GET", "/v1/responses", headers=upgrade).status == 426


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/api/hello", 200),
        ("GET", "/api/hello", 404),
        ("GET", "/v1/models", 200),
        ("POST", "/v1/messages/count_tokens?beta=true", 200),
        ("POST", "/v1beta/models/some-model:countTokens", 200),
        ("GET", "/v1beta/models/some-model", 200),
    ],
)
def test_side_requests_use_up_no_call(method: str, path: str, status: int) -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send(method, path).status == status
        assert stage.ask("messages").status == 200
    assert stage.script.mismatch == ""
    assert [call.number for call in stage.calls_so_far()] == [1]


def test_a_probe_needs_no_token() -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send("HEAD", "/api/hello", headers={}).status == 200
    assert stage.calls_so_far() == []


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/v1/messages/count_tokens", {"input_tokens": 100}),
        ("/v1beta/models/some-model:countTokens", {"totalTokens": 100}),
    ],
)
def test_tokens_are_counted(path: str, count: dict[str, int]) -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send("POST", path).json == count


@pytest.mark.parametrize(
    ("path", "headers", "field"),
    [
        ("/v1/models", {"x-api-key": TOKEN}, "data"),
        ("/v1/models", {"x-goog-api-key": TOKEN}, "models"),
        ("/v1beta/models", {"x-api-key": TOKEN}, "models"),
    ],
)
def test_models_are_listed_as_the_provider_of_the_request_would(path: str, headers: dict[str, str], field: str) -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send("GET", path, headers=headers).json[field] == []


def test_a_request_that_no_provider_serves_is_refused_and_reported() -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send("POST", "/v1/embeddings", body={}).status == 404
        assert stage.next_call().problem == "unexpected request: POST /v1/embeddings"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"a":' * 100_000])
@pytest.mark.parametrize("wire", WIRES)
def test_a_malformed_body_is_refused_in_the_words_of_the_provider(wire: str, body: bytes) -> None:
    with ScriptedGateway(SAY) as stage:
        response = stage.send("POST", PATHS[wire], body=body)
        call = stage.next_call()
    assert (response.status, call.problem) == (400, "unexpected request: malformed body")
    assert error_kind(wire, response.json) == INVALID_REQUEST[wire]


@pytest.mark.parametrize("body", ODD_BODIES)
@pytest.mark.parametrize("wire", WIRES)
def test_a_body_with_odd_fields_is_still_answered(wire: str, body: Json) -> None:
    with ScriptedGateway(SAY) as stage:
        assert stage.send("POST", PATHS[wire], body=body).status == 200


def test_one_connection_serves_many_requests() -> None:
    with ScriptedGateway('[[call]]\nsay = "ok"\nrepeat = 3\n') as stage:
        connection = stage.connect()
        body = ask_body("messages", "hi", stream=True)
        statuses = [exchange(connection, "POST", PATHS["messages"], body=body).status for _ in range(3)]
        connection.close()
    assert statuses == [200, 200, 200]
    assert stage.script.mismatch == ""


def test_a_body_of_many_megabytes_is_taken() -> None:
    with ScriptedGateway('[[call]]\nexpect = "aaa"\nsay = "ok"\n') as stage:
        assert stage.ask("messages", "a" * (60 * 1024 * 1024), stream=False).status == 200


def test_a_body_beyond_the_limit_is_refused() -> None:
    with ScriptedGateway(SAY) as stage, socket.create_connection(("127.0.0.1", stage.port), timeout=WAIT_S) as client:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ntransfer-encoding: chunked\r\n\r\n"
        client.sendall(head.encode())
        chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                client.sendall(chunk)


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    body = json.dumps(ask_body("messages", "hi", stream=False)).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\nconnection: close\r\n"
    head += f"expect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
    with ScriptedGateway(SAY) as stage, socket.create_connection(("127.0.0.1", stage.port), timeout=WAIT_S) as client:
        client.sendall(head.encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")


def test_what_is_not_http_is_refused() -> None:
    with ScriptedGateway(SAY) as stage, socket.create_connection(("127.0.0.1", stage.port), timeout=WAIT_S) as client:
        client.sendall(b"nonsense\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 400")


def test_it_works_without_ssl() -> None:
    loads = "from inspan.gateway import Gateway; import inspan.gateway.live"
    program = f"import sys; sys.modules['ssl'] = None; {loads}; print('asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert ran.stdout == "True\n"
