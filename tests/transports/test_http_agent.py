"""One call by HTTP in a process of its own: what is sent, and what comes back as lines, however it comes."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import wait_until
from tests.gateway.provider import (
    WAIT_S,
    Act,
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
)

from .agent_host import KEY, encode_request, run_call, start_host

WHOLE = {"http": {"ended": "whole"}}
SSE = {"http": {"status": 200, "headers": {"content-type": "text/event-stream"}}}
JSON = {"http": {"status": 200, "headers": {"content-type": "application/json"}}}
CUT = "the connection was closed in the middle of the answer"
GONE = "the connection was closed before the answer was whole"
HTML = {"http": {"status": 200, "headers": {"content-type": "text/html"}}}
# What is sent, the lines of it (a text is the reason of a cut), and the exit code.
ANSWERS: list[tuple[bytes, list[Any], int]] = [
    (full_response(b'{\n  "a": "x\\ny"\r\n}\n'), [JSON, {"a": "x\ny"}, WHOLE], 0),
    (full_response(b""), [JSON, WHOLE], 0),
    (
        full_response(b'<html>\n"no"\t\\</html>', kind="text/html"),
        [HTML, {"http": {"text": '<html>\n"no"\t\\</html>'}}, WHOLE],
        0,
    ),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + full_response(b"{}"), [JSON, {}, WHOLE], 0),
    (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + full_response(b"{}"), [JSON, {}, WHOLE], 0),
    (b"HTTP/1.0 200 OK\r\n\r\n{}", [{"http": {"status": 200, "headers": {}}}, {}, WHOLE], 0),
    (
        head(429, content_type="application/json", retry_after="7", set_cookie="c=1", content_length="2") + b"{}",
        [{"http": {"status": 429, "headers": {"content-type": "application/json", "retry-after": "7"}}}, {}, WHOLE],
        1,
    ),
    (head(content_type="text/event-stream", content_length="90") + b"data: 1\n\n", [SSE, 1, CUT], 1),
    (
        head(content_type="text/event-stream", transfer_encoding="chunked") + chunk(b"data: 1\n\n"),
        [SSE, 1, CUT],
        1,
    ),
    (
        head(content_type="text/event-stream", transfer_encoding="chunked") + b"zz\r\n",
        [SSE, "the answer has broken chunks: invalid character in chunk size"],
        1,
    ),
]


def test_a_request_is_sent_as_it_was_given_with_the_key_in_a_header() -> None:
    body = json.dumps({"model": "m", "messages": "ü\u2028"}, ensure_ascii=False).encode()
    with Provider(says(full_response(b'{"a": 1}'))) as provider:
        said = run_call(f"{provider.url}/v1/", body=body, env={"A_KEY": KEY})
    assert said == ([JSON, {"a": 1}, WHOLE], 0)
    (request,) = provider.asked
    assert (request.line, request.body) == ("POST /v1/chat/completions HTTP/1.1", body)
    assert request.headers == {
        "host": f"127.0.0.1:{provider.port}",
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "connection": "close",
        "user-agent": "inspan",
        "content-length": str(len(body)),
        "authorization": f"Bearer {KEY}",
    }


@pytest.mark.parametrize(
    ("names", "env", "sent"),
    [
        ("A B", {"A": "", "B": KEY}, f"Bearer {KEY}"),
        ("A B", {"A": KEY, "B": "another"}, f"Bearer {KEY}"),
        ("A", {"B": KEY}, None),
        ("", {"A": KEY}, None),
    ],
)
def test_the_key_stands_in_the_first_variable_that_is_set(names: str, env: dict[str, str], sent: str | None) -> None:
    with Provider(says(full_response(b"{}"))) as provider:
        run_call(provider.url, env=env, key_from=names)
    assert provider.asked[0].headers.get("authorization") == sent


def test_a_key_that_cannot_stand_in_a_header_is_not_sent_and_not_shown() -> None:
    with Provider(says(full_response(b"{}"))) as provider:
        lines, code = run_call(provider.url, env={"A_KEY": f"{KEY}\r\nx-more: 1"})
    told = f"{provider.url}: the key cannot be sent in a header"
    assert (lines, code, provider.asked) == ([{"http": {"unreachable": told}}], 1, [])


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b'data: {"a":1}\n\n', b"data: [DONE]\n\n"], [{"a": 1}, "[DONE]"]),
        ([b'data: {"a', b'":', b"1}\n", b"\nda", b'ta:{"b":2}\n\n'], [{"a": 1}, {"b": 2}]),
        ([b': ping\n\nevent: x\r\nid: 4\r\ndata: {"a":1}\r\n\r\n'], [{"a": 1}]),
        ([b'data: {"a":\ndata: 1}\n\n'], [{"a": 1}]),
        ([b'data: {"a":1}'], [{"a": 1}]),
        ([b'data: {"a":1}\n'], [{"a": 1}]),
        ([b"data: \xff{nonsense\n\n"], ["�{nonsense"]),
        ([b"event: ping\n\n\n\n"], []),
        ([], []),
    ],
)
def test_the_data_of_each_event_is_a_line(pieces: list[bytes], lines: list[Any]) -> None:
    with Provider(says(stream(*pieces))) as provider:
        process = start_host(encode_request({"path": "/x", "address": provider.url}))
        out, _ = process.communicate(timeout=WAIT_S)
    read = [line.decode(errors="replace") for line in out.split(b"\n")[1:-2]]
    assert [json.loads(line) if line.startswith("{") else line for line in read] == lines


def test_events_are_passed_on_when_they_come() -> None:
    def act(line: ProviderConnection) -> None:
        line.send(head(content_type="text/event-stream", transfer_encoding="chunked") + chunk(b"data: 1\n\n"))
        line.receive()  # Until the other side is gone.

    with Provider(act) as provider:
        process = start_host(encode_request({"path": "/x", "address": provider.url}))
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline()) for _ in range(2)] == [SSE, 1]
        process.kill()
        process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize(("answer", "lines", "code"), ANSWERS)
def test_every_way_to_answer_is_told(answer: bytes, lines: list[Any], code: int) -> None:
    wanted = [{"http": {"ended": "cut", "message": line}} if isinstance(line, str) else line for line in lines]
    with Provider(then(says(answer), closes)) as provider:
        assert run_call(provider.url) == (wanted, code)


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (closes, GONE),
        (resets, "Connection reset by peer"),
        (then(says(b"SSH-2.0-x\r\n"), closes), "the answer is not HTTP/1.1"),
        (then(says(b"HTTP/1.1 200 OK\r\nx: y"), closes), GONE),
    ],
)
def test_who_gives_no_answer_was_not_reached(act: Act, problem: str) -> None:
    with Provider(act) as provider:
        assert run_call(provider.url) == ([{"http": {"unreachable": f"{provider.url}: {problem}"}}], 1)


def test_nobody_at_the_address_is_told() -> None:
    with refusing_address() as url:
        assert run_call(url) == ([{"http": {"unreachable": f"{url}: Connection refused"}}], 1)


@pytest.mark.parametrize("address", ["", "x", "ftp://127.0.0.1/", "http://", "http:///v1"])
def test_what_is_no_address_is_told(address: str) -> None:
    told = "the provider: this is not an address of a provider"
    assert run_call(address) == ([{"http": {"unreachable": told}}], 1)


def test_a_host_that_can_have_no_name_is_told() -> None:
    told = "http://a..b:1: no host can have this name"
    assert run_call("http://a..b:1") == ([{"http": {"unreachable": told}}], 1)


def test_a_long_event_takes_no_longer_for_being_cut_into_many_pieces() -> None:
    """Joined anew for each of its pieces, these 8 MB take half a minute."""
    line = b"data: " + b"7" * 40 + b"\n"
    body = b"".join(chunk(line * 9) for _ in range(20_000)) + chunk(b"\n") + chunk(b"")
    answer = head(content_type="text/event-stream", transfer_encoding="chunked") + body
    with Provider(then(says(answer), closes)) as provider:
        process = start_host(encode_request({"path": "/x", "address": provider.url}))
        out, _ = process.communicate(timeout=WAIT_S)
    assert [len(each) for each in out.split(b"\n")[1:-2]] == [20_000 * 9 * 41 - 1]


def test_the_time_of_an_answer_is_told_to_who_asks_for_it() -> None:
    with Provider(says(full_response(b"{}"))) as provider:
        (first, *_), _ = run_call(provider.url, clock="yes")
    assert first["http"].keys() == {"status", "headers", "at"}
    assert first["http"]["at"] > 1_700_000_000


def test_a_private_authority_is_trusted_where_the_variable_names_it(tmp_path: Path) -> None:
    made = authority(tmp_path)
    with Provider(says(full_response(b"{}")), tls=made.context) as provider:
        trusted = run_call(provider.url, env={"NODE_EXTRA_CA_CERTS": made.ca_file})
        (told,), code = run_call(provider.url)
    assert trusted == ([JSON, {}, WHOLE], 0)
    assert (code, "its certificate is not trusted: " in told["http"]["unreachable"]) == (1, True)


def test_a_proxy_is_asked_in_plain_words_and_loopback_never_has_one() -> None:
    with Provider(says(full_response(b"{}"))) as proxy, Provider(says(full_response(b"{}"))) as provider:
        env = {"HTTP_PROXY": f"http://us%65r:p@127.0.0.1:{proxy.port}", "A_KEY": KEY}
        assert run_call("http://model.example/v1", env=env)[1] == 0
        assert run_call(provider.url, env=env)[1] == 0
    (request,) = proxy.asked
    assert request.line == "POST http://model.example/v1/chat/completions HTTP/1.1"
    assert request.headers["host"] == "model.example"
    assert request.headers["proxy-authorization"] == "Basic dXNlcjpw"
    assert len(provider.asked) == 1


def test_tls_goes_through_a_tunnel(tmp_path: Path) -> None:
    made = authority(tmp_path, names="DNS:model.example")
    with Provider(says(full_response(b"{}")), tls=made.context) as provider:

        def tunnel(line: ProviderConnection) -> None:
            line.send(b"HTTP/1.1 200 Fine\r\n\r\n")
            line.tunnel_to(provider.port)

        with Provider(tunnel) as proxy:
            env = {"https_proxy": proxy.url, "NODE_EXTRA_CA_CERTS": made.ca_file, "A_KEY": KEY}
            assert run_call("https://model.example/v1", env=env) == ([JSON, {}, WHOLE], 0)
    (connect,) = proxy.asked
    assert connect.line == "CONNECT model.example:443 HTTP/1.1"
    assert KEY.encode() not in connect.raw
    assert provider.asked[0].headers["host"] == "model.example"


def test_a_proxy_that_refuses_is_told() -> None:
    with Provider(then(says(b"HTTP/1.1 407 No\r\n\r\n"), closes)) as proxy:
        told = "https://model.example:443: the proxy answered 407"
        env = {"ALL_PROXY": f"127.0.0.1:{proxy.port}"}
        assert run_call("https://model.example", env=env) == ([{"http": {"unreachable": told}}], 1)


@pytest.mark.parametrize("exception", ["*", "model.invalid", ".invalid", "*.invalid", "x,model.invalid:80"])
def test_an_exception_from_the_proxy_is_one(exception: str) -> None:
    with Provider(says(full_response(b"{}"))) as proxy:
        # Where no name server answers, it is given up soon.
        hurried = {"RES_OPTIONS": "timeout:1 attempts:1", "LOCALDOMAIN": ""}
        env = {"http_proxy": proxy.url, "NO_PROXY": exception, **hurried}
        (told,), _ = run_call("http://model.invalid", env=env)
    assert proxy.asked == []
    assert told["http"]["unreachable"].startswith("http://model.invalid:80: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_word(number: signal.Signals) -> None:
    with Provider(lambda line: None) as provider:
        process = start_host(encode_request({"path": "/x", "address": provider.url}))
        wait_until(lambda: provider.asked, "a request")
        process.send_signal(number)
        assert process.communicate(timeout=WAIT_S) == (b"", b"")
    assert process.returncode == -number
