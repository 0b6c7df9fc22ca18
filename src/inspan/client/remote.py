"""The client of a server: the same operations as requests, events as they are sent, taken up again where they broke."""

import asyncio
import base64
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec

from inspan.errors import AnswerLost, BadInput, InspanError, ServerRefused, ServerUnreachable
from inspan.framing.http import AnswerHead
from inspan.framing.proxy import proxy_variables
from inspan.framing.sse import EventStreamReader, SentEvent
from inspan.gateway.http.client import Client as HttpClient
from inspan.gateway.http.client import ConnectionCut, Exchange, Unreachable
from inspan.gateway.http.routes import Origin, hide_secrets, read_base_url
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS, Record, decode_event
from inspan.runs.find import no_run_error

from .operations import Operation, find_operation
from .problems import Problem, restore_ending, restore_error
from .retries import Retries, check_reconnect_s
from .values import OutputPiece, RunRecord

PREFIX = "/api/v1"
_LOG = logging.getLogger("inspan.client")
_ANSWER_S = 120.0
# A server sends something at least every 15 s.
_SILENCE_S = 45.0
_LIMIT_BYTES = 256 * 1024 * 1024
# What stands before a server says one of these while it cannot be reached.
_GATEWAY_STATUSES = frozenset({502, 503, 504})
_JSON = {"content-type": "application/json"}
_STREAM_TYPE = "text/event-stream"
_HEARTBEAT = b":"


class _SentRecord(msgspec.Struct, frozen=True):
    run_id: str
    n: int
    t: float
    event: msgspec.Raw


class _SentEnd(msgspec.Struct, frozen=True):
    """Why a stream is over, or has left one of its runs; with the `code` of an error, unless its run has ended."""

    run_id: str
    detail: str = ""
    code: str = ""


class _SentPiece(msgspec.Struct, frozen=True):
    """A piece of output; as base64 where it is no UTF-8."""

    offset: int
    text: str = ""
    base64: str = ""


class _Busy(Exception):
    """The server refuses for the moment, and says that it will not for long."""

    def __init__(self, error: InspanError) -> None:
        super().__init__(error.message)
        self.error = error


