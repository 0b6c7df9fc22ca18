"""The client on real sockets: every framing, kept connections, broken answers, TLS, proxies."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from inspan.errors import BadInput
from inspan.framing.http import AnswerHead
from inspan.gateway.http.client import Client, ConnectionCut, Unreachable
from inspan.gateway.http.routes import Origin, proxy_for, read_base_url
from tests.cli_env import wait_until

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
)

Kind = TypeVar("Kind")
OK = full_response(b"ok")
LARGE = bytes(range(256)) * (30 * 4096)


def run(work: Coroutine[Any, Any, Kind]) -> Kind:
    return asyncio.run(asyncio.wait_for(work, WAIT_S))


def client_for(url: str, **options: Any) -> Client:
    options.setdefault("idle_s", WAIT_S)  # However long a busy machine takes between two requests.
    return Client(read_base_url(url)[0], **options)


async def fetch(
    client: Client, *, method: str = "POST", body: bytes = b"", target: str = "/"
) -> tuple[AnswerHead, bytes]:
    with await client.send(method, target, headers={"x-test": "1"}, body=body) as exchange:
        answered = await exchange.head()
        pieces: list[bytes] = []
        while piece := await exchange.read():
            pieces.append(piece)
        return answered, b"".join(pieces)


async def run_and_close(client: Client, work: Awaitable[Kind]) -> Kind:
    try:
        return await work
    finally:
        await client.close()


def answers(provider: Provider, *, times: int = 1, **asked: Any) -> list[tuple[AnswerHead, bytes]]:
    async def work() -> list[tuple[AnswerHead, bytes]]:
        client = client_for(provider.url)
        return await run_and_close(client, several(client))

    async def several(client: Client) -> list[tuple[AnswerHead, bytes]]:
        return [await fetch(client, **asked) for _ in range(times)]

    return run(work())


def why_unreachable(url: str, **options: Any) -> str:
    async def work() -> str:
        client = client_for(url, **options)
        with pytest.raises(Unreachable) as error:
            await run_and_close(client, fetch(client))
        return str(error.value)

    return run(work())


SURPLUS = b"more"


def in_single_bytes(line: ProviderConnection, data: bytes) -> None:
    """Byte by byte, but a surplus with the byte before it: nobody can know of one that is still to come."""
    single = len(data) - len(SURPLUS) - 1 if data.endswith(SURPLUS) else len(data)
    for at in range(single):
        line.send(data[at : at + 1])
    if single < len(data):
        line.send(data[single:])


SENDERS: dict[str, Callable[[ProviderConnection, bytes], None]] = {
    "at once": lambda line, data: line.send(data),
    "in single bytes": in_single_bytes,
}

# What is sent, what is understood, and whether the connection can be used again.
FRAMINGS: dict[str, tuple[bytes, tuple[int, bytes], bool]] = {
    "a length": (full_response(b"hello"), (200, b"hello"), True),
    "a length of nothing": (full_response(b""), (200, b""), True),
    "a length, and a wish to end": (head(content_length="2", connection="close") + b"ok", (200, b"ok"), False),
    "a length, and too much": (full_response(b"ok") + SURPLUS, (200, b"ok"), False),
    "chunks": (stream(b"one", b"two"), (200, b"onetwo"), True),
    "no chunk at all": (stream(), (200, b""), True),
    "chunks with decoration": (
        head(transfer_encoding="Chunked") + b"3;x=y\r\none\r\n0000\r\nx-trailer: 1\r\n\r\n",
        (200, b"one"),
        True,
    ),
    "the end of the connection": (head(content_type="text/html") + b"<html>", (200, b"<html>"), False),
    "the end of an old connection": (b"HTTP/1.0 200 OK\r\n\r\nhello", (200, b"hello"), False),
    "an old one that is kept": (
        b"HTTP/1.0 200\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok",
        (200, b"ok"),
        True,
    ),
    "no content": (head(204), (204, b""), True),
    "not modified": (head(304, content_length="10"), (304, b""), True),
    "go on": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, (200, b"ok"), True),
    "hints, and go on": (head(103, link="</a>") + head(100) + OK, (200, b"ok"), True),
}


@pytest.mark.parametrize("way", SENDERS)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing_is_understood(framing: str, way: str) -> None:
    sent, understood, is_kept = FRAMINGS[framing]

    def act(line: ProviderConnection) -> None:
        SENDERS[way](line, sent)
        if framing.startswith("the end"):
            line.close()

    with Provider(act) as provider:
        found = answers(provider, times=2)
    assert [(answered.status, body) for answered, body in found] == [understood] * 2
    assert provider.connections == (1 if is_kept else 2)


def test_the_answer_to_a_head_has_no_body() -> None:
    with Provider(says(head(content_length="100"))) as provider:
        ((answered, body), _) = answers(provider, method="HEAD", times=2)
    assert (answered.headers, body) == ({"content-length": "100"}, b"")
    assert provider.connections == 1


def test_a_request_arrives_as_it_was_sent() -> None:
    with Provider(says(OK)) as provider:
        answers(provider, body=b"{}", target="/v1/messages?beta=true")
        answers(provider, method="GET")
    assert [asked.raw for asked in provider.asked] == [
        b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-test: 1\r\ncontent-length: 2\r\n\r\n{}"
        % provider.port,
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-test: 1\r\n\r\n" % provider.port,
    ]


def test_a_header_that_smuggles_another_one_is_not_sent() -> None:
    async def work() -> None:
        client = client_for(provider.url)
        with pytest.raises(ValueError, match="has a line break"):
            await client.send("POST", "/", headers={"x": "1\r\ny: 2"})
        await client.close()

    with Provider(says(OK)) as provider:
        run(work())
    assert provider.connections == 0


def test_headers_that_come_twice_are_joined_and_cookies_are_not() -> None:
    sent = b"HTTP/1.1 204 \r\nVary: a\r\nvary:b\r\nset-cookie: c=1, 2\r\nset-cookie: d\r\nX-Odd:\t\xe9 \r\n\r\n"
    with Provider(says(sent)) as provider:
        ((answered, _),) = answers(provider)
    assert answered == AnswerHead(status=204, headers={"vary": "a, b", "x-odd": "é"}, cookies=("c=1, 2", "d"))


BROKEN = {
    "a length that is not reached": full_response(b"hello")[:-2],
    "chunks without an end": stream(b"one")[:-5],
    "chunks that end in the middle of one": stream(b"one", b"two" * 100)[:-40],
    "a chunk without a size": head(transfer_encoding="chunked") + chunk(b"one") + b"x\r\n",
    "a chunk that is too long": head(transfer_encoding="chunked") + b"3\r\nonetwo\r\n0\r\n\r\n",
    "a size without an end": head(transfer_encoding="chunked") + chunk(b"one") + b"1" * 70_000,
    "trailers without an end": head(transfer_encoding="chunked") + chunk(b"one") + b"0\r\n" + b"x: y\r\n" * 9000,
}


@pytest.mark.parametrize("ending", [closes, resets], ids=["closes", "resets"])
@pytest.mark.parametrize("broken", BROKEN)
def test_an_answer_that_breaks_off_is_a_cut_after_what_came(
    broken: str, ending: Callable[[ProviderConnection], None]
) -> None:
    was_heard = threading.Event()

    async def work() -> bytes:
        client = client_for(provider.url)
        seen = b""
        with pytest.raises(ConnectionCut):
            with await client.send("POST", "/", headers={}) as exchange:
                await exchange.head()
                while piece := await exchange.read():
                    seen += piece
                    was_heard.set()
        await client.close()
        return seen

    def act(line: ProviderConnection) -> None:
        line.send(BROKEN[broken])
        was_heard.wait(WAIT_S)  # A reset overtakes what was sent just before it.
        ending(line)

    with Provider(act) as provider:
        assert run(work())[:3] in (b"one", b"hel")


@pytest.mark.parametrize("size", [200_000, 10])
def test_a_reset_is_no_end_of_a_body_that_ends_with_the_connection(size: int) -> None:
    was_heard = threading.Event()

    async def work() -> None:
        client = client_for(provider.url)
        try:
            with await client.send("POST", "/", headers={}) as exchange:
                await exchange.head()
                while await exchange.read():
                    was_heard.set()
        finally:
            await client.close()

    def act(line: ProviderConnection) -> None:
        line.send(head() + b"x" * size)
        was_heard.wait(WAIT_S)
        line.reset()

    with Provider(act) as provider, pytest.raises(ConnectionCut):
        run(work())


NO_HTTP = {
    "is not HTTP/1.1": b"SSH-2.0-OpenSSH_9.2\r\n",
    "has a head without an end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
    "is not HTTP/1.1: invalid character in Content-Length": head(content_length="five"),
    "is not HTTP/1.1: duplicate Content-Length": head()[:-2] + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "is not HTTP/1.1: transfer-Encoding can't be present with Content-Length": head(
        content_length="99", transfer_encoding="chunked"
    ),
    "has the transfer-encoding 'gzip, chunked', which was not asked for": head(transfer_encoding="gzip, chunked"),
    "wants to speak another protocol": head(101, upgrade="h2c"),
}


@pytest.mark.parametrize("why", NO_HTTP)
def test_what_is_no_http_is_named(why: str) -> None:
    with Provider(says(NO_HTTP[why])) as provider:
        assert why_unreachable(provider.url) == f"{provider.url} cannot be reached: its answer {why}."


def test_a_connection_is_used_again() -> None:
    with Provider(says(OK)) as provider:
        answers(provider, times=5)
    assert (provider.connections, len(provider.asked)) == (1, 5)


def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    async def work() -> None:
        client = client_for(provider.url)
        await fetch(client)
        wait_until(lambda: not _is_established(provider.url), "end of the connection")
        await asyncio.sleep(0.1)
        await run_and_close(client, fetch(client))

    with Provider(then(says(OK), closes), says(OK)) as provider:
        run(work())
    assert (provider.connections, len(provider.asked)) == (2, 2)


def test_a_connection_on_which_something_came_unasked_is_not_used_again() -> None:
    async def work() -> bytes:
        client = client_for(provider.url)
        await fetch(client)
        was_heard.set()
        assert await asyncio.to_thread(has_nagged.wait, WAIT_S)
        await asyncio.sleep(0.1)
        return (await run_and_close(client, fetch(client)))[1]

    was_heard, has_nagged = threading.Event(), threading.Event()

    def nags(line: ProviderConnection) -> None:
        line.send(OK)
        was_heard.wait(WAIT_S)
        line.send(full_response(b"too slow", status=408))
        has_nagged.set()

    with Provider(nags, says(OK)) as provider:
        assert run(work()) == b"ok"
    assert provider.connections == 2


def _is_established(url: str) -> bool:
    """Whether a connection to this address stands, as the system sees it from our side."""
    there = f":{int(url.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return any(remote.endswith(there) and state == "01" for _, _, remote, state, *_ in lines)


@pytest.mark.parametrize("ending", [closes, resets], ids=["closes", "resets"])
def test_a_connection_whose_end_nobody_has_heard_of_yet_is_not_used_again(
    ending: Callable[[ProviderConnection], None],
) -> None:
    is_over = threading.Event()

    def ends(line: ProviderConnection) -> None:
        ending(line)
        is_over.set()

    async def work() -> bytes:
        client = client_for(provider.url)
        await fetch(client)
        # The loop stands still meanwhile: the system knows, and it has not been told.
        assert is_over.wait(WAIT_S)
        wait_until(lambda: not _is_established(provider.url), "end of the connection")
        return (await run_and_close(client, fetch(client)))[1]

    with Provider(then(says(OK), ends), says(OK)) as provider:
        assert run(work()) == b"ok"
    assert (provider.connections, len(provider.asked)) == (2, 2)


@pytest.mark.parametrize("ending", [closes, resets], ids=["closes", "resets"])
def test_a_request_that_a_kept_connection_swallowed_is_not_sent_again(
    ending: Callable[[ProviderConnection], None],
) -> None:
    """The provider may have read it, and asking again would be paid for twice."""
    with (
        Provider(says(OK), ending, says(OK)) as provider,
        pytest.raises(Unreachable, match="before an answer came"),
    ):
        answers(provider, times=2, body=b"precious")
    assert [asked.body for asked in provider.asked] == [b"precious"] * 2


def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    """Its provider may be about to close it."""

    async def work() -> None:
        client = client_for(provider.url, idle_s=0.0)
        for _ in range(3):
            await fetch(client)
        await client.close()

    with Provider(says(OK)) as provider:
        run(work())
    assert (provider.connections, len(provider.asked)) == (3, 3)


def test_a_request_that_a_fresh_connection_swallowed_is_not_sent_again() -> None:
    with Provider(closes) as provider:
        told = why_unreachable(provider.url)
    assert told == f"{provider.url} cannot be reached: the connection was closed before an answer came."
    assert len(provider.asked) == 1


def test_a_request_that_has_been_answered_a_little_is_not_sent_again() -> None:
    with Provider(says(OK), then(says(b"HTTP/1.1 2"), closes)) as provider, pytest.raises(Unreachable):
        answers(provider, times=2)
    assert len(provider.asked) == 2


def test_thirty_megabytes_pass_either_way() -> None:
    with Provider(says(full_response(LARGE))) as provider:
        ((_, body),) = answers(provider, body=LARGE)
    assert body == LARGE
    assert [asked.body == LARGE for asked in provider.asked] == [True]


def test_a_refusal_of_a_request_that_is_still_being_sent_is_heard() -> None:
    stays = threading.Event()

    def act(line: ProviderConnection) -> None:
        line.send(full_response(b"too large", status=413))
        stays.wait(WAIT_S)
        line.close()

    with Provider(act, reads_body=False) as provider:
        ((answered, body),) = answers(provider, body=LARGE)
        stays.set()
    assert (answered.status, body) == (413, b"too large")


def test_a_slow_reader_holds_the_provider_back() -> None:
    piece, count = b"x" * 65536, 2000
    sent: list[int] = []

    def act(line: ProviderConnection) -> None:
        line.send(head(content_length=str(len(piece) * count)))
        for number in range(count):
            line.send(piece)
            sent.append(number)

    async def work() -> tuple[int, int]:
        client = client_for(provider.url)
        with await client.send("GET", "/", headers={}) as exchange:
            await exchange.head()
            before = -1
            while before != len(sent):
                before = len(sent)
                await asyncio.sleep(0.2)
            taken = 0
            while data := await exchange.read():
                taken += len(data)
        await client.close()
        return before, taken

    with Provider(act) as provider:
        held_at, taken = run(work())
    assert held_at < count / 2
    assert taken == len(piece) * count


def test_giving_up_closes_the_connection() -> None:
    asked, left = threading.Event(), threading.Event()

    def act(line: ProviderConnection) -> None:
        asked.set()
        if not line.receive():
            left.set()

    async def work() -> None:
        client = client_for(provider.url)
        asking = asyncio.create_task(fetch(client))
        assert await asyncio.to_thread(asked.wait, WAIT_S)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(left.wait, WAIT_S)
        await client.close()

    with Provider(act) as provider:
        run(work())


def test_closing_ends_what_is_in_flight_and_happens_twice_without_harm() -> None:
    async def work() -> None:
        client = client_for(provider.url)
        asking = asyncio.ensure_future(fetch(client))
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(Unreachable):
            await asking
        with pytest.raises(Unreachable, match="the gateway is closing"):
            await fetch(client)
        await client.close()

    with Provider(lambda line: time.sleep(0.5)) as provider:
        run(work())


def test_there_are_never_more_connections_than_allowed() -> None:
    async def work() -> None:
        client = client_for(provider.url, max_connections=2)
        await run_and_close(client, asyncio.gather(*(fetch(client) for _ in range(6))))

    with Provider(then(lambda line: time.sleep(0.05), says(OK))) as provider:
        run(work())
    assert (provider.connections, len(provider.asked)) == (2, 6)


def test_a_name_is_looked_up() -> None:
    with Provider(says(OK)) as provider:
        ((answered, _),) = run(_from_localhost(provider.port))
    assert answered.status == 200


def test_when_the_first_address_of_a_name_is_dead_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_addresses(host: str, port: int, **hints: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    with Provider(says(OK)) as provider:
        monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
        ((answered, _),) = run(_from_localhost(provider.port))
    assert answered.status == 200


async def _from_localhost(port: int) -> list[tuple[AnswerHead, bytes]]:
    client = client_for(f"http://localhost:{port}")
    return [await run_and_close(client, fetch(client))]


def test_a_provider_that_is_down_is_named_with_the_reason() -> None:
    with refusing_address() as url:
        assert why_unreachable(f"{url}/v1") == f"{url} cannot be reached: the connection was refused."


def test_a_host_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(host: str, port: int, **hints: object) -> list[tuple[object, ...]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)  # A machine without a name server may need long to say so.
    told = why_unreachable("http://no-such-host.invalid")
    assert told == "http://no-such-host.invalid cannot be reached: the name of the host is not known."


def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://127.0.0.1:{mute.getsockname()[1]}"
        told = why_unreachable(url, connect_timeout_s=0.3)
    assert told == f"{url} cannot be reached: no connection came about within 0.3 s."


def test_tls_is_spoken_to_those_whom_an_extra_authority_vouches_for(tmp_path: Path) -> None:
    vouched = authority(tmp_path)
    names: list[str | None] = []
    vouched.context.sni_callback = lambda plug, name, context: names.append(name)

    async def work() -> list[bytes]:
        client = client_for(f"https://localhost:{provider.port}", ca_files=[vouched.ca_file])
        return await run_and_close(client, several(client))

    async def several(client: Client) -> list[bytes]:
        return [(await fetch(client, body=LARGE))[1] for _ in range(2)]

    with Provider(says(full_response(LARGE)), tls=vouched.context) as provider:
        assert [body == LARGE for body in run(work())] == [True, True]
    assert [asked.body == LARGE for asked in provider.asked] == [True, True]
    assert (names, provider.connections) == (["localhost"], 1)


def test_the_authorities_of_the_environment_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vouched = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", vouched.ca_file)
    with Provider(says(OK), tls=vouched.context) as provider:
        assert [body for _, body in answers(provider)] == [b"ok"]


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    with Provider(says(OK), tls=authority(tmp_path).context) as provider:
        told = why_unreachable(provider.url)
    assert told.startswith(f"{provider.url} cannot be reached: its certificate is not trusted: ")
    assert provider.asked == []


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    other = authority(tmp_path, names="DNS:other.example")
    with Provider(says(OK), tls=other.context) as provider:
        told = why_unreachable(provider.url, ca_files=[other.ca_file])
    assert "its certificate is not trusted: IP address mismatch" in told
    assert provider.asked == []


def test_a_provider_that_speaks_no_tls_is_named() -> None:
    with Provider(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), reads_body=False) as provider:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            threading.Thread(target=_answers_plainly, args=(mute,), daemon=True).start()
            told = why_unreachable(f"https://127.0.0.1:{mute.getsockname()[1]}")
    assert "cannot be reached: TLS failed: " in told
    assert provider.asked == []


def _answers_plainly(listener: socket.socket) -> None:
    plug, _ = listener.accept()
    with plug, contextlib.suppress(ConnectionError):  # Who does not like the answer may leave at once.
        plug.recv(1000)
        plug.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        plug.recv(1000)


@pytest.mark.parametrize(
    ("content", "why"), [("no certificate", "holds no certificates"), (None, "cannot be read: No")]
)
def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "authorities"
    if content is not None:
        file.write_text(content)
    with Provider(says(OK)) as provider:
        told = why_unreachable(f"https://127.0.0.1:{provider.port}", ca_files=[str(file)])
    assert why in told


_WITHOUT_SSL = """
import asyncio, sys
sys.modules["ssl"] = None
from inspan.gateway.http.client import Client, Unreachable
from inspan.gateway.http.routes import read_base_url

