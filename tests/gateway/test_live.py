"""A provider behind the gateway: what reaches it, what comes back, and what happens when either side goes wrong."""

import asyncio
import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from inspan.errors import BadInput
from inspan.gateway.live import LiveUpstream
from inspan.gateway.upstream import Request
from inspan.gateway.wires import BY_NAME
from inspan.protocol.usage import Usage

from .conftest import ARGUMENTS, Launch
from .gateway_client import ASK, KEY, PATH, TOKEN, GatewayClient
from .provider import (
    WAIT_S,
    Provider,
    ProviderConnection,
    authority,
    chunk,
    closes,
    full_response,
    head,
    refusing_address,
    resets,
    says,
    stream,
    then,
    waits,
    waits_for,
)
from .scripted_gateway import PATHS, WIRES, ScriptedGateway, ask_body


def event(data: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


START = event({"type": "message_start", "message": {"usage": {"input_tokens": 11}}})
DELTA = event({"type": "message_delta", "usage": {"output_tokens": 7}})
STOP = event({"type": "message_stop"})
ANSWER = stream(START, DELTA, STOP)
WHOLE_BODY = json.dumps({"type": "message", "usage": {"input_tokens": 11, "output_tokens": 7}}).encode()
SPENT = Usage(input=11, output=7)
STREAM_HEAD = head(content_type="text/event-stream", transfer_encoding="chunked")


def test_an_answer_passes_straight_through_and_is_measured() -> None:
    with Provider(says(ANSWER)) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
        call = front.next_call()
    assert (response.status, response.body) == (200, START + DELTA + STOP)
    assert response.headers["content-type"] == "text/event-stream"
    assert (call.status, call.usage, call.problem) == (200, SPENT, "")


PLACES: dict[str, tuple[str, dict[str, str]]] = {
    "x-api-key": (PATHS["messages"], {"x-api-key": TOKEN}),
    "bearer": (PATHS["responses"], {"authorization": f"Bearer {TOKEN}"}),
    "a bearer of the other kind": (PATHS["chat"], {"authorization": f"bearer {TOKEN}"}),
    "x-goog-api-key": ("/v1beta/models/m:generateContent", {"x-goog-api-key": TOKEN}),
    "the query": (f"/v1beta/models/m:generateContent?alt=sse&key={TOKEN}", {}),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_key_stands_where_the_token_stood_and_the_token_stays_here(place: str) -> None:
    path, headers = PLACES[place]
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url) as front:
        front.ask(path, headers={"x-other": "1", **headers})
    (asked,) = provider.asked
    sent = asked.raw.decode()
    assert TOKEN not in sent
    assert asked.line == f"POST {path} HTTP/1.1".replace(TOKEN, KEY)
    expected = {name: value.replace(TOKEN, KEY).replace("bearer", "Bearer") for name, value in headers.items()}
    assert {name: asked.headers[name] for name in headers} == expected
    assert sent.count(KEY) == 1
    assert asked.body == ASK


def test_a_key_with_odd_characters_can_stand_in_a_query() -> None:
    with Provider(says(full_response(b"{}"))) as provider, GatewayClient(provider.url, key="a/b+c=&d") as front:
        front.ask(f"/v1beta/models/m:generateContent?key={TOKEN}")
    assert provider.asked[0].line == "POST /v1beta/models/m:generateContent?key=a%2Fb%2Bc%3D%26d HTTP/1.1"


def test_without_a_key_the_login_of_the_agent_goes_as_it_is() -> None:
    headers = {"authorization": "Bearer the-login", "x-api-key": "its own"}
    with Provider(says(ANSWER)) as provider, GatewayClient(provider.url, key="") as front:
        front.ask(f"/run/{TOKEN}{PATH}", headers=headers)
    (asked,) = provider.asked
    assert asked.line == f"POST {PATH} HTTP/1.1"
    assert {name: asked.headers[name] for name in headers} == headers
    assert TOKEN not in asked.raw.decode()


@pytest.mark.parametrize("end", ["", "/"])
def test_the_address_of_a_provider_may_have_a_path(end: str) -> None:
    with Provider(says(ANSWER)) as provider, GatewayClient(f"{provider.url}/a/proxy{end}") as front:
        front.ask()
    assert provider.asked[0].line == f"POST /a/proxy{PATH} HTTP/1.1"


def test_headers_about_one_connection_stay_on_it() -> None:
    ours = {
        "x-api-key": TOKEN,
        "connection": "keep-alive, x-named",
        "x-named": "1",
        "keep-alive": "timeout=5",
        "te": "trailers",
        "trailer": "x",
        "proxy-authorization": "Basic eA==",
        "accept-encoding": "gzip, br",
        "x-kept": "yes",
    }
    theirs = head(
        content_length="2",
        connection="keep-alive, x-theirs",
        x_theirs="1",
        keep_alive="timeout=5",
        proxy_authenticate="Basic",
        set_cookie="session=1",
        x_kept="yes",
        request_id="req_1",
    )
    with Provider(says(theirs + b"{}")) as provider, GatewayClient(provider.url) as front:
        response = front.ask(headers=ours)
    (asked,) = provider.asked
    assert asked.headers == {
        "host": f"127.0.0.1:{provider.port}",
        "accept-encoding": "identity",
        "x-api-key": KEY,
        "x-kept": "yes",
        "content-length": str(len(ASK)),
    }
    assert response.headers == {"content-length": "2", "x-kept": "yes", "request-id": "req_1"}


ANSWERS: dict[str, tuple[bytes, int, bytes, dict[str, str]]] = {
    "a length": (full_response(b'{"a": 1}'), 200, b'{"a": 1}', {"content-length": "8"}),
    "chunks": (stream(b"data: 1\n\n"), 200, b"data: 1\n\n", {"transfer-encoding": "chunked"}),
    "the end of the connection": (head() + b"words", 200, b"words", {"transfer-encoding": "chunked"}),
    "a page": (full_response(b"<html>", kind="text/html"), 200, b"<html>", {"content-type": "text/html"}),
    "a page of an error": (full_response(b"<html>", kind="text/html", status=503), 503, b"<html>", {}),
    "an error": (full_response(b'{"error": {"message": "no"}}', status=401), 401, b'{"error": {"message": "no"}}', {}),
    "a redirect": (
        head(307, location="https://x.test/", content_length="0"),
        307,
        b"",
        {"location": "https://x.test/"},
    ),
    "no content": (head(204), 204, b"", {}),
    "what is compressed all the same": (
        head(content_encoding="gzip", content_length=str(len(gzip.compress(b"data: 1\n\n", mtime=0))))
        + gzip.compress(b"data: 1\n\n", mtime=0),
        200,
        b"data: 1\n\n",  # Not as it came: in there the key could not be looked for.
        {},
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_whatever_a_provider_answers_is_passed_on_as_it_is(kind: str) -> None:
    sent, status, body, headers = ANSWERS[kind]

    def act(line: ProviderConnection) -> None:
        line.send(sent)
        line.close()

    with Provider(act) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
    assert (response.status, response.body) == (status, body)
    assert {name: response.headers[name] for name in headers} == headers
    assert len(provider.asked) == 1


def test_an_error_inside_a_stream_that_began_well_is_reported() -> None:
    failed = event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    with Provider(says(stream(START, failed))) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
        call = front.next_call()
    assert response.body == START + failed
    assert (call.status, call.message) == (200, "Overloaded")


def test_a_compressed_request_is_passed_on_compressed() -> None:
    packed = gzip.compress(ASK)
    with Provider(says(ANSWER)) as provider, GatewayClient(provider.url) as front:
        status = front.ask(body=packed, headers={"x-api-key": TOKEN, "content-encoding": "gzip"}).status
    assert status == 200
    assert (provider.asked[0].body, provider.asked[0].headers["content-encoding"]) == (packed, "gzip")


def test_thirty_megabytes_pass_either_way() -> None:
    image = "aGVsbG8=" * (30 * 1024 * 1024 // 8)
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": image}]}).encode()
    told = b'{"text": "' + b"x" * (30 * 1024 * 1024) + b'"}'
    with Provider(says(full_response(told))) as provider, GatewayClient(provider.url) as front:
        response = front.ask(body=asked)
    assert response.body == told
    assert provider.asked[0].body == asked


def test_connections_to_the_provider_are_kept() -> None:
    with Provider(says(ANSWER)) as provider, GatewayClient(provider.url) as front:
        for _ in range(3):
            front.ask()
    assert (provider.connections, len(provider.asked)) == (1, 3)


def test_one_call_of_the_agent_is_one_call_to_the_provider_even_where_its_connection_closes() -> None:
    with Provider(says(ANSWER), closes, says(ANSWER)) as provider, GatewayClient(provider.url) as front:
        statuses = [front.ask().status for _ in range(2)]
        problems = [front.next_call().problem for _ in range(2)]
    assert (statuses, len(provider.asked)) == ([200, 502], 2)
    assert problems[0] == ""
    assert problems[1].startswith("unanswered: ")


def test_a_provider_that_takes_its_time_is_waited_for() -> None:
    slow = then(waits(0.2), says(STREAM_HEAD + chunk(START)), waits(0.2), says(chunk(DELTA + STOP) + chunk(b"")))
    with Provider(slow) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
        call = front.next_call()
    assert response.body == START + DELTA + STOP
    assert (call.usage, call.problem) == (SPENT, "")


def test_what_arrives_is_sent_on_before_the_rest_comes() -> None:
    may_go_on = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        may_go_on.wait(WAIT_S)
        line.send(chunk(DELTA + STOP) + chunk(b""))

    with Provider(act) as provider, GatewayClient(provider.url) as front, front.begin() as agent:
        seen = b""
        while START not in seen:
            seen += agent.recv(65536)
        may_go_on.set()
        assert front.next_call().usage == SPENT


@pytest.mark.parametrize("ending", [closes, resets], ids=["closes", "resets"])
def test_a_provider_that_dies_in_the_middle_leaves_a_broken_answer(
    ending: Callable[[ProviderConnection], None],
) -> None:
    was_heard = threading.Event()
    dying = then(says(STREAM_HEAD + chunk(START)), waits_for(was_heard), ending)
    with Provider(dying) as provider, GatewayClient(provider.url) as front:
        connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=WAIT_S)
        connection.request("POST", PATH, ASK, {"x-api-key": TOKEN})
        answer = connection.getresponse()
        told = answer.read(len(START))
        was_heard.set()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        connection.close()
        call = front.next_call()
    assert told == START
    assert (call.status, call.problem, call.usage) == (200, "cut", Usage(input=11))


def test_a_provider_that_dies_in_a_body_of_known_length_leaves_a_broken_answer() -> None:
    with Provider(then(says(full_response(WHOLE_BODY)[:-5]), closes)) as provider, GatewayClient(provider.url) as front:
        with pytest.raises(http.client.IncompleteRead):
            front.ask()
        assert front.next_call().problem == "cut"


@pytest.mark.parametrize("wire", WIRES)
def test_a_provider_that_is_down_is_told_in_the_words_of_the_wire(wire: str) -> None:
    body = json.dumps(ask_body(wire, "hi", stream=True)).encode()
    with refusing_address() as url, GatewayClient(f"{url}/v1") as front:
        response = front.ask(PATHS[wire], body=body)
        call = front.next_call()
    message = f"{url} cannot be reached: the connection was refused."
    expected = json.loads(BY_NAME[wire].encode_error(502, message))
    assert (response.status, response.json["error"]) == (502, expected["error"])
    assert (call.status, call.problem, call.message) == (502, f"unreachable: {message}", message)
    assert KEY not in response.body.decode() + str(call)


UNREACHABLE: dict[str, tuple[Callable[[ProviderConnection], None], str]] = {
    "closes": (closes, "the connection was closed before an answer came"),
    "resets": (resets, "the connection was closed by force before an answer came"),
    "speaks something else": (says(b"220 mail.example ESMTP\r\n"), "its answer is not HTTP/1.1"),
}


@pytest.mark.parametrize("way", UNREACHABLE)
def test_a_provider_that_gives_no_answer_is_told_as_one_that_may_have_worked_for_it(way: str) -> None:
    act, reason = UNREACHABLE[way]
    with Provider(act) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
        call = front.next_call()
    message = f"{provider.url} cannot be reached: {reason}."
    assert (response.status, response.json["error"]["message"]) == (502, message)
    assert call.problem == f"unanswered: {message}"
    assert len(provider.asked) == 1


def test_a_provider_behind_tls_is_reached(tmp_path: Path) -> None:
    vouched = authority(tmp_path)
    with Provider(says(ANSWER), tls=vouched.context) as provider:
        with GatewayClient(provider.url, ca_files=[vouched.ca_file]) as front:
            assert front.ask().body == START + DELTA + STOP
    assert provider.asked[0].headers["x-api-key"] == KEY


def test_a_provider_that_cannot_prove_its_name_never_sees_the_key(tmp_path: Path) -> None:
    with Provider(says(ANSWER), tls=authority(tmp_path).context) as provider, GatewayClient(provider.url) as front:
        response = front.ask()
    assert response.status == 502
    assert "its certificate is not trusted" in response.json["error"]["message"]
    assert provider.asked == []


def test_a_proxy_is_used_on_the_way() -> None:
    with Provider(says(ANSWER)) as proxy:
        proxies = {"http_proxy": f"http://127.0.0.1:{proxy.port}"}
        with GatewayClient("http://provider.test", proxies=proxies) as front:
            assert front.ask().status == 200
    assert proxy.asked[0].line == f"POST http://provider.test{PATH} HTTP/1.1"


LATE: dict[str, list[bytes]] = {
    "the last event": [STREAM_HEAD + chunk(START), chunk(DELTA + STOP) + chunk(b"")],
    "the last event, without an end": [STREAM_HEAD + chunk(START), chunk(DELTA + STOP)],
    "everything": [b"", ANSWER],
    "a whole body": [b"", full_response(WHOLE_BODY)],
}


@pytest.mark.parametrize("late", LATE)
def test_what_comes_after_the_agent_has_left_is_still_counted(late: str) -> None:
    first, rest = LATE[late]
    drain_s = 5.0 if late.endswith("without an end") else WAIT_S
    has_asked, has_left = threading.Event(), threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(first)
        has_asked.set()
        has_left.wait(WAIT_S)
        line.send(rest)

    with Provider(act) as provider, GatewayClient(provider.url, drain_s=drain_s) as front:
        with front.begin() as agent:
            assert has_asked.wait(WAIT_S)
            seen = b"" if first else START
            while START not in seen:
                seen += agent.recv(65536)
        front.wait_until_alone()
        has_left.set()
        call = front.next_call()
    assert call.usage == SPENT
    assert front.calls_so_far() == []


def test_an_agent_that_leaves_while_too_much_is_sent_to_it_is_noticed_and_the_rest_is_counted() -> None:
    padding = chunk(b": " + b"x" * 65536 + b"\n\n")

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        for _ in range(300):
            line.send(padding)
        line.send(chunk(DELTA + STOP) + chunk(b""))

    with Provider(act) as provider, GatewayClient(provider.url, drain_s=WAIT_S) as front:
        with front.begin() as agent:
            agent.recv(1000)
            time.sleep(0.2)
        assert front.next_call().usage == SPENT


def test_a_provider_that_dies_after_the_agent_has_left_is_not_the_one_to_blame() -> None:
    has_left = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        has_left.wait(WAIT_S)
        line.close()

    with Provider(act) as provider, GatewayClient(provider.url) as front:
        with front.begin() as agent:
            while START not in agent.recv(65536):
                pass
        front.wait_until_alone()
        has_left.set()
        call = front.next_call()
    assert (call.problem, call.usage) == ("client hung up", Usage(input=11))


class AbandonedReply:
    """A reply whose agent has gone at the first word; what is written is kept all the same, as a meter does."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.has_been_left = asyncio.Event()
        self.is_finished = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None: ...

    async def write(self, data: bytes) -> None:
        self.written.append(data)
        self.has_been_left.set()
        raise ConnectionResetError

    async def finish(self) -> None:
        self.is_finished = True
        raise ConnectionResetError

    def cut(self) -> None: ...

    def note(self, problem: str) -> None: ...


def test_being_told_twice_that_the_agent_has_gone_does_not_end_the_counting() -> None:
    may_go_on = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        may_go_on.wait(WAIT_S)
        line.send(chunk(DELTA + STOP) + chunk(b""))

    async def work() -> tuple[bytes, bool]:
        reply = AbandonedReply()
        upstream = LiveUpstream(base_url=provider.url, key=KEY, drain_s=WAIT_S)
        request = Request(
            method="POST", path=PATH, headers={}, body=ASK, plain=ASK, wire="messages", purpose="call", ask=None
        )
        answering = asyncio.ensure_future(upstream.answer(request, reply))
        await reply.has_been_left.wait()
        for _ in range(2):
            await asyncio.sleep(0.01)
            answering.cancel()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await answering
        await upstream.close()
        return b"".join(reply.written), reply.is_finished

    with Provider(act) as provider:
        assert asyncio.run(asyncio.wait_for(work(), WAIT_S)) == (START + DELTA + STOP, True)


def test_a_silent_provider_is_left_a_second_after_the_agent() -> None:
    has_left = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        if not line.receive():
            has_left.set()

    with Provider(act) as provider, GatewayClient(provider.url, drain_s=0.3) as front:
        with front.begin() as agent:
            while START not in agent.recv(65536):
                pass
            began_at = time.monotonic()
        call = front.next_call()
        took_s = time.monotonic() - began_at
        assert has_left.wait(WAIT_S)
    assert (call.problem, call.usage) == ("client hung up", Usage(input=11))
    assert took_s > 0.2


def test_closing_the_gateway_in_the_middle_of_an_answer_is_bounded_and_reports_it() -> None:
    forever = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(STREAM_HEAD + chunk(START))
        forever.wait(WAIT_S)

    with Provider(act) as provider:
        with GatewayClient(provider.url) as front, front.begin() as agent:
            while START not in agent.recv(65536):
                pass
            began_at = time.monotonic()
            front.close()
            took_s = time.monotonic() - began_at
            calls = front.calls_so_far()
        forever.set()
    assert took_s < WAIT_S / 2
    assert [(call.status, call.usage) for call in calls] == [(200, Usage(input=11))]


def test_many_at_once_do_not_mix() -> None:
    def echo(line: ProviderConnection) -> None:
        assert line.asked is not None
        time.sleep(0.05)
        line.send(full_response(line.asked.body))

    def ask(number: int) -> None:
        body = json.dumps({"model": "m", "messages": [], "number": number}).encode()
        found[number] = front.ask(body=body).json["number"]

    found: dict[int, int] = {}
    with Provider(echo) as provider, GatewayClient(provider.url) as front:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        calls = [front.next_call() for _ in threads]
    assert found == {number: number for number in range(20)}
    assert sorted(call.number for call in calls) == list(range(1, 21))


@pytest.mark.parametrize("key", ["two\nlines", " around ", "schlüssel", "a\0b"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(BadInput) as error:
        LiveUpstream(base_url="https://x.test", key=key)
    assert key.strip() not in str(error.value)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^base_url 'api\.example\.com': not an address"):
        LiveUpstream(base_url="api.example.com", key=KEY)


WORK = """
[[call]]
say = "All right."
run = "echo ran > ran.txt"
[[call]]
say = "Finished."
usage = {input = 5, output = 3}
"""


@pytest.mark.parametrize("style", ARGUMENTS)
def test_a_real_agent_works_through_it_and_each_of_its_calls_is_counted(style: str, launch: Launch, work: Path) -> None:
    with (
        ScriptedGateway(WORK, cwd=str(work)) as provider,
        GatewayClient(f"http://127.0.0.1:{provider.port}", key=TOKEN) as front,
    ):
        process = launch(style, front.port)
        output, _ = process.communicate(timeout=WAIT_S)
        calls = [front.next_call() for _ in range(2)]
    assert process.returncode == 0
    assert "Finished." in output
    assert (work / "ran.txt").read_text() == "ran\n"
    assert [(call.usage, call.problem) for call in calls] == [
        (call.usage, call.problem) for call in provider.calls_so_far()
    ]
