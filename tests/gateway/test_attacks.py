"""What a hostile agent, or a stranger on the machine, tries on the gateway's port."""

import json
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from inspan.gateway.http.server import Limits
from inspan.gateway.usage_meter import UsageMeter
from inspan.gateway.wires import BY_NAME
from inspan.protocol.usage import Usage

from .gateway_client import ASK, KEY, PATH, TOKEN, GatewayClient
from .provider import WAIT_S, Provider, ProviderConnection, chunk, full_response, head, says

BODY = b"content-length: %d\r\n\r\n%b" % (len(ASK), ASK)
ELSEWHERE = [
    "/v1/messages#",
    "/v1/messages#x",
    "/v1/files#/models",
    "/v1/messages/batches#/v1/messages",
    "/v1/messages?a=1#/v1/messages",
    "http://evil.example/v1/messages",
    "@evil.example/v1/messages",
    ":1/v1/messages",
    "v1/messages",
    "//evil.example/v1/messages",
    "/v1//messages",
    "/v1/messages/",
    "/v1/../v1/messages",
    "/v1/files/../messages",
    "/v1/files/%2e%2e/messages",
    "/v1%2fmessages",
    "/v1/messages%2f",
    "/v1/messages%23",
    "/v1/messages%3fx",
    "/v1/messages;a=b",
    "/v1/messages?$httpMethod=DELETE",
]
NOT_SERVED = [
    "/v1/messages/batches",
    "/v1/threads/t/messages",
    "/v1/files",
    "/v1/batches",
    "/V1/messages",
    "/v1/organizations/usage_report/messages",
    "/v1/responses/resp_1/cancel",
    "/v1/conversations/c/responses",
    "/v1beta/models/m:embedContent",
    "/v1beta/cachedContents/m:generateContent",
    "/v1/models/m:batchGenerateContent",
    "/v1beta/files:generateContent",
]


@contextmanager
def connect(port: int) -> Generator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        yield client


