"""The only way out of a sandbox's network: a proxy that lets through what the run's list of hosts names.

It speaks what programs expect of a proxy: CONNECT for everything over TLS, and whole URLs for plain HTTP. Names are
looked up here, once, and what was looked up is what is connected to. It does not look into what it passes on.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from inspan.errors import BadInput
from inspan.framing.http import HEAD_LIMIT_BYTES, NotHttp, RequestHead, RequestReader
from inspan.gateway.http.connector import CONNECT_TIMEOUT_S, resolve_addresses
from inspan.gateway.http.routes import Origin, Proxy, proxy_for
from inspan.protocol.network import HostRule, NetworkPolicy, format_place, is_public_enough, normalize_host

_HEAD_S = 10.0
_CLOSE_S = 2.0
_CHUNK_BYTES = 64 * 1024
_MAX_CONNECTIONS = 256
_ANY_PORT = 9
_HEAD_END = b"\r\n\r\n"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REPLACED_HEADERS = frozenset(
    {"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "upgrade"}
)
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}

OnRefused = Callable[[str, int], None]
_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Rejected(Exception):
    """The client gets this status and sentence, and nothing is connected."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Server:
    """Takes connections on a socket that it is given, each in a task that ends with it."""

    def __init__(self, serve: _Serve) -> None:
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def open(self, listener: socket.socket) -> None:
        # In two steps, as in gateway/http/server.py: a cancel between them leaves a server that can be closed.
        self._server = await asyncio.start_server(
            self._accept, sock=listener, limit=HEAD_LIMIT_BYTES, start_serving=False
        )
        await self._server.start_serving()

    async def close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # A server gives each connection a task.
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # Either side hung up, or the run has ended.
        finally:
            self._tasks.discard(task)
            writer.close()


class PortForward:
    """A port of this machine, under the same number in a box: for programs that know no proxy, such as databases'."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server = _Server(self._serve)

    async def open(self, listener: socket.socket) -> None:
        """Serves the socket, which it then owns."""
        await self._server.open(listener)

    async def close(self) -> None:
        """Bounded and idempotent; what is being passed on is cut."""
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join((reader, writer), await asyncio.open_connection(*self._target))


class EgressProxy:
    """Serves one run. `proxies` are the variables of the user's own proxy, through which it then goes, too.

    `on_refused` hears of every request to a host that is not on the list, with host and port.
    """

    def __init__(self, policy: NetworkPolicy, *, proxies: Mapping[str, str], on_refused: OnRefused) -> None:
        self._policy = policy
        self._proxies = proxies
        self._on_refused = on_refused
        self._server = _Server(self._serve)

    async def open(self, listener: socket.socket) -> None:
        """Serves the socket, which it then owns."""
        await self._server.open(listener)

    async def close(self) -> None:
        """Bounded and idempotent; what is being passed on is cut."""
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._server.connections > _MAX_CONNECTIONS:
                raise _Rejected(503, "too many connections at a time")
            head = await _read_head(reader)
            host, port, path = _read_target(head)
            upstream = await self._connect(host, port)
        except _Rejected as refusal:
            writer.write(_format_refusal(refusal))
            await writer.drain()
            return
        if head.method == "CONNECT":
            writer.write(_ESTABLISHED)
        else:
            upstream[1].write(_format_request(head, host, port, path))
        await _join((reader, writer), upstream)

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        rule, place = self._policy.find_rule(host, port), format_place(host, port)
        if rule is None:
            self._on_refused(host, port)
            raise _Rejected(403, f"{place} is not on the list of hosts that this run may reach (--net)")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                origin = Origin(scheme="https" if port == 443 else "http", host=host, port=port)
                proxy = proxy_for(origin, self._proxies)
                return await (_open_tunnel(origin, proxy) if proxy else _open_directly(origin, rule))
        except TimeoutError:
            raise _Rejected(502, f"{place} did not answer within {CONNECT_TIMEOUT_S:g} s") from None
        except (OSError, BadInput, NotHttp) as error:
            raise _Rejected(502, f"{place} cannot be reached: {error}") from error


async def _read_head(reader: asyncio.StreamReader) -> RequestHead:
    """The head of a request alone: what follows is for the other side."""
    try:
        async with asyncio.timeout(_HEAD_S):
            data = await reader.readuntil(_HEAD_END)
    except (TimeoutError, asyncio.LimitOverrunError):
        raise _Rejected(400, "this is not a request to a proxy") from None
    found = RequestReader()
    found.feed(data)
    if found.head is None or found.problem:
        raise _Rejected(400, f"the request {found.problem or 'is not HTTP'}")
    return found.head


def _read_target(head: RequestHead) -> tuple[str, int, str]:
    """Host, port and path. What is asked for by a whole URL goes where the URL says, whatever its `Host` header."""
    if head.method == "CONNECT":
        authority, path = head.target, ""
    elif head.target.lower().startswith("http://"):
        authority, slash, rest = head.target[len("http://") :].partition("/")
        path = f"{slash}{rest}" or "/"
    else:
        raise _Rejected(400, "this is a proxy: it takes CONNECT and http:// addresses")
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = authority, "80"
    host = normalize_host(name)
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _Rejected(400, "the request names no host that can be reached")
    return host, int(port), path


async def _open_directly(origin: Origin, rule: HostRule) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    addresses = await resolve_addresses(origin)
    usable = [each for each in addresses if rule.names_machine or (is_public_enough(each) and not _is_own(each))]
    if not usable:
        raise OSError(f"its name stands for {', '.join(addresses)}, which is this machine or its link")
    problem: OSError | None = None
    for address in usable:
        try:
            return await asyncio.open_connection(address, origin.port)
        except OSError as error:
            problem = error
    raise problem or OSError("no address")


def _is_own(address: str) -> bool:
    """Whether it is one of this machine's in its network: it would be reached from itself. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, _ANY_PORT))
            return probe.getsockname()[0] == address.partition("%")[0]
    except OSError:
        return False


async def _open_tunnel(origin: Origin, proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(proxy.origin.host, proxy.origin.port)
    try:
        target = f"{origin.host_in_url}:{origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
        lines += [f"proxy-authorization: {proxy.authorization}"] if proxy.authorization else []
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        answer = await reader.readuntil(_HEAD_END)
        if not answer.split(b" ", 2)[1].startswith(b"2"):
            raise OSError(f"the proxy {proxy.origin} refused it")
    except BaseException:
        writer.close()
        raise
    return reader, writer


def _format_request(head: RequestHead, host: str, port: int, path: str) -> bytes:
    """The same request for the server itself; one for each connection, so that none is for somebody else.

    It is for the host that was looked for on the list: one that serves several would go by the client's word.
    """
    kept = {name: value for name, value in head.headers.items() if name not in _REPLACED_HEADERS}
    named = Origin(scheme="http", host=host, port=port).authority
    lines = [f"{head.method} {path} HTTP/1.1", f"host: {named}", *(f"{name}: {value}" for name, value in kept.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")


def _format_refusal(refusal: _Rejected) -> bytes:
    body = f"inspan: {refusal}.\n".encode()
    lines = [f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}", f"content-length: {len(body)}"]
    lines += ["content-type: text/plain; charset=utf-8", "connection: close", "", ""]
    return "\r\n".join(lines).encode("ascii") + body


async def _join(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter], server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Passes bytes both ways until both sides have ended; what one side has ended, the other may still finish."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(client[0], server[1]))
            group.create_task(_pass_on(server[0], client[1]))
    except* OSError:
        pass  # One side is gone.
    finally:
        server[1].close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    with suppress(OSError):
        if target.can_write_eof():
            target.write_eof()
