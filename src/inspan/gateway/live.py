"""The upstream that is a provider: a request goes on to its address with the real key, its answer comes back."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from inspan.framing.http import AnswerHead, parse_list_header
from inspan.gateway.http.client import Client, ConnectionCut, Exchange, Unreachable
from inspan.gateway.http.routes import check_key, read_base_url
from inspan.gateway.key_mask import KeyMask
from inspan.gateway.upstream import KeyPlace, Reply, Request
from inspan.gateway.wires import BY_NAME
from inspan.system.cancellation import wait_for_end

if TYPE_CHECKING:
    from inspan.gateway.http.encodings import Decoder

_DRAIN_S = 1.0
_ENCODING_HEADERS = ("content-encoding", "content-length")
_HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
# What this side of the gateway says by itself; a client that waited for leave to send its body has got it.
_OWN_HEADERS = {"host", "content-length", "accept-encoding", "expect"}
# By these some front ends take another method, path or host than the request has.
_UNSAFE_HEADERS = {
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-host",
    "forwarded",
    "via",
}
_UNSAFE_PREFIXES = ("proxy-", "x-forwarded-")


class LiveUpstream:
    """Passes requests on to `base_url`; to be closed.

    The key goes into the one place where a provider of that wire looks for it, and is hidden in what comes back.
    Without a key, headers go as they are: the agent has brought a login of its own.
    """

    def __init__(
        self,
        *,
        base_url: str,
        key: str,
        proxies: Mapping[str, str] | None = None,
        ca_files: Iterable[str] = (),
        drain_s: float = _DRAIN_S,
    ) -> None:
        origin, self._path = read_base_url(base_url)
        check_key(key)
        self._client = Client(origin, proxies=proxies, ca_files=ca_files)
        self._key = key
        self._drain_s = drain_s

    async def answer(self, request: Request, reply: Reply) -> None:
        target, headers = self._path + request.path, _select_headers(request.headers)
        if self._key:
            target, headers = _add_key(request.key_place, self._key, target, headers)
        try:
            exchange = await self._client.send(request.method, target, headers=headers, body=request.body)
        except Unreachable as error:
            return await _refuse(request, reply, str(error))
        except asyncio.CancelledError:
            reply.note("never sent")
            raise
        with exchange:
            relay = _ResponseRelay(request, exchange, reply, KeyMask(self._key))
            try:
                await relay.run()
            except (ConnectionError, asyncio.CancelledError):
                await self._drain(relay)
                raise

    async def close(self) -> None:
        """Drops every connection; bounded and idempotent."""
        await self._client.close()

    async def _drain(self, relay: "_ResponseRelay") -> None:
        """The agent has gone. What the provider still says is read for a moment, for it tells what was spent.

        On a task of its own: that the agent's connection is gone may be told to this one twice.
        """
        drain = relay.drain(timeout_s=self._drain_s)
        await wait_for_end(asyncio.get_running_loop().create_task(drain))


class _ResponseRelay:
    """One answer on its way from the provider to the agent; goes on where it was interrupted."""

    def __init__(self, request: Request, exchange: Exchange, reply: Reply, mask: KeyMask) -> None:
        self._request = request
        self._exchange = exchange
        self._reply = reply
        self._mask = mask
        self._decoder: Decoder | None = None
        self._has_begun = False

    async def run(self) -> None:
        try:
            head = await self._exchange.head()
        except Unreachable as error:
            if self._claim_start():
                await _refuse(self._request, self._reply, str(error), problem="unanswered")
            return None
        if self._claim_start():
            try:
                headers = self._read_headers(head)
            except ValueError as error:
                return await _refuse(self._request, self._reply, str(error), problem="unanswered")
            await self._reply.start(head.status, headers)
        return await self._relay_body(self._reply)

    def _read_headers(self, head: AnswerHead) -> dict[str, str]:
        """Raises `ValueError` for an encoding in which the key could not be looked for."""
        headers = _select_answer_headers(head)
        encoding = headers.get("content-encoding", "")
        if self._mask.is_needed and encoding.lower() not in ("", "identity"):
            from inspan.gateway.http.encodings import Decoder  # Start-up time: it was not asked for.

            self._decoder = Decoder(encoding)
            headers = {name: value for name, value in headers.items() if name not in _ENCODING_HEADERS}
        return self._mask.mask_headers(headers)

    async def drain(self, *, timeout_s: float) -> None:
        """The rest of it for the meter alone, as long as there is time."""
        self._reply = _DetachedReply(self._reply)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.run()

    def _claim_start(self) -> bool:
        """True once: an answer that was interrupted at its beginning is not begun again."""
        begins, self._has_begun = not self._has_begun, True
        return begins

    async def _relay_body(self, reply: Reply) -> None:
        try:
            while data := await self._exchange.read():
                if piece := self._mask.feed(self._decoder.feed(data) if self._decoder else data):
                    await reply.write(piece)
        except (ConnectionCut, ValueError):
            reply.cut()
        else:
            if piece := self._mask.finish():
                await reply.write(piece)
            await reply.finish()


class _DetachedReply:
    """A reply to an agent that has gone: measured as before, and nobody minds that it does not arrive."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.note = reply.note

    def cut(self) -> None:
        """The agent was first to go."""

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        with contextlib.suppress(ConnectionError):
            await self._reply.start(status, headers)

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._reply.write(data)

    async def finish(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._reply.finish()


def _select_headers(headers: Mapping[str, str]) -> dict[str, str]:
    dropped = _OWN_HEADERS | _UNSAFE_HEADERS | _hop_by_hop_headers(headers)
    kept = {
        name: value for name, value in headers.items() if name not in dropped and not name.startswith(_UNSAFE_PREFIXES)
    }
    # Compressed for the gateway, an answer could not be read by an agent that never asked for it.
    return {**kept, "accept-encoding": "identity"}


def _add_key(key_place: KeyPlace, key: str, target: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
    if key_place.in_query:
        return f"{target}{'&' if '?' in target else '?'}{key_place.name}={quote(key, safe='')}", headers
    return target, {**headers, key_place.name: f"{key_place.scheme} {key}" if key_place.scheme else key}


def _select_answer_headers(head: AnswerHead) -> dict[str, str]:
    """Cookies stay here: they are the provider's for its own host, and no agent could send them back."""
    dropped = _hop_by_hop_headers(head.headers)
    if "transfer-encoding" in head.headers:
        dropped.add("content-length")
    return {n: value for n, value in head.headers.items() if n not in dropped and not n.startswith("proxy-")}


def _hop_by_hop_headers(headers: Mapping[str, str]) -> set[str]:
    """Those that are about one connection alone, with the ones that it names itself."""
    return _HOP_BY_HOP | parse_list_header(headers.get("connection", ""))


async def _refuse(request: Request, reply: Reply, message: str, *, problem: str = "unreachable") -> None:
    """`unreachable`: the request was never sent; `unanswered`: it was, and the provider may have worked for it."""
    body = BY_NAME[request.wire].encode_error(502, message)
    reply.note(f"{problem}: {message}")
    await reply.start(502, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