class RemoteBackend:
    """Asks a server of inspan's. A connection is made for each request, so that it may be used in any loop."""

    def __init__(
        self, url: str, *, token: str, env: Mapping[str, str], ca_files: Iterable[str], reconnect_s: float
    ) -> None:
        self._origin, self._path = _read_url(url)
        self._token = token
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise BadInput("token", "(hidden)", "it cannot be sent.", next_step="`inspan serve` prints it.")
        self._proxies = proxy_variables(env)
        self._ca_files = tuple(ca_files)
        self._reconnect_s = check_reconnect_s(reconnect_s)

    def __repr__(self) -> str:
        return repr(f"{self._origin}{self._path}")

    async def call(self, name: str, params: msgspec.Struct) -> Any:
        operation = find_operation(name)
        target, body = _build_request(operation, params)
        if operation.creates:
            head, answer = await self._create(target, body)
        else:
            head, answer = await self._ask(operation.method, target, headers=_JSON if body else {}, body=body)
        try:
            return msgspec.json.decode(answer, type=know_type(operation.result))
        except DECODE_ERRORS as error:
            raise self._strange_error(head.status, str(error)) from error

    async def follow(self, run: str, *, after: int, kinds: Sequence[str]) -> AsyncIterator[Record]:
        def build_target(last: str) -> str:
            query = {"after": str(after), **_join_kinds(kinds)}
            return f"{PREFIX}/runs/{_quote_run(run)}/stream?{urlencode(query)}"

        async for event in self._stream(build_target, first=str(after) if after else ""):
            sent = self._decode(event.data, _SentRecord)
            yield Record(sent.n, sent.t, decode_event(bytes(sent.event)))

    async def follow_all(self, runs: Sequence[str], *, kinds: Sequence[str]) -> AsyncIterator[RunRecord]:
        """What is new from now on in these runs, until they have ended; or in all of them, for ever."""
        seen: dict[str, int] = {}

        def build_target(last: str) -> str:
            query = [*(("run", run) for run in runs), *_join_kinds(kinds).items()]
            return f"{PREFIX}/stream?{urlencode(query)}"

        async for event in self._stream(build_target, first=""):
            if event.kind == "left":
                self._note_left(self._decode(event.data, _SentEnd))
                continue
            sent = self._decode(event.data, _SentRecord)
            if sent.n > seen.get(sent.run_id, 0):  # The end of a batch that broke off is sent again.
                seen[sent.run_id] = sent.n
                yield RunRecord(sent.run_id, Record(sent.n, sent.t, decode_event(bytes(sent.event))))

    async def output(self, run: str, name: str, *, offset: int) -> AsyncIterator[OutputPiece]:
        """A file of an agent's output from an offset on, as it grows, until the run has ended."""

        def build_target(last: str) -> str:
            return f"{PREFIX}/runs/{_quote_run(run)}/output/{_quote(name)}?offset={last or offset}"

        async for event in self._stream(build_target, first=str(offset) if offset else ""):
            sent = self._decode(event.data, _SentPiece)
            data = base64.b64decode(sent.base64) if sent.base64 else sent.text.encode()
            yield OutputPiece(sent.offset, data)

    async def _stream(self, build_target: Callable[[str], str], *, first: str) -> AsyncIterator[SentEvent]:
        """Events until the server says that there are no more; a stream that broke is taken up behind the last one.

        Raises what the server says of a run that was removed or cannot be read on: its end was never reached.
        """
        last, retries = first, Retries(self._reconnect_s)
        while True:
            try:
                async for event in self._stream_once(build_target(last), last, retries):
                    if event.kind == "end":
                        end = self._decode(event.data, _SentEnd)
                        if end.code:
                            raise restore_ending(end.code, end.detail)
                        return
                    if event.id != last:
                        retries.hear()
                    last = event.id or last
                    yield event
                lost: InspanError = self._unreachable_error("its stream broke off.")
            except ServerUnreachable as error:
                lost = error
            except _Busy as busy:
                lost = busy.error
            _LOG.warning("a stream broke and is taken up again: %s", lost.message)
            if not await retries.wait():
                raise lost

    async def _stream_once(self, target: str, last: str, retries: Retries) -> AsyncIterator[SentEvent]:
        headers = {"accept": _STREAM_TYPE, **({"last-event-id": last} if last else {})}
        client = self._connect()
        reader = EventStreamReader()
        try:
            with await self._send(client, "GET", target, headers=headers) as exchange:
                head = await self._read_head(exchange)
                if head.status != 200:
                    error = self._refusal(head, await self._read_body(exchange))
                    raise _Busy(error) if "retry-after" in head.headers else error
                if not head.headers.get("content-type", "").lower().startswith(_STREAM_TYPE):
                    raise self._unreachable_error("what answers is not a stream of inspan's.")
                while data := await self._read(exchange, _SILENCE_S):
                    if data.startswith(_HEARTBEAT):
                        retries.hear()
                    for event in reader.feed(data):
                        yield event
        finally:
            await client.close()

    async def _create(self, target: str, body: bytes) -> tuple[AnswerHead, bytes]:
        """Sends it again under the same key while its answer is lost: the server does it once."""
        headers, retries = {**_JSON, "idempotency-key": os.urandom(16).hex()}, Retries(self._reconnect_s)
        lost: AnswerLost | None = None
        while True:
            try:
                return await self._ask("POST", target, headers=headers, body=body)
            except AnswerLost as error:
                lost = lost or error
            except ServerUnreachable:
                if lost is None:
                    raise  # It was never sent.
            _LOG.warning("it is sent again: %s", lost.message)
            if not await retries.wait():
                raise lost

    async def _ask(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> tuple[AnswerHead, bytes]:
        """Raises `AnswerLost` where it was sent and may have changed something."""
        client = self._connect()
        try:
            with await self._send(client, method, target, headers=headers, body=body) as exchange:
                try:
                    head, answer = await self._read_answer(exchange)
                except ServerUnreachable as error:
                    if method == "GET":
                        raise
                    raise self._lost_error(error) from error
        finally:
            await client.close()
        return head, answer

    async def _read_answer(self, exchange: Exchange) -> tuple[AnswerHead, bytes]:
        head = await self._read_head(exchange)
        answer = await self._read_body(exchange)
        if head.status // 100 != 2:
            raise self._refusal(head, answer)
        return head, answer

    def _connect(self) -> HttpClient:
        return HttpClient(self._origin, proxies=self._proxies, ca_files=self._ca_files)

    async def _send(
        self, client: HttpClient, method: str, target: str, *, headers: Mapping[str, str], body: bytes = b""
    ) -> Exchange:
        own = {"authorization": f"Bearer {self._token}", "user-agent": "inspan", "accept-encoding": "identity"}
        try:
            return await client.send(method, self._path + target, headers={**own, **headers}, body=body)
        except Unreachable as error:
            raise self._unreachable_error(str(error)) from error

    async def _read_head(self, exchange: Exchange) -> AnswerHead:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await exchange.head()
        except (Unreachable, TimeoutError) as error:
            raise self._unreachable_error(str(error) or f"it gave no answer in {_ANSWER_S:g} s.") from error

    async def _read_body(self, exchange: Exchange) -> bytes:
        pieces, size = list[bytes](), 0
        while piece := await self._read(exchange, _ANSWER_S):
            pieces.append(piece)
            size += len(piece)
            if size > _LIMIT_BYTES:
                raise self._strange_error(200, f"it is over {_LIMIT_BYTES} bytes")
        return b"".join(pieces)

    async def _read(self, exchange: Exchange, limit_s: float) -> bytes:
        try:
            async with asyncio.timeout(limit_s):
                return await exchange.read()
        except (ConnectionCut, TimeoutError) as error:
            raise self._unreachable_error(str(error) or f"nothing came for {limit_s:g} s") from error

    def _refusal(self, head: AnswerHead, answer: bytes) -> InspanError:
        try:
            return restore_error(msgspec.json.decode(answer, type=know_type(Problem)))
        except DECODE_ERRORS as error:
            if head.status in _GATEWAY_STATUSES:
                return self._unreachable_error(f"what stands before it says {head.status}.")
            return self._strange_error(head.status, str(error))

    def _note_left(self, end: _SentEnd) -> None:
        """Of many runs one that cannot be read on is no hindrance to the others."""
        if end.code:
            _LOG.warning("run %s is not followed any more: %s", end.run_id, end.detail)

    def _decode(self, text: str, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(text.encode(), type=know_type(kind))
        except DECODE_ERRORS as error:
            raise self._strange_error(200, str(error)) from error

    def _unreachable_error(self, reason: str) -> ServerUnreachable:
        step = "`inspan serve` starts one; check the address."
        return ServerUnreachable(f"The server {self._origin} does not answer: {reason}", next_step=step)

    def _lost_error(self, error: ServerUnreachable) -> AnswerLost:
        step = "Look whether it was done, by the list of runs for a start: asked again, it might be done twice."
        return AnswerLost(f"It was sent, and its answer was lost. {error.message}", next_step=step)

    def _strange_error(self, status: int, reason: str) -> ServerRefused:
        step = "Is it a server of inspan's, of this version?"
        error = ServerRefused(f"{self._origin} gave a strange answer ({status}): {reason}.", next_step=step)
        error.status = status
        return error


def _read_url(url: str) -> tuple[Origin, str]:
    try:
        return read_base_url(url)
    except BadInput as error:
        problem, step = "it is not the address of a server.", "Give one such as http://127.0.0.1:7117."
        raise BadInput("url", hide_secrets(url), problem, next_step=step) from error


def _build_request(operation: Operation, params: msgspec.Struct) -> tuple[str, bytes]:
    """The target of an operation's request, and its body."""
    given: dict[str, Any] = msgspec.to_builtins(params)
    path = operation.path
    for name in [name for name in given if f"{{{name}}}" in path]:
        value = str(given.pop(name))
        path = path.replace(f"{{{name}}}", _quote_run(value) if name == "run" else _quote(value))
    if operation.method == "POST":
        return PREFIX + path, msgspec.json.encode(given)
    query = urlencode(list(_list_query(given)))
    return f"{PREFIX}{path}{'?' if query else ''}{query}", b""


def _list_query(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in given.items():
        values = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
        yield from ((name, str(each).lower() if isinstance(each, bool) else str(each)) for each in values)


def _join_kinds(kinds: Sequence[str]) -> dict[str, str]:
    return {"kinds": ",".join(kinds)} if kinds else {}


def _quote(text: str) -> str:
    return quote(text, safe="")


def _quote_run(name: str) -> str:
    """The name of a run as one part of a path; one that would be several, or none, is the name of no run."""
    if "/" in name or name in (".", ".."):
        raise no_run_error(name)
    return _quote(name)
