"""The upstream that is a provider: a request goes on to its address with the real key, its answer comes back."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from inspan.gateway.http.client import Client, Cut, Exchange, Unreachable
from inspan.gateway.http.heads import AnswerHead, words
from inspan.gateway.http.routes import check_key, read_base_url
from inspan.gateway.upstream import Reply, Request
from inspan.gateway.wires import BY_NAME

_DRAIN_S = 1.0
_HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
# What this side of the gateway says by itself; a client that waited for leave to send its body has got it.
_OURS = {"host", "content-length", "accept-encoding", "expect"}


class LiveUpstream:
    """Passes requests on to `base_url`; to be closed.

    The run's token becomes the provider's key wherever it stands in a header or in the query, so no wire needs to be
    known for it. Without a key, headers go as they are: the agent has brought a login of its own.
    """

    def __init__(
        self,
        *,
        base_url: str,
        token: str,
        key: str,
        proxies: Mapping[str, str] | None = None,
        ca_files: Iterable[str] = (),
        drain_s: float = _DRAIN_S,
    ) -> None:
        origin, self._path = read_base_url(base_url)
        check_key(key)
        self._client = Client(origin, proxies=proxies, ca_files=ca_files)
        self._token = token
        self._key = key
        self._drain_s = drain_s

    async def answer(self, request: Request, reply: Reply) -> None:
        target = self._path + self._with_key_in_query(request.path)
        headers = self._headers(request.headers)
        try:
            exchange = await self._client.send(request.method, target, headers=headers, body=request.body)
        except Unreachable as error:
            return await _refuse(request, reply, str(error))
        with exchange:
            passage = _Passage(request, exchange, reply)
            try:
                await passage.run()
            except (ConnectionError, asyncio.CancelledError):
                await self._drain(passage)
                raise

    async def close(self) -> None:
        """Drops every connection; bounded and idempotent."""
        await self._client.close()

    async def _drain(self, passage: "_Passage") -> None:
        """The agent has gone. What the provider still says is read for a moment, for it tells what was spent.

        On a task of its own: that the agent's connection is gone may be told to this one twice.
        """
        draining = asyncio.get_running_loop().create_task(passage.drain(timeout_s=self._drain_s))
        cancelled: asyncio.CancelledError | None = None
        while not draining.done():
            try:
                await asyncio.wait({draining})
            except asyncio.CancelledError as error:
                cancelled = error
        draining.result()
        if cancelled is not None:
            raise cancelled

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        dropped = _OURS | _hop_by_hop(headers)
        swap = bool(self._token and self._key)
        kept = {
            name: value.replace(self._token, self._key) if swap and self._token in value else value
            for name, value in headers.items()
            if name not in dropped and not name.startswith("proxy-")
        }
        # Compressed for the gateway, an answer could not be read by an agent that never asked for it.
        return {**kept, "accept-encoding": "identity"}

    def _with_key_in_query(self, target: str) -> str:
        path, mark, query = target.partition("?")
        if not (query and self._token and self._key):
            return target
        for written in (self._token, quote(self._token, safe="")):
            query = query.replace(written, quote(self._key, safe=""))
        return path + mark + query


class _Passage:
    """One answer on its way from the provider to the agent; goes on where it was interrupted."""

    def __init__(self, request: Request, exchange: Exchange, reply: Reply) -> None:
        self._request = request
        self._exchange = exchange
        self._reply = reply
        self._has_begun = False

    async def run(self) -> None:
        try:
            head = await self._exchange.head()
        except Unreachable as error:
            if self._begins():
                await _refuse(self._request, self._reply, str(error))
            return
        if self._begins():
            await self._reply.start(head.status, _answer_headers(head))
        await self._pour(self._reply)

    async def drain(self, *, timeout_s: float) -> None:
        """The rest of it for the meter alone, as long as there is time."""
        self._reply = _Unheard(self._reply)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.run()

    def _begins(self) -> bool:
        """True once: an answer that was interrupted at its beginning is not begun again."""
        begins, self._has_begun = not self._has_begun, True
        return begins

    async def _pour(self, reply: Reply) -> None:
        try:
            while data := await self._exchange.read():
                await reply.write(data)
        except Cut:
            reply.cut()
        else:
            await reply.finish()


class _Unheard:
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


def _answer_headers(head: AnswerHead) -> dict[str, str]:
    """Cookies stay here: they are the provider's for its own host, and no agent could send them back."""
    dropped = _hop_by_hop(head.headers)
    if "transfer-encoding" in head.headers:
        dropped.add("content-length")
    return {n: value for n, value in head.headers.items() if n not in dropped and not n.startswith("proxy-")}


def _hop_by_hop(headers: Mapping[str, str]) -> set[str]:
    """Those that are about one connection alone, with the ones that it names itself."""
    return _HOP_BY_HOP | words(headers.get("connection", ""))


async def _refuse(request: Request, reply: Reply, message: str) -> None:
    body = BY_NAME[request.wire].error(502, message)
    reply.note(f"unreachable: {message}")
    await reply.start(502, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