async def fetch(url):
    client = Client(read_base_url(url)[0])
    try:
        with await client.send("GET", "/", headers={}) as exchange:
            await exchange.head()
            return (await exchange.read()).decode()
    except Unreachable as error:
        return str(error)
    finally:
        await client.close()

for url in sys.argv[1:]:
    print(asyncio.run(fetch(url)))
"""


def test_a_process_that_may_not_load_ssl_speaks_plain_http_and_says_so_of_the_rest() -> None:
    with Provider(says(OK)) as provider:
        secure = provider.url.replace("http:", "https:")
        argv = [sys.executable, "-c", _WITHOUT_SSL, provider.url, secure]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert ran.stdout == f"ok\n{secure} cannot be reached: TLS is not available in this process.\n"


def test_a_proxy_for_plain_http_is_told_where_to_go() -> None:
    async def work() -> bytes:
        proxies = {"http_proxy": f"http://me:p%40ss@127.0.0.1:{proxy.port}"}
        client = client_for("http://provider.test/v1", proxies=proxies)
        return (await run_and_close(client, fetch(client, target="/v1/x?y=1")))[1]

    with Provider(says(OK)) as proxy:
        assert run(work()) == b"ok"
    (asked,) = proxy.asked
    assert asked.line == "POST http://provider.test/v1/x?y=1 HTTP/1.1"
    assert (asked.headers["host"], asked.headers["proxy-authorization"]) == ("provider.test", "Basic bWU6cEBzcw==")


def test_a_proxy_tunnels_tls(tmp_path: Path) -> None:
    vouched = authority(tmp_path, names="DNS:provider.test")

    def tunnel(line: ProviderConnection) -> None:
        line.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        line.tunnel_to(provider.port)

    async def work() -> list[bytes]:
        proxies = {"https_proxy": f"http://me:secret@127.0.0.1:{proxy.port}"}
        client = client_for("https://provider.test", proxies=proxies, ca_files=[vouched.ca_file])
        return await run_and_close(client, several(client))

    async def several(client: Client) -> list[bytes]:
        return [(await fetch(client))[1] for _ in range(2)]

    with Provider(says(OK), tls=vouched.context) as provider, Provider(tunnel) as proxy:
        assert run(work()) == [b"ok", b"ok"]
    (connected,) = proxy.asked
    assert connected.line == "CONNECT provider.test:443 HTTP/1.1"
    assert connected.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
    assert ["proxy-authorization" in asked.headers for asked in provider.asked] == [False, False]
    assert proxy.connections == 1


def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    with Provider(says(full_response(b"who are you?", status=407))) as proxy:
        proxies = {"all_proxy": f"me:secret@127.0.0.1:{proxy.port}"}
        told = why_unreachable("https://provider.test", proxies=proxies)
    through = f"through the proxy http://127.0.0.1:{proxy.port}"
    assert told == f"https://provider.test cannot be reached {through}: the proxy answered 407."


@pytest.mark.parametrize(
    ("host", "port", "exceptions", "is_used"),
    [
        ("api.example.com", 443, "", True),
        ("api.example.com", 443, "other.com", True),
        ("api.example.com", 443, "*", False),
        ("api.example.com", 443, "other.com, API.example.com", False),
        ("api.example.com", 443, "other.com example.com", False),
        ("api.example.com", 443, ".example.com", False),
        ("api.example.com", 443, "*.example.com", False),
        ("api.example.com", 443, "ample.com", True),
        ("api.example.com", 443, "api.example.com:443", False),
        ("api.example.com", 443, "api.example.com:8443", True),
        ("10.0.0.7", 443, "10.0.0.7", False),
        ("fd00::7", 443, "[fd00::7]:443", False),
        ("fd00::7", 443, "fd00::7", False),
        ("localhost", 443, "", False),
        ("a.localhost", 443, "", False),
        ("127.0.0.2", 443, "", False),
        ("::1", 443, "", False),
    ],
)
def test_what_needs_no_proxy_gets_none(host: str, port: int, exceptions: str, is_used: bool) -> None:
    proxies = {"https_proxy": "http://proxy:3128", "no_proxy": exceptions}
    found = proxy_for(Origin(scheme="https", host=host, port=port), proxies)
    assert (str(found.origin) if found else None) == ("http://proxy:3128" if is_used else None)


@pytest.mark.parametrize("url", ["socks5h://me:secret@host:1", "https://me:secret@host", "http://me:secret@", "a b"])
def test_a_proxy_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadInput) as error:
        proxy_for(Origin(scheme="https", host="x.test", port=443), {"all_proxy": url})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://api.example.com", "https://api.example.com", ""),
        ("https://API.example.com:443/", "https://api.example.com", ""),
        ("http://[::1]:8080/a/b//", "http://[::1]:8080", "/a/b"),
        ("https://bücher.example/v1", "https://xn--bcher-kva.example", "/v1"),
        ("http://host:443", "http://host:443", ""),
    ],
)
def test_an_address_of_a_provider_is_read(url: str, origin: str, path: str) -> None:
    found, rest = read_base_url(url)
    assert (str(found), rest) == (origin, path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://x",
        "https://",
        "https://me:secret@x",
        "https://x?y",
        "https://x:99999",
        "http://a b",
    ],
)
def test_what_is_no_address_of_a_provider_is_refused(url: str) -> None:
    with pytest.raises(BadInput) as error:
        read_base_url(url)
    assert "secret" not in str(error.value)
