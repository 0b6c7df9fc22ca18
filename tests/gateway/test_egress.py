"""The proxy out of a sandbox: what is on the list passes unchanged, everything else is refused and told of."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from inspan.gateway import egress
from inspan.gateway.egress import EgressProxy
from inspan.protocol.network import format_place, parse_network

Answer = Callable[[bytes], bytes]


@asynccontextmanager
async def _serve(answer: Answer, *, seen: list[bytes] | None = None, host: str = "127.0.0.1") -> AsyncGenerator[int]:
    """A server that reads a head and answers it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(answer(head))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def _open_proxy(
    net: str, *, proxies: dict[str, str] | None = None, refused: list[tuple[str, int]] | None = None
) -> AsyncGenerator[int]:
    heard: list[tuple[str, int]] = [] if refused is None else refused
    proxy = EgressProxy(
        parse_network(net), proxies=proxies or {}, on_refused=lambda host, port: heard.append((host, port))
    )
    listener = socket.create_server(("127.0.0.1", 0))
    await proxy.open(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        await proxy.close()


async def _ask(port: int, request: bytes, *more: bytes) -> bytes:
    """What comes back, to the end; each further part is sent once something has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    got = b""
    for part in more:
        got += await reader.readuntil(b"\r\n\r\n")
        writer.write(part)
    got += await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return got


def _run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # pyright: ignore[reportArgumentType]  a coroutine is awaitable


def test_a_tunnel_to_a_host_on_the_list_passes_every_byte() -> None:
    async def test() -> None:
        data = bytes(range(256)) * 4000
        async with (
            _serve(lambda head: b"hello " + head + data) as server,
            _open_proxy(f"allow=127.0.0.1:{server}") as port,
        ):
            connect = f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            got = await _ask(port, connect, b"secret bytes\r\n\r\n")
            assert got == b"HTTP/1.1 200 Connection established\r\n\r\nhello secret bytes\r\n\r\n" + data

    _run(test)


def test_a_plain_request_goes_where_its_address_says_and_nothing_of_the_proxy_with_it() -> None:
    async def test() -> None:
        seen: list[bytes] = []
        async with _serve(lambda _: b"HTTP/1.1 200 OK\r\n\r\nyes", seen=seen) as server:
            async with _open_proxy(f"allow=127.0.0.1:{server}") as port:
                head = f"GET http://127.0.0.1:{server}/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
                assert (
                    await _ask(port, f"{head}Connection: keep-alive\r\n\r\n".encode()) == b"HTTP/1.1 200 OK\r\n\r\nyes"
                )
        lines = seen[0].decode().split("\r\n")
        assert lines[0] == "GET /a?b HTTP/1.1"
        assert [line for line in lines if line.lower().startswith("host:")] == [f"host: 127.0.0.1:{server}"]
        assert not any("evil" in line for line in lines)
        assert "connection: close" in lines and not any(line.lower().startswith("proxy-") for line in lines)

    _run(test)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("CONNECT example.org:443", ("example.org", 443)),
        ("CONNECT 192.0.2.1:443", ("192.0.2.1", 443)),
        ("CONNECT [2001:db8::1]:443", ("2001:db8::1", 443)),
        ("CONNECT [::ffff:192.0.2.1]:443", ("192.0.2.1", 443)),
        ("CONNECT allowed.example:22", ("allowed.example", 22)),
        ("CONNECT allowed.example.evil.test:443", ("allowed.example.evil.test", 443)),
        ("CONNECT 2130706433:443", ("2130706433", 443)),
        ("GET http://example.org/", ("example.org", 80)),
        ("GET http://allowed.example:8080/", ("allowed.example", 8080)),
        ("GET HTTP://EXAMPLE.org./x", ("example.org", 80)),
    ],
)
def test_a_host_that_is_not_on_the_list_is_refused_by_every_name(target: str, host: tuple[str, int]) -> None:
    async def test() -> None:
        refused: list[tuple[str, int]] = []
        async with _open_proxy("allow=allowed.example", refused=refused) as port:
            got = await _ask(port, f"{target} HTTP/1.1\r\nHost: allowed.example\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 403 ") and f"{format_place(*host)} is not on the list".encode() in got
        assert refused == [host]

    _run(test)


def test_without_a_list_every_host_is_refused() -> None:
    async def test() -> None:
        async with _open_proxy("gateway") as port:
            assert (await _ask(port, b"CONNECT localhost:80 HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 403 ")

    _run(test)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        b"GET https://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        b"CONNECT allowed.example HTTP/1.0\r\n\r\nx",
        b"CONNECT allowed.example:443:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT user@allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://user@allowed.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT allowed.example:99999 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET http://allowed.example\\@evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"x" * 70_000 + b"\r\n\r\n",
        b"\x16\x03\x01 hello of TLS\r\n\r\n",
    ],
)
def test_what_is_no_request_to_a_proxy_is_refused(request_bytes: bytes) -> None:
    async def test() -> None:
        refused: list[tuple[str, int]] = []
        async with _open_proxy("allow=allowed.example", refused=refused) as port:
            got = await _ask(port, request_bytes)
        assert got[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403") or got.startswith(b"HTTP/1.1 502")
        assert b"Traceback" not in got

    _run(test)


def test_a_request_with_two_host_headers_is_refused() -> None:
    async def test() -> None:
        seen: list[bytes] = []
        async with _serve(lambda _: b"HTTP/1.1 200 OK\r\n\r\n", seen=seen) as server:
            async with _open_proxy(f"allow=127.0.0.1:{server}") as port:
                head = f"GET http://127.0.0.1:{server}/ HTTP/1.1\r\nHost: 127.0.0.1:{server}\r\nHost: evil.example\r\n"
                assert (await _ask(port, f"{head}\r\n".encode())).startswith(b"HTTP/1.1 400 ")
        assert seen == []

    _run(test)


def test_a_name_that_stands_for_this_machine_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(origin: object) -> list[str]:
        return ["127.0.0.1", "169.254.169.254", "::1"]

    async def test() -> None:
        monkeypatch.setattr(egress, "resolve_addresses", look_up)
        reached: list[bytes] = []
        async with _serve(lambda _: b"reached", seen=reached) as server:
            async with _open_proxy(f"allow=rebound.example:{server}") as port:
                got = await _ask(port, f"CONNECT rebound.example:{server} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 502 ") and b"which is this machine" in got
        assert reached == []

    _run(test)


def test_a_name_that_stands_for_this_machine_in_its_network_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _find_own_address()

    async def look_up(origin: object) -> list[str]:
        return [own]

    async def test() -> None:
        monkeypatch.setattr(egress, "resolve_addresses", look_up)
        reached: list[bytes] = []
        async with _serve(lambda _: b"reached", seen=reached, host=own) as server:
            async with _open_proxy(f"allow=rebound.example:{server}") as port:
                got = await _ask(port, f"CONNECT rebound.example:{server} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 502 ") and b"which is this machine" in got
        assert reached == []

    _run(test)


def _find_own_address() -> str:
    """By which others reach this machine; loopback, where it is in no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # Nothing is sent.
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_it_goes_through_the_users_own_proxy_where_there_is_one() -> None:
    async def test() -> None:
        seen: list[bytes] = []
        answer: Answer = lambda _: b"HTTP/1.1 200 OK\r\n\r\nfrom beyond"  # noqa: E731
        async with _serve(answer, seen=seen) as outer:
            proxies = {"https_proxy": f"http://me:pass@127.0.0.1:{outer}"}
            async with _open_proxy("allow=allowed.example", proxies=proxies) as port:
                got = await _ask(port, b"CONNECT allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got.endswith(b"from beyond")
        assert b"CONNECT allowed.example:443 HTTP/1.1" in seen[0] and b"proxy-authorization: Basic" in seen[0]

    _run(test)


def test_a_proxy_of_the_users_that_refuses_is_told() -> None:
    async def test() -> None:
        async with _serve(lambda _: b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as outer:
            async with _open_proxy("allow=a.example", proxies={"https_proxy": f"http://127.0.0.1:{outer}"}) as port:
                got = await _ask(port, b"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 502 ") and b"refused it" in got

    _run(test)


def test_closing_cuts_what_is_being_passed_on() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        target = server.sockets[0].getsockname()[1]
        async with server:
            async with _open_proxy(f"allow=127.0.0.1:{target}") as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"CONNECT 127.0.0.1:{target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            release.set()

    _run(test)