def ask_raw(port: int, target: str, *, method: str = "POST", headers: str = f"x-api-key: {TOKEN}\r\n") -> bytes:
    """The answer to a request whose target is sent as it is."""
    with connect(port) as client:
        client.sendall(f"{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}".encode() + BODY)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_target_that_means_something_else_to_the_provider_goes_nowhere(method: str, target: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        answer = ask_raw(front.port, target, method=method)
    assert answer.startswith(b"HTTP/1.1 400")
    assert provider.asked == []
    assert all(call.problem.startswith("unexpected request") for call in front.calls_so_far())


@pytest.mark.parametrize("target", NOT_SERVED)
def test_what_the_provider_has_besides_model_calls_is_out_of_reach(target: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        answers = [ask_raw(front.port, target, method=method) for method in ("POST", "GET", "DELETE", "PUT", "PATCH")]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 404"}
    assert provider.asked == []


def test_what_is_passed_on_is_what_was_matched() -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(f"{provider.url}/base") as front:
        ask_raw(front.port, "/%76%31/messages?b%65ta=%74rue&&")
    assert [asked.line for asked in provider.asked] == ["POST /base/v1/messages?beta=true HTTP/1.1"]


@pytest.mark.parametrize(
    "name", ["x-http-method-override", "x-original-url", "x-rewrite-url", "x-forwarded-host", "forwarded"]
)
def test_a_header_that_changes_what_is_asked_stays_here(name: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        front.ask(headers={"x-api-key": TOKEN, name: "/v1/files"})
    assert name not in provider.asked[0].headers


ODD_HEADERS = {
    "another header": {"x-api-key": TOKEN, "x-note": TOKEN},
    "in a word": {"x-api-key": TOKEN, "user-agent": f"agent/{TOKEN}"},
    "another scheme": {"x-api-key": TOKEN, "authorization": f"Basic {TOKEN}"},
    "the key of another wire": {"x-api-key": TOKEN, "x-goog-api-key": TOKEN},
    "several keys": {"x-api-key": TOKEN, "authorization": f"Bearer {TOKEN}", "api-key": TOKEN},
    "only elsewhere": {"x-goog-api-key": TOKEN},
}


@pytest.mark.parametrize("case", ODD_HEADERS)
def test_the_key_stands_in_one_place_alone(case: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        front.ask(headers=ODD_HEADERS[case])
    (asked,) = provider.asked
    assert asked.headers["x-api-key"] == KEY
    assert asked.raw.count(KEY.encode()) == 1


@pytest.mark.parametrize("path", [PATH, f"/v1beta/models/m:generateContent?key={TOKEN}&x={TOKEN}"])
def test_the_key_stands_in_one_field_alone(path: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        front.ask(path, headers={} if TOKEN in path else {"x-api-key": TOKEN})
    assert provider.asked[0].raw.count(KEY.encode()) == 1


def quote_back(line: ProviderConnection, *, size: int) -> None:
    """A provider that tells in its error what it was sent, in pieces of some size."""
    assert line.asked is not None
    told = json.dumps({"error": {"message": line.asked.raw.decode()}}).encode()
    pieces = [told[at : at + size] for at in range(0, len(told), size)]
    line.send(head(400, x_echo=line.asked.headers["x-api-key"], transfer_encoding="chunked"))
    for piece in [*pieces, b""]:
        line.send(chunk(piece))


@pytest.mark.parametrize("size", [1, 3, 10, 10_000])
def test_a_provider_that_quotes_what_it_was_sent_gives_no_key_away(size: int) -> None:
    with Provider(lambda line: quote_back(line, size=size)) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
    assert KEY in provider.asked[0].raw.decode()
    assert KEY not in response.body.decode() + str(response.headers)
    assert json.loads(response.body)["error"]["message"].count("*" * len(KEY)) == 1
    assert response.headers["x-echo"] == "*" * len(KEY)


def test_an_encoding_in_which_no_key_can_be_looked_for_is_not_passed_on() -> None:
    answer = head(content_encoding="br", content_length="3") + b"abc"
    with Provider(says(answer)) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
    assert (response.status, b"'br' is not known here" in response.body) == (502, True)


def test_a_login_of_the_agents_own_passes_as_it_is() -> None:
    with Provider(says(full_response(b'"oauth-token"'))) as provider, GatewayClient(provider.url, key="") as front:
        response = front.ask(f"/run/{TOKEN}/v1/messages", headers={"authorization": "Bearer oauth-token"})
    assert provider.asked[0].line == "POST /v1/messages HTTP/1.1"
    assert provider.asked[0].headers["authorization"] == "Bearer oauth-token"
    assert response.body == b'"oauth-token"'


@pytest.mark.parametrize("path", [f"/run/{TOKEN}x/v1/messages", f"/run/x{TOKEN}/v1/messages", f"/x/run/{TOKEN}/v1"])
def test_half_a_token_in_the_path_is_none(path: str) -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url, key="") as front:
        assert front.ask(path, headers={"x": "y"}).status == 401
    assert provider.asked == []


def test_strangers_are_one_number() -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        for number in range(300):
            assert ask_raw(front.port, PATH, headers=f"x-api-key: {number}\r\n").startswith(b"HTTP/1.1 401")
        assert front.ask().status == 200
        assert front.gateway.unauthorized_requests == 300
    assert [call.number for call in front.calls_so_far()] == [1]
    assert len(provider.asked) == 1


def test_a_stranger_is_answered_before_it_has_sent_its_body() -> None:
    with GatewayClient("http://127.0.0.1:9") as front, connect(front.port) as client:
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("headers", ["", f"x-api-key: {TOKEN}\r\n"])
def test_nobody_is_heard_without_end(headers: str) -> None:
    """A stranger is cut off soon, and the run's own request at the limit for bodies."""
    begin = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\n{headers}transfer-encoding: chunked\r\n\r\n"
    with GatewayClient("http://127.0.0.1:9", limits=Limits(body_bytes=8 << 20)) as front, connect(front.port) as client:
        client.sendall(begin.encode())
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                client.sendall(chunk(b"a" * (1 << 20)))


def test_all_bodies_together_have_a_limit() -> None:
    begin = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: 3000000\r\n\r\n".encode()
    limits = Limits(bodies_bytes=4_000_000)
    with (
        GatewayClient("http://127.0.0.1:9", limits=limits) as front,
        connect(front.port) as one,
        connect(front.port) as two,
    ):
        one.sendall(begin + b"a" * 2_500_000)
        two.sendall(begin + b"a" * 2_500_000)
        one.settimeout(0.01)
        two.settimeout(0.01)
        answers = [b"", b""]

        def look() -> bool:
            for number, client in enumerate((one, two)):
                try:
                    answers[number] += client.recv(1000)
                except (TimeoutError, ConnectionError):
                    pass
            return any(answers)

        wait_for(look, "neither was refused")
    assert sorted(answer[:12] for answer in answers) == [b"", b"HTTP/1.1 413"]


def test_a_length_beyond_the_limit_is_refused_by_the_head() -> None:
    with GatewayClient("http://127.0.0.1:9") as front, connect(front.port) as client:
        client.sendall(
            f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: 99999999999\r\n\r\n".encode()
        )
        assert read_all(client).startswith(b"HTTP/1.1 413")


SLOW = {
    "no word": b"",
    "half a head": b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n",
    "empty lines": b"\r\n\r\n",
    "half a body": f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: 9\r\n\r\nabc".encode(),
    "after a probe": b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n",
    "after a refusal": b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n",
}


@pytest.mark.parametrize("case", SLOW)
def test_a_connection_on_which_nothing_happens_is_closed(case: str) -> None:
    limits = Limits(new_s=0.2, head_s=0.2, body_s=0.2, idle_s=0.2, linger_s=0.2)
    with GatewayClient("http://127.0.0.1:9", limits=limits) as front, connect(front.port) as client:
        client.sendall(SLOW[case])
        try:
            read_all(client)
        except ConnectionResetError:
            pass
        wait_for(lambda: not front.connections, "it stayed open")


def test_a_head_that_comes_byte_by_byte_gets_no_more_time() -> None:
    limits = Limits(head_s=0.3)
    with GatewayClient("http://127.0.0.1:9", limits=limits) as front, connect(front.port) as client:
        with pytest.raises(ConnectionError):
            for _ in range(2000):
                client.sendall(b"x")
                time.sleep(0.01)


def test_strangers_cannot_take_all_connections() -> None:
    with (
        Provider(says(full_response(b"{}"))) as provider,
        GatewayClient(provider.url, limits=Limits(connections=5)) as front,
    ):
        strangers = [socket.create_connection(("127.0.0.1", front.port), timeout=WAIT_S) for _ in range(20)]
        try:
            wait_for(lambda: front.connections == 5, "they never came")
            assert [front.ask().status for _ in range(3)] == [200, 200, 200]
        finally:
            for stranger in strangers:
                stranger.close()


def test_many_probes_in_one_piece_are_all_answered() -> None:
    with GatewayClient("http://127.0.0.1:9") as front, connect(front.port) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n" * 3000 + b"HEAD / HTTP/1.0\r\n\r\n")
        assert read_all(client).count(b"HTTP/1.1 200") == 3001


def test_an_agent_cannot_fill_the_log_with_what_is_refused() -> None:
    with GatewayClient("http://127.0.0.1:9") as front:
        for _ in range(150):
            ask_raw(front.port, "/v1/messages#")
        assert front.gateway.unexpected_requests == 150
    assert len(front.calls_so_far()) == 100


def test_a_call_in_the_background_is_not_made() -> None:
    """Its answer would come later, by a request that nobody meters."""
    body = json.dumps({"model": "m", "input": "hi", "background": True}).encode()
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        response = front.ask("/v1/responses", body=body)
    assert (response.status, provider.asked) == (400, [])
    assert b"background answer" in response.body


def test_a_stream_without_an_end_of_line_is_not_kept_whole() -> None:
    meter = UsageMeter(BY_NAME["messages"])
    meter.start(200, {"content-type": "text/event-stream"})
    piece = b"x" * (1 << 20)
    for _ in range(40):
        meter.feed(piece)
    assert meter.bytes_read == 40 << 20
    assert sys.getsizeof(meter.__dict__["_pending"]) < 20 << 20


def test_an_answer_that_was_not_read_is_not_the_next_ones() -> None:
    """The one whose encoding is refused stands on a connection that could be used again."""
    refused = says(head(content_encoding="br", content_length="9") + b'{"old":1}')
    with Provider(refused, says(full_response(b'{"new":1}'))) as provider, GatewayClient(provider.url) as front:
        assert front.ask().status == 502
        assert [front.ask().body for _ in range(3)] == [b'{"new":1}'] * 3


@pytest.mark.parametrize("stated", ["-500000", "true", "1e400", '"5"', "9" * 26, "null"])
def test_a_number_that_no_answer_can_have_is_not_counted(stated: str) -> None:
    usage = f'{{"input_tokens": {stated}, "output_tokens": 3}}'
    answer = full_response(f'{{"type": "message", "usage": {usage}}}'.encode())
    with Provider(says(answer)) as provider, GatewayClient(provider.url) as front:
        front.ask()
        call = front.next_call()
    assert call.usage in (None, Usage(output=3))
